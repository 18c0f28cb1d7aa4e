"""The asynchronous consumer of several topics and patterns, and the callbacks of asynchronous consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import headstream as hs
from headstream.client.consumer import topics_consumer
from tests.behaviour.conftest import Place, at, numbers

_END_S = 120.0


def run(place: Place, body: Callable[[hs.AsyncClient], Awaitable[None]]) -> None:
    """Run a test with an asynchronous client of a place that is already connected."""

    async def main() -> None:
        async with hs.connect_async(place.url, **place.options) as log:
            await asyncio.wait_for(body(log), _END_S)

    with place.connect():
        asyncio.run(main())


async def make(log: hs.AsyncClient, *names: str, partitions: int = 1) -> None:
    for name in names:
        await log.create_topic(name, partitions)
        await log.send(name, name.encode())


def test_a_consumer_of_several_topics_gets_and_commits_all_of_them(place: Place) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await make(log, "shop/orders", "shop/returns", "bank/orders")
        consumer = log.consumer(["shop/orders", "bank/*"], group="billing", timeout_ms=0)
        assert (consumer.topics, consumer.positions) == ([], {})
        async with consumer:
            assert consumer.topics == ["bank/orders", "shop/orders"]
            assert sorted([message.payload or b"" async for message in consumer]) == [b"bank/orders", b"shop/orders"]
            assert consumer.positions == {"bank/orders": {at(1): 1}, "shop/orders": {at(1): 1}}
        async with log.consumer(["*"], group="billing", timeout_ms=0) as rest:
            assert [message.payload async for message in rest] == [b"shop/returns"]

    run(place, body)


def test_a_waiting_consumer_gets_what_comes_to_any_of_its_topics(place: Place) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await make(log, "shop/orders", "shop/returns")
        async with log.consumer(["shop/*"], start="last") as consumer:
            for name in ("shop/returns", "shop/orders", "shop/returns"):
                waiting = asyncio.create_task(anext(consumer))
                await log.send(name, b"new")
                assert (await waiting).topic == name

    run(place, body)


def test_poll_commit_and_seek_of_several_topics(place: Place) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await make(log, "shop/orders", "shop/returns")
        async with log.consumer(["shop/*"], group="billing") as consumer:
            messages = await consumer.poll(timeout_ms=10_000)
            assert sorted(message.topic or "" for message in messages) == ["shop/orders", "shop/returns"]
            await consumer.commit(next(message for message in messages if message.topic == "shop/returns"))
            assert await log.offsets("shop/returns", "billing") == {at(1): 1}
            assert await log.offsets("shop/orders", "billing") == {}
            await consumer.seek("shop/returns", at(1), "first")
            assert [message.topic for message in await consumer.poll(timeout_ms=10_000)] == ["shop/returns"]
            await consumer.commit()
            assert await log.offsets("shop/orders", "billing") == {at(1): 1}
            with pytest.raises(hs.TopicNotFoundError, match="does not read shop/nothing"):
                await consumer.seek("shop/nothing", at(1), "first")

    run(place, body)


def test_a_pattern_finds_topics_that_are_made_and_lets_go_of_those_that_are_deleted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_consumer, "_CHECK_EVERY_S", 0.0)

    async def body(log: hs.AsyncClient) -> None:
        await make(log, "shop/orders")
        async with log.consumer(["shop/*"], group="billing") as consumer:
            assert (await anext(consumer)).topic == "shop/orders"
            await make(log, "shop/returns")
            assert (await anext(consumer)).topic == "shop/returns"
            await log.delete_topic("shop/returns")
            await log.send("shop/orders", b"newer")
            assert (await anext(consumer)).payload == b"newer"
            assert consumer.topics == ["shop/orders"]

    run(place, body)


def test_callbacks_run_in_the_event_loop_and_are_awaited(place: Place) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await make(log, "shop/orders", "shop/returns", partitions=2)
        told: list[tuple[str, str, set[int]]] = []
        loop = asyncio.get_running_loop()

        async def begin(topic: str, partitions: frozenset[int]) -> None:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            told.append(("+", topic, set(partitions)))

        def end(topic: str, partitions: frozenset[int]) -> None:
            assert asyncio.get_running_loop() is loop
            told.append(("-", topic, set(partitions)))

        def options(topic: str) -> hs.AsyncConsumer:
            return log.consumer(topic, group="billing", on_assigned=begin, on_revoked=end)

        async with log.consumer(["shop/*"], group="billing", on_assigned=begin, on_revoked=end) as consumer:
            assert sorted(told) == [("+", "shop/orders", set(numbers(2))), ("+", "shop/returns", set(numbers(2)))]
            assert [(await anext(consumer)).topic, (await anext(consumer)).topic].count("shop/orders") == 1
            await consumer.close()
            assert sorted(told[2:]) == [("-", "shop/orders", set(numbers(2))), ("-", "shop/returns", set(numbers(2)))]
        async with options("shop/orders") as first:
            assert told[4:] == [("+", "shop/orders", set(numbers(2)))]
            async with options("shop/orders") as second:
                for _ in range(1000):
                    await first.poll()
                    await second.poll()
                    if len(told) == 7:
                        break
                assert sorted(each[0] for each in told[5:]) == ["+", "-"]

    run(place, body)


def test_a_callback_that_uses_its_consumer_is_refused_and_one_that_fails_is_heard_of(place: Place) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await make(log, "shop/orders")

        async def commit(topic: str, partitions: frozenset[int]) -> None:
            await asyncio.create_task(consumer.commit())

        consumer = log.consumer("shop/orders", group="billing", on_assigned=commit)
        with pytest.raises(hs.InvalidInputError, match="a callback used the consumer that called it"):
            await consumer.poll()

        def fail(topic: str, partitions: frozenset[int]) -> None:
            raise ZeroDivisionError(topic)

        with pytest.raises(ZeroDivisionError, match="shop/orders"):
            await log.consumer(["shop/*"], on_assigned=fail).poll()

    run(place, body)
