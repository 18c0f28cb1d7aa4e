"""Unit tests of headstream.client.consumer.async_consumer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headstream as hs
from tests.support.async_clients import Gate, run, send


def test_a_rebalance_that_takes_what_was_ready_does_not_block_the_loop() -> None:
    async def body(log: hs.AsyncClient) -> None:
        for partition in (1, 2):
            async with log.producer("shop/orders") as producer:
                for number in range(5):
                    await producer.send(b"%d" % number, partition=partition)
        found: list[tuple[int | None, int | None]] = []

        async def read(consumer: hs.AsyncConsumer, count: int) -> None:
            for _ in range(count):
                message = await anext(consumer)
                found.append((message.partition, message.offset))

        async with log.consumer("shop/orders", group="g") as one:
            await read(one, 1)
            async with log.consumer("shop/orders", group="g") as two:
                await asyncio.gather(read(two, 5), read(one, 4))
        assert sorted(found) == [(partition, offset) for partition in (1, 2) for offset in range(5)]

    run(body)


def test_a_consumer_that_waits_gets_what_comes() -> None:
    async def body(log: hs.AsyncClient) -> None:
        async with log.consumer("shop/orders", group="g") as consumer:
            waiting = asyncio.create_task(anext(consumer))
            await asyncio.sleep(0)
            assert not waiting.done()
            await send(log, b"at last")
            assert (await waiting).payload == b"at last"

    run(body)


@pytest.mark.parametrize("mode", ["ordered", "shared"])
@pytest.mark.parametrize("is_working", [True, False])
def test_a_run_after_a_cancelled_one_gets_the_message_whose_handler_was_cancelled_or_the_next_one(
    mode: str, is_working: bool
) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await send(log, b"a", b"b")
        received: list[tuple[bytes | None, int]] = []
        has_ended = asyncio.Event()

        async def handle(message: hs.ReceivedMessage) -> None:
            received.append((message.payload, message.attempt))
            if message.payload == (b"a" if is_working else b"b"):
                has_ended.set()
                await asyncio.Event().wait() if is_working or len(received) > 2 else None

        options: dict[str, Any] = {"group": "g", "mode": mode, "on_error": hs.Retry(attempts=None)}
        async with log.consumer("shop/orders", **options) as consumer:
            for _ in range(2):
                has_ended.clear()
                running = asyncio.create_task(consumer.run(handle))
                await has_ended.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                await send(log, b"b")
        assert received == ([(b"a", 1)] * 2 if is_working else [(b"a", 1), (b"b", 1), (b"b", 1)])

    run(body)


def test_what_a_cancelled_poll_had_taken_is_returned_by_the_next_one_and_committed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        async with log.consumer("shop/orders", group="g") as consumer:
            assert [message.payload for message in await consumer.poll(1)] == [b"a"]
            await Gate(monkeypatch, hs.Consumer, "poll").cancel(consumer.poll(2))
            await consumer.commit()
            assert await log.offsets("shop/orders", "g") == {1: 1}
            assert [message.payload for message in await consumer.poll(1)] == [b"b"]
            await consumer.commit()
            assert await log.offsets("shop/orders", "g") == {1: 2}
            assert (await anext(consumer)).payload == b"c"

    run(body)


def test_what_a_cancelled_poll_has_committed_is_returned_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        options: dict[str, Any] = {"consumer": "me", "auto_commit": True}
        await Gate(monkeypatch, hs.Client, "poll").cancel(log.poll("shop/orders", 1, count=2, **options))
        assert [message.payload for message in await log.poll("shop/orders", 1, count=1, **options)] == [b"a"]
        assert [message.payload for message in await log.poll("shop/orders", 1, **options)] == [b"b"]
        assert [message.payload for message in await log.poll("shop/orders", 1, **options)] == [b"c"]

    run(body)


def test_a_call_that_is_cancelled_while_another_one_runs_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: hs.AsyncClient) -> None:
        gate = Gate(monkeypatch, hs.Client, "streams")
        first = asyncio.create_task(log.streams())
        await asyncio.to_thread(gate.has_begun.wait, 10)
        second = asyncio.create_task(log.create_stream("bank"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not first.done()
        gate.is_open.set()
        assert await first == await log.streams()

    run(body)


def test_an_exception_in_the_body_commits_nothing_of_its_message() -> None:
    async def body(log: hs.AsyncClient) -> None:
        await send(log, b"a", b"b")

        async def fail_at_b() -> None:
            async with log.consumer("shop/orders", group="g") as consumer:
                async for message in consumer:
                    if message.payload == b"b":
                        raise RuntimeError

        with pytest.raises(RuntimeError):
            await fail_at_b()
        assert await log.offsets("shop/orders", "g") == {1: 1}

    run(body)
