"""What is there is delivered: in order, and again until it is done."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

import headstream as hs
from tests.behaviour.conftest import Place, at, numbers

Send = Callable[..., None]


def test_a_consumer_gets_every_message_in_order(log: hs.Client, send: Send) -> None:
    sent = [b"%d" % number for number in range(2500)]
    send(*sent)
    with log.consumer("shop/orders", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == sent
    assert [message.offset for message in log.consumer("shop/orders", timeout_ms=0)] == list(range(2500))


def test_a_consumer_gets_all_partitions_or_those_it_names(log: hs.Client, send: Send) -> None:
    for partition in numbers(3):
        send(*(b"%d %d" % (partition, number) for number in range(1500)), topic="shop/carts", partition=partition)
    with log.consumer("shop/carts", timeout_ms=0) as consumer:
        messages = list(consumer)
    assert Counter(message.partition for message in messages) == {at(1): 1500, at(2): 1500, at(3): 1500}
    for partition in numbers(3):
        mine = [message.offset for message in messages if message.partition == partition]
        assert mine == list(range(1500))
    with log.consumer("shop/carts", partitions=[at(3), at(1)], timeout_ms=0) as consumer:
        assert {message.partition for message in consumer} == {at(1), at(3)}


def test_offsets_are_committed_after_the_body_ran(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(5)))
    committed = []
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        for _ in consumer:
            committed.append(log.offsets("shop/orders", "g").get(at(1)))
    assert committed == [None, 1, 2, 3, 4]
    assert log.offsets("shop/orders", "g") == {at(1): 5}


def test_leaving_the_loop_commits_the_message_in_hand(log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")
    with log.consumer("shop/orders", group="g") as consumer:
        for message in consumer:
            if message.payload == b"b":
                break
    assert log.offsets("shop/orders", "g") == {at(1): 2}


def test_an_exception_in_the_body_commits_nothing_of_its_message(log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")

    def fail_at_b() -> None:
        with log.consumer("shop/orders", group="g") as consumer:
            for message in consumer:
                if message.payload == b"b":
                    raise RuntimeError("cannot do b")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot do b"):
            fail_at_b()
        assert log.offsets("shop/orders", "g") == {at(1): 1}
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"b", b"c"]


def test_closing_the_log_under_a_failed_body_commits_nothing_of_its_message(place: Place, log: hs.Client, send: Send) -> None:
    send(b"a", b"b")

    def fail() -> None:
        with place.connect() as other:
            for _ in other.consumer("shop/orders", group="g"):
                raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert log.offsets("shop/orders", "g") == {}


def test_offsets_survive_closing(place: Place, log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")
    with log.consumer("shop/orders", group="g") as consumer:
        assert next(consumer).payload == b"a"
    log.close()
    again = place.connect()
    assert again.offsets("shop/orders", "g") == {at(1): 1}
    with again.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"b", b"c"]


def test_groups_and_names_and_nobody_have_their_own_offsets(log: hs.Client, send: Send) -> None:
    send(b"a", b"b")
    with log.consumer("shop/orders", group="x") as consumer:
        next(consumer)
    with log.consumer("shop/orders", name="x", timeout_ms=0) as consumer:
        assert len(list(consumer)) == 2
    with log.consumer("shop/orders", timeout_ms=0) as consumer:
        assert len(list(consumer)) == 2
    assert log.offsets("shop/orders", "x") == {at(1): 1}
    assert log.offsets("shop/orders", name="x") == {at(1): 2}
    assert log.offsets("shop/orders", "y") == {}


def test_poll_and_commit_by_hand(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(10)))
    with log.consumer("shop/orders", group="g") as consumer:
        assert [message.offset for message in consumer.poll(4)] == [0, 1, 2, 3]
        assert log.offsets("shop/orders", "g") == {}
        consumer.commit()
        assert log.offsets("shop/orders", "g") == {at(1): 4}
        assert [message.offset for message in consumer.poll(100)] == [4, 5, 6, 7, 8, 9]
        assert consumer.poll(100) == []
    assert log.offsets("shop/orders", "g") == {at(1): 4}  # what was polled and not committed comes again
    with log.consumer("shop/orders", group="g") as consumer:
        assert [message.offset for message in consumer.poll(3)] == [4, 5, 6]


def test_poll_gathers_from_several_partitions(log: hs.Client, send: Send) -> None:
    for partition in numbers(3):
        send(b"x", b"y", topic="shop/carts", partition=partition)
    with log.consumer("shop/carts", group="g") as consumer:
        assert Counter(message.partition for message in consumer.poll(10)) == {at(1): 2, at(2): 2, at(3): 2}
        consumer.commit()
    assert log.offsets("shop/carts", "g") == {at(1): 2, at(2): 2, at(3): 2}


def test_seek_moves_a_consumer_to_any_offset_and_to_either_end(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(10)))
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert len(list(consumer)) == 10
        for place, first in ((3, 3), ("first", 0), (9, 9)):
            consumer.seek(at(1), place)
            assert next(consumer).offset == first
        consumer.seek(at(1), "last")
        assert list(consumer) == []
        send(b"new")
        assert [message.payload for message in consumer] == [b"new"]
        consumer.seek(at(1), 5)
        next(consumer)
    assert log.offsets("shop/orders", "g") == {at(1): 6}
    with (
        log.consumer("shop/orders") as consumer,
        pytest.raises(hs.PartitionNotFoundError, match=f"does not read partition {at(2)}"),
    ):
        consumer.seek(at(2), 0)


def test_a_seek_is_what_the_next_commit_or_message_makes_durable(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(10)))
    with log.consumer("shop/orders", group="g") as consumer:
        consumer.seek(at(1), 5)
        assert log.offsets("shop/orders", "g") == {}
        consumer.commit()
        assert log.offsets("shop/orders", "g") == {at(1): 5}
        assert [message.offset for message in consumer.poll(2)] == [5, 6]
        consumer.seek(at(1), 2)
    assert log.offsets("shop/orders", "g") == {at(1): 5}
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert next(consumer).offset == 5
        consumer.seek(at(1), 8)
        assert next(consumer).offset == 8
        assert log.offsets("shop/orders", "g") == {at(1): 8}


def test_start_says_where_a_new_consumer_begins(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", b"2")
    between = log.poll("shop/orders", start=2)[0].timestamp or 0
    send(b"3")
    starts: list[tuple[hs.PollingStrategy | int | str, list[bytes]]] = [
        ("first", [b"0", b"1", b"2", b"3"]),
        ("last", []),
        (2, [b"2", b"3"]),
        (hs.PollingStrategy.timestamp(between + 1), [b"3"]),
        (hs.PollingStrategy.timestamp(1 << 60), []),
    ]
    for start, expected in starts:
        with log.consumer("shop/orders", start=start, timeout_ms=0) as consumer:
            assert [message.payload for message in consumer] == expected, start
    with log.consumer("shop/orders", group="g", start="last", timeout_ms=0) as consumer:
        send(b"4")
        assert [message.payload for message in consumer] == [b"4"]
    with log.consumer("shop/orders", group="g", start="first", timeout_ms=0) as consumer:
        assert list(consumer) == []  # what the group has committed comes before `start`


def test_iteration_waits_for_what_comes(log: hs.Client, send: Send) -> None:
    got: list[bytes | None] = []
    ready = threading.Event()

    def consume() -> None:
        with log.consumer("shop/orders", group="g") as consumer:
            ready.set()
            for message in consumer:
                got.append(message.payload)
                if message.payload == b"end":
                    break

    thread = threading.Thread(target=consume)
    thread.start()
    ready.wait()
    for number in range(5):
        send(b"%d" % number)
    send(b"end")
    thread.join(60)
    assert got == [b"0", b"1", b"2", b"3", b"4", b"end"]


def test_poll_waits_as_long_as_it_is_told(log: hs.Client, send: Send) -> None:
    with log.consumer("shop/orders") as consumer:
        assert consumer.poll(timeout_ms=20) == []
        timer = threading.Timer(0.05, send, [b"x"])
        timer.start()
        assert [message.payload for message in consumer.poll(timeout_ms=20_000)] == [b"x"]
        timer.join()


def test_closing_a_consumer_ends_its_wait(log: hs.Client) -> None:
    consumer = log.consumer("shop/orders")
    errors: list[Exception] = []

    def consume() -> None:
        try:
            next(consumer)
        except hs.ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    consumer.close(commit=False)
    thread.join(60)
    assert len(errors) == 1


def test_states_are_stepped_over_and_the_offset_moves_past_them(place: Place, log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(8)))
    for offset, state in ((0, 20), (3, 10), (4, 30), (7, 99)):
        place.set_state("shop/orders", at(1), offset, state)
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert [message.offset for message in consumer] == [1, 2, 5, 6]
    assert log.offsets("shop/orders", "g") == {at(1): 8}
    assert [m.offset for m in log.poll("shop/orders", count=8)] == [1, 2, 5, 6]
    asked = log.poll("shop/orders", count=8, states=["poisoned", "unknown(99)"])
    assert [(m.offset, int(m.state)) for m in asked] == [(0, 20), (7, 99)]
    assert [m.offset for m in log.poll("shop/orders", count=8, states=None)] == list(range(8))
    with log.consumer("shop/orders", states=["unavailable", "marked_for_deletion"], timeout_ms=0) as consumer:
        assert [message.offset for message in consumer] == [3, 4]
    assert all(message.verify() for message in log.poll("shop/orders", count=8, states=None))


def test_a_partition_without_any_available_message_is_passed(place: Place, log: hs.Client, send: Send) -> None:
    send(b"a", b"b")
    for offset in (0, 1):
        place.set_state("shop/orders", at(1), offset, 20)
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert list(consumer) == []
    assert log.offsets("shop/orders", "g") == {at(1): 2}


def test_client_poll_goes_on_for_a_named_consumer(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(5)))
    assert [m.offset for m in log.poll("shop/orders", consumer="me", count=2, auto_commit=True)] == [0, 1]
    assert [m.offset for m in log.poll("shop/orders", consumer="me", count=9, auto_commit=True)] == [2, 3, 4]
    assert log.poll("shop/orders", consumer="me") == []
    assert log.offsets("shop/orders", name="me") == {at(1): 5}
    assert [m.offset for m in log.poll("shop/orders", start="last", count=2)] == [3, 4]


def test_consumer_refuses_arguments_that_contradict_each_other(log: hs.Client) -> None:
    with pytest.raises(hs.InvalidOptionError, match="both a group and a name"):
        log.consumer("shop/orders", group="g", name="n")
    with pytest.raises(hs.PartitionNotFoundError, match=f"no partition {at(9)}"):
        log.consumer("shop/orders", partitions=[at(1), at(9)])
    with pytest.raises(hs.InvalidOptionError, match="the list of partitions is empty"):
        log.consumer("shop/orders", partitions=[])
    with pytest.raises(hs.InvalidInputError, match="'next' is not a valid start"):
        log.consumer("shop/orders", start="next")
    with pytest.raises(hs.InvalidInputError, match="'sometime' is not a valid start position"):
        log.consumer("shop/orders", start="sometime")
    with pytest.raises(hs.InvalidInputError, match="'gone' is not a message state"):
        log.poll("shop/orders", states=["gone"])
    with pytest.raises(hs.InvalidOptionError, match="states is empty"):
        log.poll("shop/orders", states=[])
    with pytest.raises(hs.InvalidOptionError, match="the group or name that owns the offsets is missing"):
        log.offsets("shop/orders")
    with log.consumer("shop/orders") as consumer:
        with pytest.raises(hs.InvalidOptionError, match="neither a group nor a name"):
            consumer.commit()
        with pytest.raises(hs.InvalidInputError, match="at least one message, not 0"):
            consumer.poll(0)
    with pytest.raises(hs.ClosedError, match="the consumer is closed"):
        consumer.poll()


def test_an_offset_that_was_never_written_is_an_error(log: hs.Client, send: Send) -> None:
    send(b"x")
    with log.consumer("shop/orders", start=5, timeout_ms=0) as consumer:
        with pytest.raises(
            hs.OffsetOutOfRangeError, match=f"offset 5 of partition {at(1)} was never written: the partition ends at 1"
        ):
            next(consumer)
        consumer.seek(at(1), "first")
        assert next(consumer).payload == b"x"
