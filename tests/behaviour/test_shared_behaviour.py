"""Workers that share partitions: leases, their ends, order by key, deferred messages, in any log whose groups lease messages."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import headstream as hs
from headstream.errors import GroupInUseError, InvalidInputError, InvalidOptionError, LeaseLostError, UnsupportedError
from tests.behaviour.conftest import Place
from tests.support.waiting import run_together

TOPIC, DEAD = "shop/orders", "shop/orders.dead"
AT_ONCE: dict[str, Any] = {"delay": "0s", "max_delay": "0s"}
SOON_MS = 60_000
"""Longer than any wait of these tests."""


def worker(log: hs.Client, topic: str = TOPIC, **options: Any) -> hs.Consumer:
    """Return a worker of the group `workers` that ends when nothing can be leased."""
    given: dict[str, Any] = {"group": "workers", "mode": "shared", "timeout_ms": 0}
    consumer: hs.Consumer = log.consumer(topic, **(given | options))
    return consumer


def fill(log: hs.Client, count: int, keys: int = 0, topic: str = TOPIC) -> None:
    with log.producer(topic) as producer:
        for number in range(count):
            producer.send(b"%d" % number, key=b"%d" % (number % keys) if keys else None, partition=1)


def numbers(messages: Any) -> list[int]:
    return [int(message.payload) for message in messages]


def test_workers_share_one_partition_and_each_message_goes_to_one(log: hs.Client, place: Place) -> None:
    fill(log, 200)
    seen: list[int] = []

    def work() -> None:
        with worker(place.connect()) as consumer:
            for message in consumer:
                seen.append(int(message.payload or b""))

    run_together(*[work] * 4)
    assert sorted(seen) == list(range(200))
    assert log.offsets(TOPIC, "workers") == {1: 200}
    with worker(log) as consumer:
        assert list(consumer) == []


def test_two_workers_hold_messages_of_one_partition_at_a_time(log: hs.Client) -> None:
    fill(log, 4)
    with worker(log) as one, worker(log) as two:
        first, second = one.poll(2), two.poll(2)
        assert numbers(first) == [0, 1]
        assert numbers(second) == [2, 3]
        two.commit()
        assert log.offsets(TOPIC, "workers") == {1: 0}  # passes nothing that is not done
        one.ack(first[0])
        assert log.offsets(TOPIC, "workers") == {1: 1}
        one.ack(first[1])
        assert log.offsets(TOPIC, "workers") == {1: 4}


def test_a_message_whose_lease_ended_goes_to_another_worker_and_a_late_word_is_refused(log: hs.Client) -> None:
    fill(log, 1)
    with worker(log, lease="3s") as slow, worker(log, timeout_ms=SOON_MS) as other:
        (mine,) = slow.poll(1)
        assert mine.attempt == 1
        theirs = next(other)
        assert (theirs.payload, theirs.attempt) == (b"0", 2)
        for say in (slow.ack, slow.retry):
            if say == slow.retry:
                with pytest.raises(InvalidInputError, match="not in progress"):
                    say(mine)
                continue
            with pytest.raises(LeaseLostError, match=r"the lease ended at .*; the message is leased to .* until"):
                say(mine)
        other.ack(theirs)
    assert log.offsets(TOPIC, "workers") == {1: 1}


def test_an_extended_lease_outlives_the_first_one(log: hs.Client) -> None:
    fill(log, 2)
    with worker(log, lease="3s") as slow, worker(log, lease="3s", timeout_ms=SOON_MS) as other:
        kept, lost = slow.poll(2)
        slow.extend(kept, "1h")
        again = next(other)  # when the first lease is over
        assert (again.payload, again.attempt) == (lost.payload, 2)
        other.ack(again)
        with pytest.raises(LeaseLostError, match="the message is done"):
            slow.extend(lost, "1h")
        slow.ack(kept)
    assert log.offsets(TOPIC, "workers") == {1: 2}


def test_a_failing_message_is_tried_again_and_then_given_up_while_others_go_on(log: hs.Client) -> None:
    fill(log, 5)
    attempts: list[int] = []

    def handle(message: hs.ReceivedMessage) -> None:
        if message.payload == b"1":
            attempts.append(message.attempt)
            raise ValueError("no")

    with worker(log, on_error=hs.Retry(3, **AT_ONCE), dead_letter=DEAD) as consumer:
        consumer.run(handle)
    assert attempts == [1, 2, 3]
    (letter,) = log.poll(DEAD)
    found: Any = letter.headers
    assert (letter.payload, found["hs.attempts"], found["hs.reason"]) == (b"1", 3, "ValueError: no")
    assert log.offsets(TOPIC, "workers") == {1: 5}


def test_a_message_whose_leases_end_is_given_up_after_its_last_attempt(log: hs.Client) -> None:
    fill(log, 1)
    retry = hs.Retry(2, **AT_ONCE)
    with worker(log, on_error=retry, dead_letter=DEAD, lease="1s") as consumer:
        until_s = time.monotonic() + SOON_MS / 1000
        while not log.poll(DEAD) and time.monotonic() < until_s:
            consumer.poll(1, timeout_ms=1000)  # and nothing becomes of it
    (letter,) = log.poll(DEAD)
    found: Any = letter.headers
    assert found["hs.reason_code"] == "max_attempts"
    assert "expired" in str(found["hs.reason"])
    assert log.offsets(TOPIC, "workers") == {1: 1}


def test_later_messages_of_a_key_wait_while_one_is_leased_or_delayed(log: hs.Client) -> None:
    fill(log, 6, keys=2)
    options: dict[str, Any] = {"on_error": hs.Retry(3, order="key", delay="1h", max_delay="1h"), "dead_letter": DEAD}
    with worker(log, **options) as one, worker(log, **options) as two:
        (zero,) = one.poll(1)
        assert numbers(two.poll(5)) == [1]
        assert two.poll(5) == []
        two.commit()
        assert numbers(two.poll(5)) == [3]
        one.retry(zero)
        two.commit()
        assert numbers(two.poll(5)) == [5]
        assert one.poll(5) == []  # 2 and 4 wait for 0
        one_again = worker(log, on_error=hs.Retry(None, order="skip"))
        assert numbers(one_again.poll(5)) == [2, 4]
        one_again.close(commit=False)


def test_a_deferred_message_waits_until_it_is_asked_for(log: hs.Client) -> None:
    fill(log, 3)
    with worker(log) as consumer:
        messages = consumer.poll(3)
        consumer.defer(messages[1])
        consumer.commit()
        assert log.offsets(TOPIC, "workers") == {1: 1}
    with worker(log) as consumer:
        assert list(consumer) == []
        with pytest.raises(InvalidInputError, match="message 0 is not deferred: the message is done"):
            consumer.fetch_deferred(1, 0)
        message = consumer.fetch_deferred(1, 1)
        assert (message.payload, message.attempt) == (b"1", 1)
        consumer.ack(message)
    assert log.offsets(TOPIC, "workers") == {1: 3}


def test_what_is_not_settled_is_released_by_close_without_an_attempt(log: hs.Client) -> None:
    fill(log, 3)
    with worker(log) as consumer:
        consumer.poll(3)
    with worker(log) as consumer:
        assert [(int(message.payload or b""), message.attempt) for message in consumer] == [(0, 1), (1, 1), (2, 1)]


def test_an_error_that_leaves_the_loop_counts_and_the_program_goes_on_later(log: hs.Client) -> None:
    fill(log, 2)

    def fail(consumer: hs.Consumer) -> None:
        with consumer:
            for _ in consumer:
                raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail(worker(log, on_error=hs.Retry(3, **AT_ONCE), dead_letter=DEAD))
    with worker(log) as consumer:
        assert sorted((int(message.payload or b""), message.attempt) for message in consumer) == [(0, 2), (1, 1)]


def test_filtered_and_unavailable_messages_are_passed_over(log: hs.Client) -> None:
    for number in range(6):
        log.send(TOPIC, b"%d" % number, headers={"even": number % 2 == 0})
    log.set_state(TOPIC, 1, 4, "poisoned")
    with worker(log, where="even") as consumer:
        assert numbers(consumer) == [0, 2]
        assert consumer.filter_counts.scanned >= 5
    assert log.offsets(TOPIC, "workers") == {1: 6}


def test_workers_begin_where_the_start_says_and_read_all_partitions(log: hs.Client) -> None:
    for number in range(9):
        log.send("shop/carts", b"%d" % number, partition=number % 3 + 1)
    with worker(log, "shop/carts") as consumer:
        assert sorted(numbers(consumer)) == list(range(9))
    with worker(log, "shop/carts", group="late", start="last") as consumer:
        assert list(consumer) == []
        log.send("shop/carts", b"9", partition=2)
        assert numbers(consumer) == [9]
    with worker(log, "shop/carts", group="one", partitions=[2]) as consumer:
        assert sorted(numbers(consumer)) == [1, 4, 7, 9]


def test_a_waiting_worker_gets_what_is_sent(log: hs.Client, place: Place) -> None:
    with worker(log, timeout_ms=SOON_MS) as consumer:
        timer = threading.Timer(0.05, lambda: place.connect().send(TOPIC, b"7"))
        timer.start()
        assert next(consumer).payload == b"7"
        timer.join()


def test_a_purge_ends_the_leases(log: hs.Client) -> None:
    fill(log, 3)
    with worker(log) as consumer:
        (message, *_) = consumer.poll(3)
        log.purge_topic(TOPIC)
        with pytest.raises(LeaseLostError, match="purged"):
            consumer.ack(message)
        log.send(TOPIC, b"8")
        assert numbers(consumer) == [8]


def test_several_topics_and_asyncio_lease_messages_too(log: hs.Client, place: Place) -> None:
    fill(log, 2)
    log.send("shop/carts", b"2", partition=1)
    with log.consumer([TOPIC, "shop/carts"], group="several", mode="shared", timeout_ms=0) as several:
        messages = several.poll(10)
        assert sorted(numbers(messages)) == [0, 1, 2]
        several.extend(messages[0], "1h")
        several.defer(messages[0])
        with pytest.raises(InvalidOptionError, match="several topics"):
            several.fetch_deferred(1, 0)
        several.ack(several.consumer(messages[0].topic).fetch_deferred(1, messages[0].offset))
        several.commit()
    fill(log, 2)

    async def main() -> None:
        options: dict[str, Any] = {"group": "workers", "mode": "shared", "timeout_ms": 0}
        async with hs.connect_async(place.url, **place.options) as shop, shop.consumer(TOPIC, **options) as consumer:
            first = await anext(aiter(consumer))
            await consumer.extend(first, "1h")
            await consumer.defer(first)
            assert len([message async for message in consumer]) == 3
            await consumer.ack(await consumer.fetch_deferred(1, 0))

    asyncio.run(main())
    assert log.offsets(TOPIC, "workers") == {1: 4}


def test_shared_consumer_refuses_options_that_exclude_each_other(log: hs.Client) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"mode": "both"}, "mode must be ordered or shared, not 'both'"),
        ({"mode": "shared", "group": None}, "requires a group"),
        ({"mode": "shared", "on_error": hs.Retry(None, order="partition")}, "concurrently"),
        ({"mode": "shared", "on_error": hs.Retry(3)}, "requires a dead-letter topic"),
        ({"mode": "shared", "lease": "13h"}, "invalid lease: 46800 s"),
        ({"mode": "shared", "on_revoked": print}, "on_revoked cannot be used"),
        ({"lease": "1s", "mode": "ordered"}, "lease requires mode"),
    ]
    for options, problem in cases:
        given: dict[str, Any] = {"group": "workers"} | options
        with pytest.raises(InvalidOptionError, match=problem):
            log.consumer(TOPIC, **given)
    with worker(log) as consumer:
        with pytest.raises(InvalidOptionError, match="has no position"):
            consumer.seek(1, 0)
        with pytest.raises(GroupInUseError, match="mode 'shared'"):
            log.consumer(TOPIC, group="workers")
    with log.consumer(TOPIC, group="workers"), pytest.raises(GroupInUseError, match="mode 'ordered'"):
        worker(log)
    with log.consumer(TOPIC, group="plain") as plain, pytest.raises(InvalidOptionError, match="does not lease messages"):
        plain.extend(hs.Message(payload=b"x"), "1m")


def test_kafka_refuses_shared_groups_by_name(place: Place) -> None:
    log = place.connect()
    log.create_topic(TOPIC)
    if place.url.startswith("kafka"):
        with pytest.raises(UnsupportedError, match="mode='shared' is unavailable"):
            worker(log)
    else:
        worker(log).close()
