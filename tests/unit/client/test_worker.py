"""Worker: a call of an asyncio object is over, what it undoes after a cancellation included, before the next one begins."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import headstream as hs
from headstream.broker.messages.messages import Messages
from headstream.client.interception.producer import InterceptedProducer
from headstream.core.model.producers import Appended
from headstream.interceptors.interceptor import Interceptor
from tests.support.async_clients import Gate, run, send
from tests.support.crashes import fail_with


@pytest.mark.parametrize("mode", ["ordered", "retrying", "shared", "topics", "decoded", "intercepted"])
def test_a_commit_beside_a_cancelled_poll_that_is_not_over_leaves_its_messages_to_the_next_call(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, dict[str, Any]] = {
        "retrying": {"on_error": hs.Retry(attempts=None)},
        "shared": {"mode": "shared"},
        "decoded": {"decode": bytes.decode},
    }
    chosen = options.get(mode, {})

    class Counting(Interceptor):
        received = 0

        async def on_receive(self, message: Any) -> Any:
            self.received += 1
            return message

    counting = Counting()
    gate = Gate(monkeypatch, hs.TopicsConsumer if mode == "topics" else hs.Consumer, "poll")

    async def main() -> None:
        async with hs.connect_async("memory://", interceptors=[counting] if mode == "intercepted" else []) as log:
            await log.create_topic("shop/orders")
            await send(log, b"a", b"b")
            topic: Any = ["shop/*"] if mode == "topics" else "shop/orders"
            async with log.consumer(topic, group="g", **chosen) as consumer:
                task = asyncio.create_task(consumer.poll())
                await asyncio.to_thread(gate.has_begun.wait, 10)
                task.cancel()
                committing = asyncio.create_task(consumer.commit())  # the program goes on, and never awaits the cancelled task
                asyncio.get_running_loop().call_soon(gate.is_open.set)
                await committing
                assert (await log.offsets("shop/orders", "g")).get(1, 0) == 0
                received: list[bytes | None] = []
                while len(received) < 2:  # a worker leases one message at first
                    received += [message.payload for message in await consumer.poll()]
                assert received == [b"a", b"b"]
                await consumer.commit()
            assert await log.offsets("shop/orders", "g") == {1: 2}
            assert counting.received == (2 if mode == "intercepted" else 0)

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_close_beside_a_cancelled_first_call_closes_the_consumer_that_it_creates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: hs.AsyncClient) -> None:
        gate = Gate(monkeypatch, hs.Client, "consumer")
        consumer = log.consumer("shop/orders", group="g")
        first = asyncio.create_task(consumer.poll())
        await asyncio.to_thread(gate.has_begun.wait, 10)
        first.cancel()
        asyncio.get_running_loop().call_soon(gate.is_open.set)
        await consumer.close()
        assert [group.members for group in await log.groups("shop/orders")] == []

    run(body)


def test_a_poll_beside_a_cancelled_one_that_is_not_over_returns_what_that_one_has_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(log: hs.AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        options: dict[str, Any] = {"consumer": "me", "auto_commit": True, "count": 1, "start": "next"}
        gate = Gate(monkeypatch, hs.Client, "poll")
        tasks = [asyncio.create_task(log.poll("shop/orders", 1, **options)) for _ in range(3)]
        await asyncio.to_thread(gate.has_begun.wait, 10)
        tasks[0].cancel()
        gate.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        polled = [*await tasks[1], *await tasks[2], *await log.poll("shop/orders", 1, **options)]
        assert [message.payload for message in polled] == [b"a", b"b", b"c"]

    run(body)


def test_an_error_that_was_raised_once_is_not_raised_again_after_a_cancelled_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    is_open, has_begun, store = threading.Event(), threading.Event(), Messages.append

    def hold(*arguments: Any, **options: Any) -> Appended:
        has_begun.set()
        is_open.wait(60)
        return store(*arguments, **options)

    async def body(log: hs.AsyncClient) -> None:
        producer = log.producer("shop/orders")
        monkeypatch.setattr(Messages, "append", fail_with(hs.StorageError("no room")))
        await producer.send(b"a", partition=1)
        with pytest.raises(hs.StorageError, match="no room"):
            await producer.flush()
        monkeypatch.setattr(Messages, "append", hold)
        await producer.send(b"b", partition=1)
        flushing = asyncio.create_task(producer.flush())
        await asyncio.to_thread(has_begun.wait, 10)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        is_open.set()
        await producer.close()
        assert [message.payload for message in await log.poll("shop/orders")] == [b"b"]

    run(body)


def test_an_interceptors_error_that_a_cancelled_flush_had_taken_is_raised_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Interceptor):
        on_error = "raise"

        def on_acknowledged(self, message: Any, error: Exception | None) -> None:
            raise ValueError("no room for reports")

    async def main() -> None:
        async with hs.connect_async("memory://", interceptors=[Failing()]) as log:
            await log.create_topic("shop/orders")
            producer = log.producer("shop/orders")
            await producer.send(b"a")
            has_begun, is_open, finish = threading.Event(), threading.Event(), InterceptedProducer._finish

            def hold(self: InterceptedProducer) -> None:
                has_begun.set()
                is_open.wait(60)
                finish(self)

            monkeypatch.setattr(InterceptedProducer, "_finish", hold)
            flushing = asyncio.create_task(producer.flush())
            await asyncio.to_thread(has_begun.wait, 10)
            flushing.cancel()
            is_open.set()
            with pytest.raises(asyncio.CancelledError):
                await flushing
            with pytest.raises(hs.InterceptorError, match="no room for reports"):
                await producer.flush()
            await producer.flush()
            await producer.close()

    asyncio.run(asyncio.wait_for(main(), 120))
