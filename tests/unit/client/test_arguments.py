"""A wrong argument is told with what is taken; durations may be timedeltas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import headstream as hs


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"x")
        yield log


WRONG: dict[str, Callable[[Any], object]] = {
    "partition must be an integer, not '1'": lambda log: log.poll("shop/orders", "1"),
    "count must be an integer, not '1'": lambda log: log.poll("shop/orders", count="1"),
    "consumer must be a string, not 5": lambda log: log.poll("shop/orders", consumer=5),
    "an offset must be an integer, not '0'": lambda log: log.set_state("shop/orders", 1, ["0"], "poisoned"),
    "partitions must be an integer, not '2'": lambda log: log.create_topic("a/b", "2"),
    "retention_us must be an integer, not '1d'": lambda log: log.create_topic("a/b", retention_us="1d"),
    "a topic has no option 'retention'. Did you mean retention_us": lambda log: log.update_topic("shop/orders", retention=5),
    "the group or name of a consumer must be a string, not 5": lambda log: log.consumer("shop/orders", group=5),
    "partitions must be a list, even for one item, not 1": lambda log: log.consumer("shop/orders", partitions=1),
    "a partition must be an integer, not '1'": lambda log: log.consumer("shop/orders", partitions=["1"]),
    "timeout_ms must be a number of milliseconds or a timedelta, not '5'": lambda log: log.consumer(
        "shop/orders", timeout_ms="5"
    ),
    "a consumer has no option 'gruop'. Did you mean group": lambda log: log.consumer("shop/orders", gruop="billing"),
    "a topic must be a string, not 5": lambda log: log.consumer([5]),
    "the topic must be a name such as shop/orders, or a list of names, not 5": lambda log: log.consumer(5),
    "linger_ms must be a number of milliseconds or a timedelta, not '5'": lambda log: log.producer("shop/orders", linger_ms="5"),
    "batch_count must be an integer, not 1.5": lambda log: log.producer("shop/orders", batch_count=1.5),
    "delivery_timeout_ms must be a number of milliseconds or a timedelta, not None": lambda log: log.producer(
        "shop/orders", delivery_timeout_ms=None
    ),
    "'x' is not a message": lambda log: log.consumer("shop/orders", name="n").commit("x"),
    "'y' is not a message": lambda log: log.consumer(["shop/*"], name="n").commit("y"),
    "a stream must be a name or an id as a string, not 5": lambda log: log.stream(5),
    "a group name must be a str, not int": lambda log: log.seek_group("shop/orders", 5, "first"),
    "a stream name must be a str, not int": lambda log: log.create_stream(5),
    "a topic name must be a str, not int": lambda log: log.rename_topic("shop/orders", 5),
    "partitions must be a list, even for one item, not 7": lambda log: log.seek_group("shop/orders", "g", "first", partitions=7),
    "a partition must be an integer, not '3'": lambda log: log.seek_group("shop/orders", "g", "first", partitions=["3"]),
    "partition must be an integer, not '4'": lambda log: log.set_state("shop/orders", "4", [0], "poisoned"),
    "partition must be an integer, not 'x'": lambda log: log.states("shop/orders", "x"),
    "offsets must be a list, even for one item, not '0'": lambda log: log.set_state("shop/orders", 1, "0", "poisoned"),
    "state must be an integer, not 5.5": lambda log: log.set_state("shop/orders", 1, [0], 5.5),
    "reason must be a string, not 5": lambda log: log.set_state("shop/orders", 1, [0], "poisoned", reason=5),
    "timeout_ms must be a number of milliseconds or a timedelta, not '6'": lambda log: log.consumer("shop/orders").poll(
        timeout_ms="6"
    ),
    "count must be an integer, not '7'": lambda log: log.consumer("shop/orders").poll("7"),
    "timeout_ms must be a number of milliseconds or a timedelta, not '8'": lambda log: log.consumer(["shop/*"]).poll(
        timeout_ms="8"
    ),
    "count must be an integer, not '9'": lambda log: log.consumer(["shop/*"]).poll("9"),
    "partition must be an integer, not '11'": lambda log: log.consumer("shop/orders").seek("11", 0),
    "on_assigned must be a function, not 5": lambda log: log.consumer("shop/orders", on_assigned=5),
    "on_revoked must be a function, not 5": lambda log: log.consumer(["shop/*"], on_revoked=5),
    "messages must be a list, even for one item, not 5": lambda log: log.producer("shop/orders").send_many(5),
    "messages must be a list, even for one item, not b'abc'": lambda log: log.producer("shop/orders").send_many(b"abc"),
    "values must be a list, even for one item, not 'abc'": lambda log: log.producer("shop/orders", encode=str.encode).send_many(
        "abc"
    ),
    "timeout_s must be a number of seconds or a timedelta, not '5'": lambda log: (
        log.producer("shop/orders").send(b"x").result("5")
    ),
    "callback must be a function, not 5": lambda log: log.producer("shop/orders").send(b"x").add_done_callback(5),
    "a key must be bytes, not str": lambda _: hs.Partitioning.key("a"),  # type: ignore[arg-type]
    "partition '2' is not": lambda _: hs.Partitioning.partition("2"),  # type: ignore[arg-type]
    "message id 'zz' is not": lambda _: hs.Message(payload=b"x", id="zz"),  # type: ignore[arg-type]
    "segment_bytes must be from 4096 to 2147483648, not '1MB'": lambda _: hs.connect("memory://", segment_bytes="1MB"),
    "timeout_ms must be 1 to 3600000 ms, or a timedelta, not 'x'": lambda _: hs.connect(
        "headstream://a:b@127.0.0.1:1", timeout_ms="x"
    ),
    "5 is not a URL": lambda log: hs.connect(5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("text", WRONG)
def test_an_argument_of_the_wrong_type_is_told_with_what_is_taken(log: hs.Client, text: str) -> None:
    with pytest.raises((hs.InvalidInputError, hs.InvalidOptionError, hs.InvalidUrlError)) as caught:
        WRONG[text](log)
    assert text in str(caught.value)
    assert caught.value.advice or "must be" in text or "id" in text or "partition '2'" in text


def test_durations_may_be_timedeltas(log: hs.Client) -> None:
    assert log.update_topic("shop/orders", retention_us=timedelta(days=2)).retention_us == 172_800_000_000
    with log.producer("shop/orders", linger_ms=timedelta(0), delivery_timeout_ms=timedelta(seconds=5)) as producer:
        producer.send(b"y")
    with log.consumer("shop/orders", timeout_ms=timedelta(0), session_timeout_ms=timedelta(seconds=6)) as consumer:
        assert [message.payload for message in consumer] == [b"x", b"y"]
    with log.consumer(["shop/*"], timeout_ms=timedelta(0)) as several:
        assert len(list(several)) == 2
        assert several.poll(timeout_ms=timedelta(milliseconds=1)) == []
    with log.consumer("shop/orders") as one, log.producer("shop/orders") as producer:
        assert len(one.poll(timeout_ms=timedelta(minutes=2))) == 2
        assert producer.send(b"z").result(timedelta(minutes=2)).offset == 2
    with pytest.raises(hs.ServerUnreachableError):
        hs.connect("headstream://a:b@127.0.0.1:1", connect_timeout_ms=timedelta(seconds=2), timeout_ms=timedelta(seconds=1))
    with pytest.raises(hs.InvalidOptionError, match=r"timeout_ms must be .*, not 7200000\.0"):
        hs.connect("headstream://a:b@127.0.0.1:1", timeout_ms=timedelta(hours=2))
    with pytest.raises(hs.InvalidOptionError, match=r"delivery_timeout_ms must be .*, not 7200000\.0"):
        log.producer("shop/orders", delivery_timeout_ms=timedelta(hours=2))


def test_an_asynchronous_consumer_takes_timedeltas_and_refuses_unknown_options() -> None:
    async def body() -> None:
        async with hs.connect_async("memory://") as log:
            await log.create_topic("shop/orders")
            await log.send("shop/orders", b"x")
            async with log.consumer("shop/orders", timeout_ms=timedelta(0)) as consumer:
                assert [message.payload async for message in consumer] == [b"x"]
                assert await consumer.poll(timeout_ms=timedelta(milliseconds=1)) == []
                with pytest.raises(hs.InvalidInputError, match=r"timeout_ms must be .* not '5'"):
                    await consumer.poll(timeout_ms="5")  # type: ignore[arg-type]
            async with log.producer("shop/orders") as producer:
                with pytest.raises(hs.InvalidInputError, match=r"messages must be .* not 5"):
                    await producer.send_many(5)  # type: ignore[arg-type]
            with pytest.raises(hs.InvalidOptionError, match="no option 'gruop'"):
                log.consumer("shop/orders", gruop="billing")  # type: ignore[call-overload]

    asyncio.run(body())
