"""Messages: where a poll begins, what it brings, what it commits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headstream.broker.broker import Broker
from headstream.core.codec.binary import decode_polled
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import OffsetOwner, Polled, PollingStrategy
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import InvalidInputError, InvalidOptionError, PartitionNotFoundError
from headstream.log.opening import open_memory
from tests.support.log.logs import Clock, batch, payloads

TOPIC = TopicName("shop", "orders")
GROUP = OffsetOwner.group("g")


@pytest.fixture
def clock() -> Clock:
    return Clock(1000)


@pytest.fixture
def broker(clock: Clock) -> Iterator[Broker]:
    broker = Broker(open_memory(segment_bytes=4096), clock_us=clock, entropy=lambda count: bytes(range(count)))
    broker.topics.create(NewTopic(TOPIC, 2, Limits.IGGY))
    yield broker
    broker.close()


def messages(polled: Polled) -> list[Message]:
    return [message for chunk in polled.chunks for message in decode_polled(chunk)]


@pytest.mark.parametrize(
    ("strategy", "count", "expected"),
    [
        (PollingStrategy.first(), 3, [0, 1, 2]),
        (PollingStrategy.last(), 3, [7, 8, 9]),
        (PollingStrategy.last(), 100, list(range(10))),
        (PollingStrategy.offset(4), 2, [4, 5]),
        (PollingStrategy.offset(9), 5, [9]),
        (PollingStrategy.offset(10), 5, []),
        (PollingStrategy.offset(999), 5, []),
        (PollingStrategy.timestamp(0), 2, [0, 1]),
        (PollingStrategy.timestamp(1003), 2, [6, 7]),
        (PollingStrategy.timestamp(1004), 9, [8, 9]),
        (PollingStrategy.timestamp(2000), 9, []),
    ],
)
def test_poll_begins_where_the_strategy_says(
    broker: Broker, clock: Clock, strategy: PollingStrategy, count: int, expected: list[int]
) -> None:
    for number in range(5):
        clock.now_us = 1000 + number
        broker.messages.send(TOPIC, 1, batch(b"a", b"b"))
    polled = broker.messages.poll(TOPIC, 1, PollRequest(strategy, count))
    assert [message.offset for message in messages(polled)] == expected
    assert (polled.count, polled.end_offset, polled.partition) == (len(expected), 10, 1)
    if expected:
        assert polled.next_offset == expected[-1] + 1


def test_poll_goes_across_sends_and_segments(broker: Broker) -> None:
    for number in range(200):
        broker.messages.send(TOPIC, 1, batch(b"%03d" % number * 20))
    polled = broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.offset(10), 150))
    assert payloads(messages(polled)) == [b"%03d" % number * 20 for number in range(10, 160)]


def test_poll_ends_at_the_bytes_asked_for_but_brings_one_message(broker: Broker) -> None:
    broker.messages.send(TOPIC, 1, batch(*[b"x" * 55] * 100))  # 100 bytes each as stored
    assert broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 100, size_bytes=1000)).count == 10
    assert broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 100, size_bytes=1)).count == 1


@pytest.mark.parametrize(("limit", "count"), [(130_000, 1), (199_000, 1), (250_000, 2), (400_000, 3)])
def test_poll_brings_another_long_message_only_if_it_fits(broker: Broker, limit: int, count: int) -> None:
    for _ in range(4):
        broker.messages.send(TOPIC, 1, batch(bytes(100_000)))
    assert broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 100, size_bytes=limit)).count == count


def test_poll_steps_over_what_is_not_available_and_moves_past_it(broker: Broker) -> None:
    broker.messages.send(TOPIC, 1, batch(*(b"%d" % n for n in range(10))))
    for offset, state in ((0, 20), (3, 10), (4, 77), (8, 20), (9, 30)):
        broker.messages.set_state(TOPIC, 1, [offset], state)
    polled = broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 10))
    assert [message.offset for message in messages(polled)] == [1, 2, 5, 6, 7]
    assert (polled.count, polled.next_offset) == (5, 10)
    assert broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 3)).next_offset == 6
    polled = broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.offset(8), 10))
    assert (polled.count, polled.chunks, polled.next_offset) == (0, (), 10)
    polled = broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 10, states=frozenset({20, 77})))
    assert [message.offset for message in messages(polled)] == [0, 4, 8]
    assert broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 10, states=None)).count == 10


def test_poll_next_goes_on_where_the_consumer_has_committed(broker: Broker) -> None:
    broker.messages.send(TOPIC, 1, batch(*(b"%d" % n for n in range(5))))
    strategy = PollingStrategy.next()
    assert broker.messages.poll(TOPIC, 1, PollRequest(strategy, 2, consumer=GROUP)).next_offset == 2
    assert broker.offsets.committed(TOPIC, GROUP) == {}
    assert broker.messages.poll(TOPIC, 1, PollRequest(strategy, 2, consumer=GROUP, auto_commit=True)).next_offset == 2
    assert broker.offsets.committed(TOPIC, GROUP) == {1: 2}
    assert [
        m.offset for m in messages(broker.messages.poll(TOPIC, 1, PollRequest(strategy, 9, consumer=GROUP, auto_commit=True)))
    ] == [2, 3, 4]
    assert broker.messages.poll(TOPIC, 1, PollRequest(strategy, 9, consumer=GROUP, auto_commit=True)).count == 0
    assert broker.offsets.committed(TOPIC, GROUP) == {1: 5}
    assert broker.messages.poll(TOPIC, 1, PollRequest(strategy, 9, consumer=OffsetOwner.named("g"))).count == 5


def test_commit_refuses_a_partition_that_is_not_there(broker: Broker) -> None:
    broker.offsets.commit(TOPIC, GROUP, {1: 0, 2: 7})
    assert broker.offsets.committed(TOPIC, GROUP) == {1: 0, 2: 7}
    with pytest.raises(PartitionNotFoundError, match=r"'shop/orders' has no partition 3\. Use a partition from 1 to 2"):
        broker.offsets.commit(TOPIC, GROUP, {3: 0})


@pytest.mark.parametrize(
    ("strategy", "count", "error"),
    [(PollingStrategy.first(), 0, InvalidInputError), (PollingStrategy.next(), 1, InvalidOptionError)],
)
def test_poll_refuses_what_makes_no_sense(broker: Broker, strategy: PollingStrategy, count: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        broker.messages.poll(TOPIC, 1, PollRequest(strategy, count))


@pytest.mark.parametrize("number", [0, 3, -1])
def test_send_and_poll_refuse_a_partition_that_is_not_there(broker: Broker, number: int) -> None:
    with pytest.raises(PartitionNotFoundError, match=f"has no partition {number}"):
        broker.messages.send(TOPIC, number, batch(b"x"))
    with pytest.raises(PartitionNotFoundError, match=f"has no partition {number}"):
        broker.messages.poll(TOPIC, number, PollRequest(PollingStrategy.first(), 1))


def test_polls_one_after_the_other_see_states_that_are_set_between_them(broker: Broker) -> None:
    broker.messages.send(TOPIC, 1, batch(*(b"%d" % n for n in range(8))))

    def polled(offset: int) -> list[bytes | None]:
        return [
            message.payload
            for message in messages(broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.offset(offset), 1)))
        ]

    assert [polled(offset) for offset in range(4)] == [[b"0"], [b"1"], [b"2"], [b"3"]]
    broker.messages.set_state(TOPIC, 1, [4, 6], 20)
    assert [polled(offset) for offset in (4, 5)] == [[b"5"], [b"5"]]
    broker.messages.set_state(TOPIC, 1, [4, 6], 1)
    assert [polled(offset) for offset in (6, 7)] == [[b"6"], [b"7"]]


def test_send_takes_time_and_ids_from_the_callables(broker: Broker, clock: Clock) -> None:
    assert broker.messages.send(TOPIC, 1, batch(b"a")) == 0
    clock.now_us = 5_000_000
    assert broker.messages.send(TOPIC, 1, batch(b"b")) == 1
    first, second = messages(broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 10)))
    assert (first.timestamp, second.timestamp) == (1000, 5_000_000)
    assert second.id.to_bytes(16, "little")[:6] == (5000).to_bytes(6, "big")
    assert broker.topics.get(TOPIC).created_us == 1000
