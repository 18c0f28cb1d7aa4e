"""AsyncClient: the same names, awaited; nothing goes on behind a cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import headstream as hs
from headstream.broker.messages.messages import Messages
from headstream.client.admin.async_server import AsyncServer
from headstream.client.async_client import AsyncClient
from headstream.client.consumer.async_consumer import AsyncConsumer, AsyncTopicsConsumer
from headstream.client.consumer.retrying.consumer import RetryingConsumer
from headstream.client.consumer.shared.consumer import SharedConsumer
from headstream.client.consumer.topics_consumer import TopicsConsumer
from headstream.client.interception.producer import InterceptedProducer
from headstream.client.producer.async_producer import AsyncProducer
from headstream.client.transports.remote.server import Server
from headstream.core.model.producers import Appended
from headstream.interceptors.interceptor import Interceptor


def run(body: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with hs.connect_async("memory://") as log:
            await log.create_topic("shop/orders", partitions=2)
            await body(log)

    asyncio.run(asyncio.wait_for(main(), 30))


async def send(log: AsyncClient, *payloads: bytes) -> None:
    async with log.producer("shop/orders") as producer:
        for payload in payloads:
            await producer.send(payload, partition=1)


def test_every_name_of_the_client_is_there() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    internal = {
        "after_fork",
        "interrupt",
        "has_interceptors",
        "forwarding_producer",
        "transport",
    }  # for the package itself and tools
    assert names(AsyncClient) == names(hs.Client) - internal
    assert names(AsyncServer) == names(Server) - {"caller"}
    assert names(AsyncProducer) == names(hs.Producer) - {
        "after_fork",
        "flush_within",
        "is_full",
        "partition_of",
        "partitions",
        "raise_again",
        "close_soon",
        "wait_for",
        "wait_for_room",
        "watch",
    }
    inner = {"after_fork", "fetch", "finish", "is_ready", "may_wait", "put_back", "take", "record_failure"}
    assert names(AsyncConsumer) == names(hs.Consumer) - inner
    left_out = inner | {"consumer"}
    assert names(AsyncTopicsConsumer) == names(hs.TopicsConsumer) - left_out | {"seek"}


def test_streams_and_topics() -> None:
    async def body(log: AsyncClient) -> None:
        await log.create_stream("bank")
        assert [stream.name for stream in await log.streams()] == ["shop", "bank"]
        assert (await log.stream("shop")).topics == ("orders",)
        assert (await log.create_topic("bank/a", limits="wide")).limits == "wide"
        assert [topic.full_name for topic in await log.topics()] == ["shop/orders", "bank/a"]
        assert len((await log.topic("shop/orders")).partitions) == 2
        await log.delete_topic("bank/a")
        await log.delete_stream("bank")
        assert [topic.full_name for topic in await log.topics()] == ["shop/orders"]
        with pytest.raises(hs.TopicNotFoundError):
            async with log.producer("shop/none"):
                pass

    run(body)


def test_send_poll_iterate_and_commit() -> None:
    async def body(log: AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        assert [m.payload for m in await log.poll("shop/orders", start="last", count=2)] == [b"b", b"c"]
        async with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
            assert [m.payload async for m in consumer] == [b"a", b"b", b"c"]
            assert consumer.positions == {1: 3, 2: 0}
        assert await log.offsets("shop/orders", "g") == {1: 3}
        assert len(await log.identity or "") == 36
        async with log.consumer("shop/orders", group="h") as consumer:
            assert [m.payload for m in await consumer.poll(2)] == [b"a", b"b"]
            await consumer.commit()
            await consumer.seek(1, 0)
            assert len(await consumer.poll(10)) == 3
        assert await log.offsets("shop/orders", "h") == {1: 2}

    run(body)


def test_states_options_partitions_and_purge() -> None:
    async def body(log: AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        await log.set_state("shop/orders", 1, 1, "poisoned", reason="no JSON", by="ops")
        [change] = await log.states("shop/orders")
        assert (change.offset, change.state, change.reason, change.by) == (1, 20, "no JSON", "ops")
        assert [m.payload for m in await log.poll("shop/orders")] == [b"a", b"c"]
        assert [m.payload for m in await log.poll("shop/orders", states=["poisoned"])] == [b"b"]
        assert (await log.update_topic("shop/orders", retention_bytes=1000)).retention_bytes == 1000
        assert len((await log.create_partitions("shop/orders", 2)).partitions) == 4
        assert len((await log.delete_partitions("shop/orders", 3)).partitions) == 1
        await log.purge_topic("shop/orders")
        assert (await log.topic("shop/orders")).messages_count == 0
        assert await log.states("shop/orders") == []
        with pytest.raises(hs.InvalidOptionError):
            await log.update_topic("shop/orders", retention_us=0)

    run(body)


def test_a_rebalance_that_takes_what_was_ready_does_not_block_the_loop() -> None:
    async def body(log: AsyncClient) -> None:
        for partition in (1, 2):
            async with log.producer("shop/orders") as producer:
                for number in range(5):
                    await producer.send(b"%d" % number, partition=partition)
        found: list[tuple[int | None, int | None]] = []

        async def read(consumer: AsyncConsumer, count: int) -> None:
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
    async def body(log: AsyncClient) -> None:
        async with log.consumer("shop/orders", group="g") as consumer:
            waiting = asyncio.create_task(anext(consumer))
            await asyncio.sleep(0)
            assert not waiting.done()
            await send(log, b"at last")
            assert (await waiting).payload == b"at last"

    run(body)


def test_a_cancelled_wait_takes_no_message_with_it() -> None:
    async def body(log: AsyncClient) -> None:
        async with log.consumer("shop/orders", group="g") as consumer:
            for _ in range(3):
                waiting = asyncio.create_task(anext(consumer))
                await asyncio.sleep(0.01)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await send(log, b"first")
            assert (await anext(consumer)).offset == 0
        assert await log.offsets("shop/orders", "g") == {1: 1}

    run(body)


class Gate:
    """Holds a function of the client until it is opened, and knows when its work is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.has_begun, self.is_open = threading.Event(), threading.Event()
        monkeypatch.setattr(owner, name, self.hold(getattr(owner, name)))

    def hold(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls another one, and returns when the gate is open."""

        def held(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            self.has_begun.set()
            self.is_open.wait(10)
            return result

        return held

    async def cancel(self, waiting: Coroutine[Any, Any, Any]) -> None:
        """Cancel a call that has done its work, and whose result is under way."""
        task = asyncio.create_task(waiting)
        await asyncio.to_thread(self.has_begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        self.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_what_a_cancelled_poll_had_taken_is_returned_by_the_next_one_and_committed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(log: AsyncClient) -> None:
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
    async def body(log: AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        options: dict[str, Any] = {"consumer": "me", "auto_commit": True}
        await Gate(monkeypatch, hs.Client, "poll").cancel(log.poll("shop/orders", 1, count=2, **options))
        assert [message.payload for message in await log.poll("shop/orders", 1, count=1, **options)] == [b"a"]
        assert [message.payload for message in await log.poll("shop/orders", 1, **options)] == [b"b"]
        assert [message.payload for message in await log.poll("shop/orders", 1, **options)] == [b"c"]

    run(body)


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
    gate = Gate(monkeypatch, TopicsConsumer if mode == "topics" else hs.Consumer, "poll")
    for owner in (RetryingConsumer, SharedConsumer):
        monkeypatch.setattr(owner, "poll", gate.hold(owner.poll))

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

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_close_beside_a_cancelled_first_call_closes_the_consumer_that_it_creates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: AsyncClient) -> None:
        gate = Gate(monkeypatch, hs.Client, "consumer")
        consumer = log.consumer("shop/orders", group="g")
        first = asyncio.create_task(consumer.poll())
        await asyncio.to_thread(gate.has_begun.wait, 10)
        first.cancel()
        asyncio.get_running_loop().call_soon(gate.is_open.set)
        await consumer.close()
        assert [group.members for group in await log.groups("shop/orders")] == []

    run(body)


def test_polls_that_are_cancelled_together_keep_what_both_have_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: AsyncClient) -> None:
        await send(log, b"a", b"b", b"c")
        options: dict[str, Any] = {"consumer": "me", "auto_commit": True, "count": 1, "start": "next"}
        gate = Gate(monkeypatch, hs.Client, "poll")
        tasks = [asyncio.create_task(log.poll("shop/orders", 1, **options)) for _ in range(2)]
        await asyncio.to_thread(gate.has_begun.wait, 10)
        tasks[0].cancel()
        gate.has_begun.clear()
        gate.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        gate.is_open.clear()
        await asyncio.to_thread(gate.has_begun.wait, 10)
        tasks[1].cancel()
        gate.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        polled = [message.payload for _ in range(3) for message in await log.poll("shop/orders", 1, **options)]
        assert polled == [b"a", b"b", b"c"]

    run(body)


def test_a_call_that_is_cancelled_while_another_one_runs_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: AsyncClient) -> None:
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


def test_a_message_whose_send_was_cancelled_while_it_awaited_room_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    is_open = threading.Event()
    store = Messages.append

    def hold(*arguments: Any, **options: Any) -> Appended:
        is_open.wait(10)
        return store(*arguments, **options)

    monkeypatch.setattr(Messages, "append", hold)

    async def body(log: AsyncClient) -> None:
        async with log.producer("shop/orders", buffer_bytes=1, linger_ms=0) as producer:
            await producer.send(b"a", partition=1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send(b"b", partition=1), 0.01)
            is_open.set()
            await producer.send(b"c", partition=1)
        assert [message.payload for message in await log.poll("shop/orders")] == [b"a", b"c"]

    run(body)


def test_an_exception_in_the_body_commits_nothing_of_its_message() -> None:
    async def body(log: AsyncClient) -> None:
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


def test_errors_come_through() -> None:
    async def body(log: AsyncClient) -> None:
        async with log.producer("shop/orders") as producer:
            with pytest.raises(hs.LimitError):
                await producer.send(b"")
        with pytest.raises(hs.ClosedError):
            await producer.flush()
        await producer.close()
        async with hs.connect_async("memory://") as other:
            await other.close()
            with pytest.raises(hs.ClosedError, match="the async client is closed"):
                await other.streams()

    run(body)


def test_send_waits_in_a_thread_while_the_buffer_is_full() -> None:
    async def body(log: AsyncClient) -> None:
        async with log.producer("shop/orders", buffer_bytes=1, linger_ms=0) as producer:
            for number in range(50):
                await producer.send(b"%d" % number, partition=1)
        assert len(await log.poll("shop/orders", count=100)) == 50

    run(body)


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancelled_flush_ends_and_what_becomes_of_its_messages_is_told_by_the_next_call(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_open = threading.Event()
    store = Messages.append

    def hold(*arguments: Any, **options: Any) -> Appended:
        is_open.wait(10)
        if fails:
            raise hs.StorageError("no room")
        return store(*arguments, **options)

    monkeypatch.setattr(Messages, "append", hold)

    async def body(log: AsyncClient) -> None:
        producer = log.producer("shop/orders")
        await producer.send(b"a", partition=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.flush(), 0.05)
        assert not is_open.is_set()
        flushing = asyncio.create_task(producer.flush())
        await asyncio.sleep(0)
        is_open.set()
        await asyncio.sleep(0)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        if fails:
            with pytest.raises(hs.StorageError, match="no room"):
                await producer.close()
        await producer.close()
        assert len(await log.poll("shop/orders")) == (0 if fails else 1)

    run(body)


def test_an_error_that_was_raised_once_is_not_raised_again_after_a_cancelled_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    is_open, has_begun, store = threading.Event(), threading.Event(), Messages.append

    def fail(*arguments: Any, **options: Any) -> Appended:
        raise hs.StorageError("no room")

    def hold(*arguments: Any, **options: Any) -> Appended:
        has_begun.set()
        is_open.wait(10)
        return store(*arguments, **options)

    async def body(log: AsyncClient) -> None:
        producer = log.producer("shop/orders")
        monkeypatch.setattr(Messages, "append", fail)
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
                is_open.wait(10)
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

    asyncio.run(asyncio.wait_for(main(), 30))
