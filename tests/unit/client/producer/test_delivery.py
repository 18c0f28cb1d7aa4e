"""Delivery: which number each attempt of a batch has, when it is retried, and what is said of one that fails."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headstream.client.producer.delivery import Delivery
from headstream.client.producer.sending import Batch
from headstream.core.model.identifiers import TopicName
from headstream.core.model.producers import MAX_EPOCH, SEQUENCES, Appended, BatchNumber, ProducerId
from headstream.errors import (
    ClosedError,
    HeadstreamError,
    LimitError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ProducerFencedError,
    ProducersLimitError,
    SequenceError,
    ServerError,
    ServerUnreachableError,
)

TOPIC = TopicName("shop", "orders")
STORED = Appended(10, 5, 3)
UNKNOWN_COMMAND = ServerError("no such command")
UNKNOWN_COMMAND.status = 3
SERVER_FAULT = ServerError("the server failed", where="there", advice="Look")
SERVER_FAULT.status = 1
SHUTTING_DOWN = ClosedError("the server is shutting down", where="the server", advice="Wait")
SHUTTING_DOWN.status = 20001
BROKEN = OutcomeUnknownError("the connection broke")


class Clock:
    """A clock that only waits move; it stands in for time.monotonic() and for the event that a pause waits on."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now_s += seconds
        return False


class Messages:
    """A transport that answers appends from a list, each with an error or a place; the last one again and again.

    Args:
        answers: What append() returns, or raises.
        ids: What init_producer() returns, one after the other.
    """

    def __init__(self, *answers: Appended | HeadstreamError, ids: list[ProducerId | None] | None = None) -> None:
        self.answers = list(answers) or [STORED]
        self.ids = [ProducerId(7, 0)] if ids is None else ids
        self.sent: list[BatchNumber | None] = []
        self.retry_timeout_s: list[float | None] = []
        self.released: list[int] = []
        self.on_append: Callable[[], None] = lambda: None

    def append(
        self, topic: TopicName, partition: int, batch: bytes, number: BatchNumber | None, *, retry_timeout_s: float | None
    ) -> Appended:
        assert topic == TOPIC
        self.sent.append(number)
        self.retry_timeout_s.append(retry_timeout_s)
        self.on_append()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, HeadstreamError):
            raise answer
        return answer


class Numbered(Messages):
    """The same of a transport that numbers batches."""

    def init_producer(self, *, retry_timeout_s: float | None = None) -> ProducerId | None:
        self.retry_timeout_s.append(retry_timeout_s)
        return self.ids.pop(0)

    def release_producer(self, topic: TopicName, producer_id: int) -> None:
        assert topic == TOPIC
        self.released.append(producer_id)
        raise ServerUnreachableError("it is gone")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("headstream.client.producer.delivery.time", clock)
    monkeypatch.setattr("headstream.client.producer.delivery.random", SimpleNamespace(random=lambda: 1.0))
    return clock


def delivery_of(messages: Any, clock: Clock, *, finds_repeats: bool = False) -> Delivery:
    delivery = Delivery(messages, TOPIC, finds_repeats=finds_repeats)
    delivery._stop = clock  # type: ignore[assignment]
    return delivery


def batch(clock: Clock, *, partition: int = 1, count: int = 3, timeout_s: float = 10.0) -> Batch:
    owner: Any = None
    deadline_us = int((clock.now_s + timeout_s) * 1e6)
    return Batch(1, partition, 0, deadline_us, owner, data=bytearray(b"data"), count=count)


def test_deliver_numbers_the_batches_of_each_partition_by_their_messages(clock: Clock) -> None:
    messages = Numbered()
    delivery = delivery_of(messages, clock)
    assert delivery.producer_id is None
    for partition, count in ((1, 3), (1, 2), (2, 4), (1, 1), (2, 1)):
        assert delivery.deliver(batch(clock, partition=partition, count=count)) == STORED
    assert messages.sent == [(7, 0, 0), (7, 0, 3), (7, 0, 0), (7, 0, 5), (7, 0, 4)]
    assert delivery.producer_id == 7
    assert messages.retry_timeout_s == [10.0] * 6, "the id and each batch have the time that the batch has left"


def test_deliver_begins_again_at_0_after_the_greatest_sequence(clock: Clock) -> None:
    messages = Numbered()
    delivery = delivery_of(messages, clock)
    delivery.deliver(batch(clock, count=1))
    delivery._sequences[1] = SEQUENCES - 2
    for _ in range(2):
        delivery.deliver(batch(clock, count=3))
    assert messages.sent == [(7, 0, 0), (7, 0, SEQUENCES - 2), (7, 0, 1)]


def test_deliver_retries_with_the_same_number_while_the_server_shuts_down_or_has_too_many_producers(clock: Clock) -> None:
    for error in (SHUTTING_DOWN, ProducersLimitError("too many")):
        messages = Numbered(error, error, STORED)
        assert delivery_of(messages, clock).deliver(batch(clock)) == STORED
        assert messages.sent == [(7, 0, 0)] * 3
        assert clock.waits == [0.05, 0.1]
        clock.waits.clear()


def test_deliver_ends_its_retries_at_the_deadline_with_what_is_known_of_the_batch(clock: Clock) -> None:
    messages = Numbered(SHUTTING_DOWN)
    with pytest.raises(OutcomeUnknownError, match="the messages may or may not be stored: the server is shutting") as caught:
        delivery_of(messages, clock).deliver(batch(clock, timeout_s=3))
    assert (caught.value.where, caught.value.advice) == ("the server", "Wait")
    assert sum(clock.waits) == pytest.approx(3)
    assert min(each for each in messages.retry_timeout_s if each is not None) >= 0.1
    messages = Numbered(ProducersLimitError("too many"))
    with pytest.raises((ProducersLimitError, ServerUnreachableError)) as refused:
        delivery_of(messages, clock).deliver(batch(clock, timeout_s=3))
    assert not isinstance(refused.value, OutcomeUnknownError), "it was refused each time: it is not stored"


def test_deliver_sends_nothing_after_the_deadline(clock: Clock) -> None:
    messages = Numbered()
    late = batch(clock, timeout_s=1)
    clock.now_s += 1
    with pytest.raises(ServerUnreachableError, match=r"within delivery_timeout_ms \(shop/orders\)") as caught:
        delivery_of(messages, clock).deliver(late)
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert messages.sent == []


@pytest.mark.parametrize(
    ("error", "raised"),
    [(BROKEN, OutcomeUnknownError), (SERVER_FAULT, OutcomeUnknownError), (LimitError("too big"), LimitError)],
    ids=["the connection broke", "the server failed", "refused"],
)
def test_deliver_numbers_the_next_batch_in_a_new_epoch_when_one_has_failed(
    clock: Clock, error: HeadstreamError, raised: type[HeadstreamError]
) -> None:
    messages = Numbered(STORED, error, STORED)
    delivery = delivery_of(messages, clock)
    delivery.deliver(batch(clock))
    with pytest.raises(raised):
        delivery.deliver(batch(clock))
    for _ in range(2):
        delivery.deliver(batch(clock))
    assert messages.sent == [(7, 0, 0), (7, 0, 3), (7, 1, 0), (7, 1, 3)]
    assert clock.waits == []


def test_deliver_asks_for_a_new_id_when_the_epochs_of_one_are_used_up(clock: Clock) -> None:
    messages = Numbered(LimitError("no"), ids=[ProducerId(7, MAX_EPOCH - 1), ProducerId(8, 0)])
    delivery = delivery_of(messages, clock)
    for _ in range(3):
        with pytest.raises(LimitError):
            delivery.deliver(batch(clock))
    assert messages.sent == [(7, MAX_EPOCH - 1, 0), (7, MAX_EPOCH, 0), (8, 0, 0)]


@pytest.mark.parametrize("error", [SequenceError("gap"), ProducerFencedError("old"), PermissionDeniedError("not yours")])
def test_deliver_begins_with_a_new_id_when_the_log_has_lost_the_producer(clock: Clock, error: HeadstreamError) -> None:
    messages = Numbered(STORED, error, STORED, ids=[ProducerId(7, 0), ProducerId(8, 0)])
    delivery = delivery_of(messages, clock)
    for _ in range(3):
        assert delivery.deliver(batch(clock)) == STORED
    assert messages.sent == [(7, 0, 0), (7, 0, 3), (8, 0, 0), (8, 0, 3)]


def test_deliver_gives_up_after_three_new_ids(clock: Clock) -> None:
    messages = Numbered(SequenceError("gap"), ids=[ProducerId(number, 0) for number in range(1, 9)])
    delivery = delivery_of(messages, clock)
    with pytest.raises(SequenceError):
        delivery.deliver(batch(clock))
    assert messages.sent == [(number, 0, 0) for number in range(1, 5)]
    messages.answers = [STORED]
    delivery.deliver(batch(clock))
    assert messages.sent[-1] == (4, 1, 0), "the batch that was given up is fenced by a new epoch"


def test_deliver_never_begins_with_a_new_id_when_the_batch_is_possibly_stored(clock: Clock) -> None:
    for error in (SequenceError("gap"), PermissionDeniedError("no"), UNKNOWN_COMMAND):
        messages = Numbered(SHUTTING_DOWN, error, STORED, ids=[ProducerId(7, 0), ProducerId(8, 0)])
        delivery = delivery_of(messages, clock)
        with pytest.raises(OutcomeUnknownError):
            delivery.deliver(batch(clock))
        delivery.deliver(batch(clock))
        assert messages.sent == [(7, 0, 0), (7, 0, 0), (7, 1, 0)]


def test_deliver_continues_without_numbers_when_an_older_server_has_taken_over(clock: Clock) -> None:
    messages = Numbered(STORED, UNKNOWN_COMMAND, Appended(0, None, -1))
    delivery = delivery_of(messages, clock)
    for expected in (STORED, Appended(0, None, 3), Appended(0, None, 3)):
        assert delivery.deliver(batch(clock)) == expected
    assert messages.sent == [(7, 0, 0), (7, 0, 3), None, None]
    assert delivery.producer_id is None
    assert messages.retry_timeout_s[-1] == 10.0, "a batch without a number has its time too"
    delivery.release()
    assert messages.released == []


@pytest.mark.parametrize("error", [PermissionDeniedError("no"), SequenceError("gap"), SERVER_FAULT, UNKNOWN_COMMAND])
def test_deliver_raises_an_error_of_an_unnumbered_batch_at_once(clock: Clock, error: HeadstreamError) -> None:
    messages = Messages(error)
    with pytest.raises(OutcomeUnknownError if error is SERVER_FAULT else type(error)):
        delivery_of(messages, clock).deliver(batch(clock))
    assert messages.sent == [None]


def test_deliver_sends_without_numbers_where_the_server_has_none(clock: Clock) -> None:
    messages = Numbered(Appended(0, None, -1), ids=[None])
    delivery = delivery_of(messages, clock)
    assert [delivery.deliver(batch(clock)).count for _ in range(2)] == [3, 3]
    assert messages.sent == [None, None], "it asks once"
    assert delivery_of(messages, clock, finds_repeats=True)._finds_repeats


def test_deliver_sends_a_batch_that_has_little_time_left_with_a_tenth_of_a_second_at_least(clock: Clock) -> None:
    for timeout_s, allowed_s in ((0.5, 0.5), (0.05, 0.1)):
        messages = Numbered()
        assert delivery_of(messages, clock).deliver(batch(clock, timeout_s=timeout_s)) == STORED
        assert messages.retry_timeout_s == [pytest.approx(allowed_s, abs=1e-5)] * 2


def test_deliver_takes_the_count_that_a_server_tells_also_when_it_stored_nothing(clock: Clock) -> None:
    messages = Messages(Appended(0, None, 0))
    assert delivery_of(messages, clock).deliver(batch(clock)).count == 0


def test_deliver_does_not_guess_how_many_messages_were_stored_where_the_topic_drops_repeats(clock: Clock) -> None:
    messages = Messages(Appended(0, None, -1), Appended(0, None, 2))
    delivery = delivery_of(messages, clock, finds_repeats=True)
    assert [delivery.deliver(batch(clock)).count for _ in range(2)] == [-1, 2]
    assert delivery_of(messages, clock).deliver(batch(clock)).count == 2


def test_deliver_begins_a_new_epoch_when_it_is_interrupted(clock: Clock) -> None:
    messages = Numbered()
    delivery = delivery_of(messages, clock)
    delivery.deliver(batch(clock))

    def interrupt() -> None:
        messages.on_append = lambda: None
        raise KeyboardInterrupt

    messages.on_append = interrupt
    with pytest.raises(KeyboardInterrupt):
        delivery.deliver(batch(clock))
    delivery.deliver(batch(clock))
    assert messages.sent == [(7, 0, 0), (7, 0, 3), (7, 1, 0)]


def test_release_is_for_producers_that_the_server_knows(clock: Clock) -> None:
    messages = Numbered(LimitError("no"), STORED)
    delivery = delivery_of(messages, clock)
    delivery.release()
    with pytest.raises(LimitError):
        delivery.deliver(batch(clock))
    delivery.release()
    assert messages.released == [], "nothing of it is stored"
    delivery.deliver(batch(clock))
    delivery.release()  # the server is gone: the state expires there
    assert messages.released == [7]
