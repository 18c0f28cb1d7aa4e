"""A group whose consumers fail is paused, tries one message, and goes on; and what people are told of its messages."""

from __future__ import annotations

import time
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.delivery_views import DeliveryStatus, GroupDeliveries
from headstream.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from tests.behaviour.conftest import Place

TOPIC, DEAD = "shop/orders", "shop/orders.dead"
AT_ONCE: dict[str, Any] = {"delay": "0s", "max_delay": "0s", "order": "skip"}
LONG = hs.Retry(10, **AT_ONCE, pause="1h", pause_attempts=4)
SHORT = hs.Retry(10, **AT_ONCE, pause="50ms", pause_attempts=4)
SOON_MS = 60_000
MODES = ["ordered", "shared"]


def consumer_of(log: hs.Client, mode: str, retry: hs.Retry, timeout_ms: int = 0) -> hs.Consumer:
    return log.consumer(TOPIC, group="billing", mode=mode, on_error=retry, dead_letter=DEAD, timeout_ms=timeout_ms)


def fill(log: hs.Client, count: int) -> None:
    with log.producer(TOPIC) as producer:
        for number in range(count):
            producer.send(b"%d" % number, partition=1)


def fail_all(log: hs.Client, mode: str, retry: hs.Retry, most: int = 100) -> list[int]:
    """Fail each message that is delivered, and return their offsets."""
    seen: list[int] = []
    with consumer_of(log, mode, retry) as consumer:
        for message in consumer:
            seen.append(message.offset)
            consumer.retry(message, reason="no")
            if len(seen) >= most:
                break
    return seen


def pause_of(log: hs.Client) -> GroupDeliveries:
    return log.group_deliveries(TOPIC, "billing")


@pytest.mark.parametrize("mode", MODES)
def test_a_group_that_fails_is_paused_before_it_gives_up_its_messages(log: hs.Client, place: Place, mode: str) -> None:
    fill(log, 50)
    assert len(fail_all(log, mode, LONG)) == 4
    assert fail_all(place.connect(), mode, LONG) == []  # for other consumers too, and when the program begins again
    found = pause_of(log)
    assert found.pause.until_us > found.now_us
    assert (found.pause.failed_count, found.pause.attempts_count, found.pause.pauses_count) == (4, 4, 1)
    assert sum(each.delayed for each in found.partitions) >= 1
    assert sum(each.poisoned for each in found.partitions) == 0


@pytest.mark.parametrize("mode", MODES)
def test_one_message_on_trial_ends_the_pause_when_it_succeeds(log: hs.Client, mode: str) -> None:
    fill(log, 30)
    failed, done = list[int](), list[int]()
    with consumer_of(log, mode, SHORT, SOON_MS) as consumer:
        for message in consumer:
            if len(failed) < 6:  # the fifth and the sixth one are on trial
                failed.append(message.offset)
                consumer.retry(message, reason="no")
            else:
                done.append(message.offset)
            if len(done) == 30:
                break
    assert sorted(done) == list(range(30))
    pause = pause_of(log).pause
    assert (pause.until_us, pause.pauses_count) == (0, 3)


@pytest.mark.parametrize("mode", MODES)
def test_polls_hand_out_one_message_on_trial_and_many_when_it_is_done(log: hs.Client, mode: str) -> None:
    fill(log, 30)
    fail_all(log, mode, SHORT, most=4)
    while (found := pause_of(log)).pause.until_us > found.now_us:
        time.sleep(0.01)  # a consumer that begins after the pause is on trial too
    with consumer_of(log, mode, SHORT) as consumer:
        (first,) = consumer.poll(10, timeout_ms=SOON_MS)
        consumer.ack(first)
        assert len(consumer.poll(10, timeout_ms=SOON_MS)) > 1


@pytest.mark.parametrize("mode", MODES)
def test_a_few_failures_among_many_messages_pause_nothing(log: hs.Client, mode: str) -> None:
    fill(log, 40)
    retry, seen = hs.Retry(10, **AT_ONCE, pause="1h", pause_attempts=10), 0
    with consumer_of(log, mode, retry) as consumer:
        for message in consumer:
            seen += 1
            if seen % 3 == 0 and message.attempt == 1:
                consumer.retry(message)
    assert log.offsets(TOPIC, "billing") == {1: 40}
    assert pause_of(log).pause.pauses_count == 0


def test_waits_of_a_paused_group_end_by_their_timeouts(log: hs.Client) -> None:
    fill(log, 20)
    for mode in MODES:
        fail_all(log, mode, LONG)
        with consumer_of(log, mode, LONG, timeout_ms=50) as consumer:
            assert consumer.poll(10, timeout_ms=50) == []
            assert list(consumer) == []
        log.seek_group(TOPIC, "billing", "first")


def test_messages_filtered_out_are_no_attempts(log: hs.Client) -> None:
    with log.producer(TOPIC) as producer:
        for number in range(60):
            producer.send(b"%d" % number, partition=1, headers={"wanted": number % 10 == 0})
    for mode in MODES:
        with log.consumer(
            TOPIC, group=mode, mode=mode, on_error=LONG, dead_letter=DEAD, where="wanted", timeout_ms=0
        ) as consumer:
            for message in consumer:
                consumer.retry(message, reason="no")
        pause = log.group_deliveries(TOPIC, mode).pause
        assert (pause.failed_count, pause.attempts_count, pause.pauses_count) == (4, 4, 1)


def test_a_message_tells_its_story_until_it_is_a_dead_letter(log: hs.Client) -> None:
    fill(log, 2)
    retry = hs.Retry(3, **AT_ONCE)
    with consumer_of(log, "ordered", retry) as consumer:
        for message in consumer:
            if message.offset == 0:
                consumer.retry(message, reason=ValueError(f"error {message.attempt}"))
    told = log.message_story(TOPIC, "billing", 1, 0)
    assert (told.status, told.failures, told.reason, told.letter) == (DeliveryStatus.POISONED, 3, "max_attempts", (DEAD, 1, 0))
    assert [(each.number, each.error) for each in told.attempts] == [(n, f"ValueError: error {n}") for n in (1, 2, 3)]
    assert all(each.worker for each in told.attempts)
    assert log.message_story(TOPIC, "billing", 1, 1).status is DeliveryStatus.DONE
    assert sum(each.open_letters for each in pause_of(log).partitions) == 1


def test_kafka_tells_of_no_single_messages(place: Place) -> None:
    log = place.connect()
    log.create_topic(TOPIC)
    log.seek_group(TOPIC, "billing", "first")
    if place.url.startswith("kafka"):
        with pytest.raises(UnsupportedError, match="no state of individual messages"):
            log.group_deliveries(TOPIC, "billing")
    else:
        assert log.group_deliveries(TOPIC, "billing").pause.attempts_count == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pause": "0s"}, "must be 1 us to 24 h, not 0 us"),
        ({"pause": "25h"}, "must be 1 us to 24 h, not"),
        ({"pause": "1s", "pause_share": 0}, "pause_share must be above 0 and at most 1, not 0"),
        ({"pause": "1s", "pause_share": 1.5}, "pause_share must be above 0 and at most 1, not 1.5"),
        ({"pause": "1s", "pause_attempts": 0}, "pause_attempts must be at least 1, not 0"),
        ({"pause": "1s", "pause_attempts": 10_001}, "10001 attempts"),
    ],
)
def test_a_pause_out_of_range_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOptionError, match=text):
        hs.Retry(**options)
    with pytest.raises(InvalidInputError):
        hs.Retry(pause="soon")


def test_the_share_is_one_of_whole_attempts() -> None:
    assert hs.Retry(pause="1s", pause_share=0.07, pause_attempts=100).pause_rule == (7, 100, 1_000_000)
    assert hs.Retry(pause="1s", pause_share=0.001, pause_attempts=100).pause_rule == (1, 100, 1_000_000)
    assert hs.Retry().pause_rule is None
