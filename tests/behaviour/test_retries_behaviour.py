"""Messages that break their consumer: attempts, delays, dead letters, in any log whose groups remember single messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import headstream as hs
from headstream.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from tests.behaviour.conftest import Place

TOPIC = "shop/orders"
DEAD = "shop/orders.dead"
AT_ONCE: dict[str, Any] = {"delay": "0s", "max_delay": "0s"}
"""No test waits for a delay, except those about delays."""
Send = Callable[..., None]


def retrying(log: hs.Client, attempts: int = 3, order: str = "partition", **options: Any) -> hs.Consumer:
    """Return a consumer of the group `billing` that tries again at once, and ends when nothing is left."""
    retry = hs.Retry(attempts, order=order, **AT_ONCE)
    given: dict[str, Any] = {"group": "billing", "on_error": retry, "dead_letter": DEAD, "timeout_ms": 0}
    consumer: hs.Consumer = log.consumer(TOPIC, **(given | options))
    return consumer


def until_done(log: hs.Client, breaks: Callable[[hs.ReceivedMessage], bool], **options: Any) -> list[tuple[bytes | None, int]]:
    """Begin the program again after each error, as a supervisor does, and return what was delivered, with its attempts."""
    delivered: list[tuple[bytes | None, int]] = []
    for _ in range(100):
        try:
            with retrying(log, **options) as consumer:
                for message in consumer:
                    delivered.append((message.payload, message.attempt))
                    if breaks(message):
                        raise ValueError(f"cannot process {message.payload!r}")
            return delivered
        except ValueError:
            continue
    raise AssertionError("it does not come to an end")


def break_in_loop(consumer: hs.Consumer | hs.TopicsConsumer, error: BaseException) -> None:
    """Read one message, and leave loop and `with` by an error."""
    with consumer:
        for _ in consumer:
            raise error


def payloads(messages: Sequence[hs.Message]) -> list[bytes | None]:
    return [message.payload for message in messages]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("partition", "0-1 1-1 1-2 1-3 2-1 3-1"), ("key", "0-1 1-1 2-1 1-2 1-3 3-1"), ("skip", "0-1 1-1 2-1 3-1 1-2 1-3")],
)
def test_a_failing_message_is_tried_again_and_then_given_up(log: hs.Client, order: str, expected: str) -> None:
    for number in range(4):
        log.send(TOPIC, b"%d" % number, key=b"key-%d" % (number % 2), partition=1)
    delivered = until_done(log, lambda message: message.payload == b"1", order=order)
    if order != "partition":  # what is tried again at once comes before or after messages that were already fetched
        assert sorted(delivered) == sorted((text[:1].encode(), int(text[2:])) for text in expected.split())
        assert [each for each in delivered if each[0] in (b"1", b"3")][-1] == ((b"3", 1) if order == "key" else delivered[-1])
    else:
        assert " ".join(f"{payload.decode()}-{attempt}" for payload, attempt in delivered if payload) == expected
    assert log.offsets(TOPIC, "billing") == {1: 4}
    assert payloads(log.poll(DEAD)) == [b"1"]


def test_a_dead_letter_is_the_message_with_its_story(log: hs.Client) -> None:
    headers = [("n", hs.uint8(3)), ("tag", "a"), ("tag", "b")]
    log.send(TOPIC, b"broken", key=b"\x00\xff", headers=headers, id=77)
    log.send(TOPIC, b"without key")
    until_done(log, lambda message: True, attempts=2)
    letters = log.poll(DEAD)
    assert [(letter.payload, letter.key) for letter in letters] == [(b"broken", b"\x00\xff"), (b"without key", None)]
    first = letters[0]
    assert first.id == 77
    assert list(first.headers.items())[:3] == list(hs.Headers(headers).items())
    told: dict[str, Any] = {name: first.headers[name] for name in first.headers.keys() if name.startswith("hs.")}  # noqa: SIM118
    assert told["hs.origin.topic"] == TOPIC
    assert (told["hs.origin.partition"], told["hs.origin.offset"], told["hs.origin.group"]) == (1, 0, "billing")
    assert (told["hs.reason_code"], told["hs.attempts"]) == ("max_attempts", 2)
    assert told["hs.reason"] == told["hs.first_error"] == "ValueError: cannot process b'broken'"
    original = log.poll(TOPIC, start=0, count=1)[0]
    assert told["hs.origin.timestamp"] == original.timestamp <= told["hs.first_failed"] <= told["hs.last_failed"]


def test_run_goes_on_in_one_process(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", b"2", partition=1)
    delivered: list[tuple[bytes | None, int]] = []

    def handle(message: hs.ReceivedMessage) -> None:
        delivered.append((message.payload, message.attempt))
        if message.payload == b"1":
            raise ValueError("no")

    with retrying(log) as consumer:
        consumer.run(handle)
    assert delivered == [(b"0", 1), (b"1", 1), (b"1", 2), (b"1", 3), (b"2", 1)]
    assert payloads(log.poll(DEAD)) == [b"1"]
    assert log.offsets(TOPIC, "billing") == {1: 3}


def test_a_failing_message_waits_for_its_delay_in_the_next_consumer_too(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", partition=1)
    slow = hs.Retry(3, delay="1h", max_delay="1h")
    with pytest.raises(ValueError, match="no"):
        break_in_loop(retrying(log, on_error=slow), ValueError("no"))
    with retrying(log, on_error=slow) as consumer:
        assert list(consumer) == []  # the partition waits
    with retrying(log, on_error=hs.Retry(3, delay="1h", max_delay="1h", order="skip")) as consumer:
        assert payloads(list(consumer)) == [b"1"]
    assert log.offsets(TOPIC, "billing") == {1: 0}  # the offset passes nothing that is not done


def test_what_is_done_behind_a_failing_message_is_not_delivered_again(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(10)), partition=1)
    slow = hs.Retry(3, delay="1h", max_delay="1h", order="skip")
    with retrying(log, on_error=slow) as consumer:
        messages = consumer.poll(10)
        for number in (1, 3, 8):
            consumer.ack(messages[number])
        consumer.retry(messages[4], reason="later", delay="0s")
        consumer.retry(messages[0])
        consumer.reject(messages[9], reason="never")
    assert log.offsets(TOPIC, "billing") == {1: 0}
    with retrying(log, on_error=slow) as consumer:
        found = [(message.payload, message.attempt) for message in consumer]
    assert sorted(found) == [(b"2", 1), (b"4", 2), (b"5", 1), (b"6", 1), (b"7", 1)]
    letter: Any = log.poll(DEAD)[0]
    assert (letter.payload, letter.headers["hs.reason_code"], letter.headers["hs.reason"]) == (b"9", "rejected", "never")
    assert log.offsets(TOPIC, "billing") == {1: 0}
    log.seek_group(TOPIC, "billing", 8)
    with retrying(log, on_error=slow) as consumer:
        assert payloads(list(consumer)) == [b"8", b"9"]  # a seek begins anew
    assert log.offsets(TOPIC, "billing") == {1: 10}


def test_seek_of_a_consumer_begins_anew(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", b"2", partition=1)
    slow = hs.Retry(3, delay="1h", max_delay="1h", order="skip")
    with retrying(log, on_error=slow) as consumer:
        messages = consumer.poll(3)
        consumer.ack(messages[2])
        consumer.retry(messages[0])
        consumer.seek(1, 1)
        assert payloads(list(consumer)) == [b"1", b"2"]
    assert log.offsets(TOPIC, "billing") == {1: 3}


@pytest.mark.parametrize("order", ["key", "skip"])
def test_settled_messages_after_a_backward_seek_are_not_delivered_to_the_next_consumer(
    log: hs.Client, send: Send, order: str
) -> None:
    send(*(b"%d" % number for number in range(8)), partition=1)
    slow = hs.Retry(3, delay="1h", max_delay="1h", order=order)
    with retrying(log, on_error=slow) as consumer:
        consumer.poll(8)
        consumer.commit()
        consumer.seek(1, 2)
        messages = consumer.poll(4)
        consumer.reject(messages[1])  # recorded by the request that also records the seek
        consumer.retry(messages[2])
        consumer.close(commit=False)
    with retrying(log, on_error=slow) as consumer:
        assert payloads(list(consumer)) == [b"2", b"5", b"6", b"7"]
    assert payloads(log.poll(DEAD)) == [b"3"]


def test_later_messages_of_a_key_wait_and_others_go_on(log: hs.Client) -> None:
    for number in range(6):
        log.send(TOPIC, b"%d" % number, key=b"even" if number % 2 == 0 else b"odd")
    slow = hs.Retry(3, delay="1h", max_delay="1h", order="key")
    with retrying(log, on_error=slow) as consumer:
        consumer.retry(consumer.poll(1)[0])
        assert payloads(list(consumer)) == [b"1", b"3", b"5"]
    with retrying(log, on_error=slow) as consumer:
        assert list(consumer) == []  # 2 and 4 still wait for 0
    with retrying(log, order="skip") as consumer:
        assert payloads(list(consumer)) == [b"2", b"4"]


def test_a_loop_after_a_loop_that_broke_off_is_refused_until_its_message_is_settled(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", partition=1)
    with retrying(log) as consumer:
        for message in consumer:
            assert message.payload == b"0"
            break
        with pytest.raises(InvalidInputError, match="before the outcome of the message was recorded"):
            iter(consumer)
        consumer.ack(message)
        with pytest.raises(InvalidInputError, match="not in progress"):
            consumer.retry(message)
        assert payloads(list(consumer)) == [b"1"]


def test_a_program_that_is_interrupted_counts_no_failure(log: hs.Client, send: Send) -> None:
    send(b"0", partition=1)
    with pytest.raises(KeyboardInterrupt):
        break_in_loop(retrying(log), KeyboardInterrupt())
    with retrying(log) as consumer:
        assert [message.attempt for message in consumer] == [1]


def test_an_attempt_that_nobody_ended_counts_as_a_failure(log: hs.Client, place: Place, send: Send) -> None:
    send(b"0", b"1", partition=1)
    lost = place.connect().consumer(TOPIC, group="billing", partitions=[1], on_error=hs.Retry(2, **AT_ONCE), dead_letter=DEAD)
    assert next(lost).attempt == 1  # and is never heard of again
    options: dict[str, Any] = {"partitions": [1], "attempts": 2}
    with retrying(log, **options) as consumer:
        message = next(consumer)
        assert (message.payload, message.attempt) == (b"0", 2)
        consumer.record_failure(ValueError("x"))
    letter: Any = log.poll(DEAD)[0]
    assert "timed out" in str(letter.headers["hs.first_error"])
    assert letter.headers["hs.reason"] == "ValueError: x"


def test_a_message_that_cannot_be_decoded_is_given_up(log: hs.Client, send: Send) -> None:
    send(b"1", b"not a number", b"3", partition=1)
    with retrying(log, decode=lambda payload: int(payload)) as consumer:
        assert payloads(list(consumer)) == [b"1", b"3"]
    letter: Any = log.poll(DEAD)[0]
    assert (letter.payload, letter.headers["hs.reason_code"]) == (b"not a number", "decode_error")


def test_attempting_records_what_happens_to_messages_of_a_poll(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", b"2", partition=1)
    with retrying(log, order="skip", attempts=1) as consumer:
        for message in consumer.poll(3):
            with consumer.attempting(message):
                if message.payload == b"1":
                    raise ValueError("no")
    assert log.offsets(TOPIC, "billing") == {1: 3}
    assert payloads(log.poll(DEAD)) == [b"1"]


def test_a_message_that_was_set_aside_for_all_is_passed_over_at_its_next_attempt(log: hs.Client, send: Send) -> None:
    send(b"0", b"1", partition=1)
    with retrying(log) as consumer:
        consumer.retry(consumer.poll(1)[0], delay="0s")
        log.set_state(TOPIC, 1, 0, "poisoned", reason="known")
        assert payloads(list(consumer)) == [b"1"]
    assert log.offsets(TOPIC, "billing") == {1: 2}
    assert log.poll(DEAD) == []


def test_a_dead_letter_is_never_copied_again(log: hs.Client, send: Send) -> None:
    send(b"0", partition=1)
    until_done(log, lambda message: True, attempts=1)
    with log.consumer(
        DEAD, group="readers", on_error=hs.Retry(1, **AT_ONCE), dead_letter="shop/dead.dead", timeout_ms=0
    ) as consumer:
        consumer.run(lambda message: 1 / 0)
    assert log.offsets(DEAD, "readers") == {1: 1}
    assert log.poll("shop/dead.dead") == []


def test_several_topics_and_members_have_their_own_attempts(log: hs.Client, send: Send) -> None:
    send(b"order", partition=1)
    send(b"cart", topic="shop/carts", partition=2)
    delivered: list[tuple[str, int]] = []

    def handle(message: hs.ReceivedMessage) -> None:
        delivered.append((message.topic, message.attempt))
        raise ValueError("no")

    options: dict[str, Any] = {"group": "g", "on_error": hs.Retry(2, **AT_ONCE), "dead_letter": DEAD, "timeout_ms": 0}
    with log.consumer([TOPIC, "shop/carts"], **options) as several:
        several.run(handle)
    assert sorted(delivered) == [("shop/carts", 1), ("shop/carts", 2), (TOPIC, 1), (TOPIC, 2)]
    assert sorted(str(letter.headers["hs.origin.topic"]) for letter in log.poll(DEAD)) == ["shop/carts", TOPIC]
    send(b"again", partition=1)
    with pytest.raises(ValueError, match="no"):
        break_in_loop(log.consumer([TOPIC], **options), ValueError("no"))
    with log.consumer([TOPIC], **options) as several:
        assert [message.attempt for message in several] == [2]


def test_members_of_a_group_hand_over_what_is_not_done(log: hs.Client) -> None:
    for number in range(60):
        log.send("shop/carts", b"%d" % number, partition=number % 3 + 1)
    options: dict[str, Any] = {"group": "g", "on_error": hs.Retry(2, **AT_ONCE, order="skip"), "dead_letter": DEAD}
    done: list[bytes | None] = []

    def handle(message: hs.ReceivedMessage) -> None:
        if message.payload in (b"7", b"8", b"9") or (message.attempt == 1 and message.payload == b"30"):
            raise ValueError("no")
        done.append(message.payload)

    with log.consumer("shop/carts", timeout_ms=0, **options) as one:
        for _ in range(10):
            with one.attempting(message := next(one)):
                handle(message)
        one.commit()
        with log.consumer("shop/carts", timeout_ms=500, **options) as two:
            two.run(handle)
        one.run(handle)
    assert set(done) == {b"%d" % number for number in range(60)} - {b"7", b"8", b"9"}
    assert len(done) == 57
    assert set(payloads(log.poll(DEAD, count=100))) == {b"7", b"8", b"9"}
    assert len(log.poll(DEAD, count=100)) == 3
    assert log.offsets("shop/carts", "g") == {1: 20, 2: 20, 3: 20}


def test_an_asynchronous_consumer_retries_and_dead_letters_as_a_synchronous_one(place: Place) -> None:
    log = place.connect()
    log.create_topic(TOPIC)
    for number in range(3):
        log.send(TOPIC, b"%d" % number)
    delivered: list[tuple[bytes | None, int]] = []
    options: dict[str, Any] = {"group": "billing", "on_error": hs.Retry(3, **AT_ONCE), "dead_letter": DEAD, "timeout_ms": 0}

    async def handle(message: hs.ReceivedMessage) -> None:
        await asyncio.sleep(0)
        delivered.append((message.payload, message.attempt))
        if message.payload == b"1":
            raise ValueError("no")

    async def loop(consumer: hs.AsyncConsumer) -> None:
        async with consumer:
            async for message in consumer:
                await handle(message)

    async def main() -> None:
        async with hs.connect_async(place.url, **place.options) as shop:
            with pytest.raises(ValueError, match="no"):
                await loop(shop.consumer(TOPIC, **options))
            async with shop.consumer(TOPIC, **options) as consumer:
                await consumer.run(handle)
            await shop.send(TOPIC, b"3")
            await shop.send(TOPIC, b"4")
            async with shop.consumer(TOPIC, **options) as consumer:
                third, fourth = await consumer.poll(2)
                await consumer.ack(third)
                await consumer.retry(fourth, reason="later")
                (fourth,) = await consumer.poll(1)
                assert fourth.attempt == 2
                await consumer.reject(fourth, reason="never")

    asyncio.run(main())
    assert delivered == [(b"0", 1), (b"1", 1), (b"1", 2), (b"1", 3), (b"2", 1)]
    assert payloads(log.poll(DEAD)) == [b"1", b"4"]
    assert log.offsets(TOPIC, "billing") == {1: 5}


def test_consumer_refuses_options_that_cannot_work_before_it_reads(log: hs.Client) -> None:
    retry = hs.Retry(3)
    log.create_topic("shop/latest", compaction_delay_us=0)
    for options, problem in [
        ({"on_error": retry, "dead_letter": DEAD}, "requires a group"),
        ({"on_error": retry, "group": "g"}, "requires a dead-letter topic"),
        ({"on_error": retry, "group": "g", "dead_letter": TOPIC}, "its own dead-letter topic"),
        ({"on_error": retry, "group": "g", "dead_letter": "shop/latest"}, "compacts"),
        ({"on_error": 5, "group": "g", "dead_letter": DEAD}, "on_error must be an hs.Retry, not 5"),
        ({"dead_letter": DEAD, "group": "g"}, "dead_letter requires on_error"),
    ]:
        given: Any = options
        with pytest.raises(InvalidOptionError, match=problem):
            log.consumer(TOPIC, **given)
    with log.consumer(TOPIC, group="g") as plain, pytest.raises(InvalidOptionError, match="on_error"):
        plain.ack(hs.Message(payload=b"x"))
    with log.consumer(TOPIC, group="g", on_error=hs.Retry(None), timeout_ms=0) as endless:
        assert list(endless) == []


def test_kafka_refuses_on_error_by_name(place: Place) -> None:
    log = place.connect()
    log.create_topic(TOPIC)
    options: dict[str, Any] = {"group": "g", "on_error": hs.Retry(None), "timeout_ms": 0}
    if place.url.startswith("kafka"):
        with pytest.raises(UnsupportedError, match="on_error is unavailable"):
            log.consumer(TOPIC, **options)
    else:
        log.consumer(TOPIC, **options).close()
