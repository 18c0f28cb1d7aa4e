"""What consumers with `on_error` leave to the next one, while messages are hidden, removed, or in another one's hands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs

TOPIC, DEAD = "shop/orders", "shop/orders.dead"
COUNT = 6


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic(TOPIC, partitions=2)
        for number in range(COUNT):
            log.send(TOPIC, b"%d" % number, key=b"k", partition=1, headers={"n": hs.uint8(number)})
        yield log


def consumer_of(log: hs.Client, order: str = "skip", **options: Any) -> hs.Consumer:
    retry = hs.Retry(9, "1h", "1h", order=order)
    given: dict[str, Any] = {"group": "g", "on_error": retry, "dead_letter": DEAD, "timeout_ms": 0}
    consumer: hs.Consumer = log.consumer(TOPIC, **(given | options))
    return consumer


def leave_open(log: hs.Client, order: str) -> None:
    """Let message 1 fail, and leave 3 unfinished: all others are done, except those that wait for message 1."""
    with consumer_of(log, order) as consumer:
        messages = consumer.poll(COUNT)
        consumer.retry(messages[1], reason="no")
        for number in (0, 2, 4, 5):
            consumer.ack(messages[number])
    assert log.offsets(TOPIC, "g") == {1: 1}


@pytest.mark.parametrize("order", ["partition", "key", "skip"])
@pytest.mark.parametrize("state", ["unavailable", "poisoned", "marked_for_deletion"])
def test_hidden_messages_that_a_group_had_not_finished_do_not_hold_its_offset_back(
    log: hs.Client, order: str, state: str
) -> None:
    leave_open(log, order)
    log.set_state(TOPIC, 1, [1, 3], state)
    with consumer_of(log, order) as consumer:
        assert list(consumer) == []
    assert log.offsets(TOPIC, "g") == {1: COUNT}
    assert log.group_deliveries(TOPIC, "g").partitions[0].delayed == 0


def test_removed_messages_that_a_group_had_not_finished_do_not_hold_its_offset_back(log: hs.Client) -> None:
    leave_open(log, "skip")
    log.set_state(TOPIC, 1, [0, 1, 2, 3], "marked_for_deletion", reason="erase 1")
    assert log.remove_marked(TOPIC, 1, reason="erase 1").removed_count == 4
    log.send(TOPIC, b"new", partition=1)
    with consumer_of(log) as consumer:
        assert [message.payload for message in consumer] == [b"new"]
    assert log.offsets(TOPIC, "g") == {1: COUNT + 1}


def test_a_filter_passes_over_messages_that_a_group_had_not_finished(log: hs.Client) -> None:
    leave_open(log, "skip")
    with consumer_of(log, where="n = 5") as consumer:
        assert list(consumer) == []
    assert log.offsets(TOPIC, "g") == {1: COUNT}


def test_a_hidden_message_that_is_restored_before_the_next_consumer_is_tried_again(log: hs.Client) -> None:
    leave_open(log, "skip")
    log.set_state(TOPIC, 1, [1, 3], "unavailable")
    log.set_state(TOPIC, 1, 3, "available")
    with consumer_of(log) as consumer:
        assert [message.offset for message in consumer] == [3]
    assert log.offsets(TOPIC, "g") == {1: COUNT}


def test_messages_of_a_poll_stay_with_their_consumer_while_some_are_acked(log: hs.Client) -> None:
    for number in range(3):
        log.send(TOPIC, b"other %d" % number, partition=2)
    with consumer_of(log) as first:
        messages = first.poll(COUNT) + first.poll(COUNT)  # a poll is of one partition
        assert len(messages) == COUNT + 3
        with consumer_of(log) as second:
            first.ack(messages[0])
            first.ack(messages[-1])
            assert second.poll(100) == []
            for message in messages[1:-1]:
                first.ack(message)
            first.poll()
            log.send(TOPIC, b"new", partition=1)
            log.send(TOPIC, b"new", partition=2)
            assert len(second.poll(100) + first.poll(100)) == 2
    assert log.offsets(TOPIC, "g") == {1: COUNT, 2: 3}


def test_a_consumer_that_could_not_begin_leaves_its_partitions_to_the_next_one(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise hs.HeadstreamError("no journal")

    kept = []
    with monkeypatch.context() as patched:
        patched.setattr("headstream.client.consumer.retrying.reading.RetryingReading._load", fail)
        with pytest.raises(hs.HeadstreamError, match="no journal") as raised:
            consumer_of(log)
        kept.append(raised)  # and with it the consumer
    with consumer_of(log) as consumer:
        assert len(consumer.poll(100)) == COUNT


@pytest.mark.parametrize("call", ["commit", "ack"])
def test_what_a_poll_after_a_seek_delivers_is_done_once_it_is_acknowledged(log: hs.Client, call: str) -> None:
    leave_open(log, "skip")
    with consumer_of(log) as consumer:
        consumer.seek(1, "first")
        messages = consumer.poll(COUNT)
        assert [(message.offset, message.attempt) for message in messages] == [(offset, 1) for offset in range(COUNT)]
        if call == "commit":
            consumer.commit()
        else:
            for message in messages:
                consumer.ack(message)
    assert log.offsets(TOPIC, "g")[1] == COUNT
    with consumer_of(log) as consumer:
        assert consumer.poll(COUNT) == []


@pytest.mark.parametrize("is_retrying", [False, True])
def test_a_partition_that_another_member_wanted_for_a_moment_loses_no_message(log: hs.Client, is_retrying: bool) -> None:
    for number in range(COUNT):
        log.send(TOPIC, b"other %d" % number, partition=2)
    options: dict[str, Any] = {} if is_retrying else {"on_error": None, "dead_letter": None}
    with consumer_of(log, **options) as first:
        delivered = first.poll(COUNT) + first.poll(1)
        with consumer_of(log, **options):
            assert first.poll(1) == []  # a partition is revoked, and kept for its message in hand
        while messages := first.poll(100):
            delivered += messages
        first.commit()
    assert sorted((message.partition, message.offset) for message in delivered) == [
        (partition, offset) for partition in (1, 2) for offset in range(COUNT)
    ]
    assert log.offsets(TOPIC, "g") == {1: COUNT, 2: COUNT}


def test_a_failing_message_of_such_a_partition_is_tried_again(log: hs.Client) -> None:
    for number in range(COUNT):
        log.send(TOPIC, b"other %d" % number, partition=2)
    retry = hs.Retry(9, "0s", "0s", order="skip")
    with consumer_of(log, on_error=retry) as first:
        delivered = first.poll(COUNT) + first.poll(COUNT)
        failed = next(message for message in delivered if message.partition == 2)
        with consumer_of(log, on_error=retry):
            first.poll(1)
            first.retry(failed, reason="no")
            assert first.poll(1) == []
        assert [(message.offset, message.attempt) for message in first.poll(100)] == [(failed.offset, 2)]
        first.commit()
    assert log.offsets(TOPIC, "g") == {1: COUNT, 2: COUNT}


@pytest.mark.parametrize("order", ["partition", "key"])
def test_a_message_that_failed_before_an_earlier_one_failed_is_tried_again_after_it(log: hs.Client, order: str) -> None:
    with consumer_of(log, order) as consumer:
        messages = consumer.poll(COUNT)
        for number, delay_us in ((2, 0), (4, 0), (1, 50_000)):
            consumer.retry(messages[number], delay=delay_us)
        again = consumer.poll(COUNT)  # messages 2 and 4 are due, and wait for message 1
        for number in (0, 3, 5):
            consumer.ack(messages[number])
        for number in (1, 2, 4):
            [message] = again or consumer.poll(1, timeout_ms=10_000)
            assert message.offset == number
            consumer.ack(message)
            again = []
    assert log.offsets(TOPIC, "g") == {1: COUNT}


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_new_message_at_the_place_of_a_failing_one_is_not_taken_for_it(log: hs.Client, is_recreated: bool) -> None:
    with consumer_of(log, on_error=hs.Retry(9, "0s", "0s")) as consumer:
        consumer.retry(consumer.poll(COUNT)[1])
        log.delete_topic(TOPIC) if is_recreated else log.purge_topic(TOPIC)
        log.create_topic(TOPIC, partitions=2, if_not_exists=True)
        log.send(TOPIC, b"new", partition=1)
        log.send(TOPIC, b"new", partition=1)
        with pytest.raises(hs.OffsetOutOfRangeError, match="partition 1 was purged or recreated"):
            consumer.poll()
        for partition in (1, 2):
            consumer.seek(partition, "first")
        assert [(message.payload, message.attempt) for message in consumer.poll()] == [(b"new", 1)] * 2
