"""AsyncClient: the same names, awaited; nothing goes on behind a cancellation."""

from __future__ import annotations

import pytest

import headstream as hs
from tests.support.async_clients import run, send


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
    assert names(hs.AsyncClient) == names(hs.Client) - internal
    assert names(hs.AsyncServer) == names(hs.Server) - {"caller"}
    assert names(hs.AsyncProducer) == names(hs.Producer) - {
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
    inner = {
        "after_fork",
        "end_cancelled",
        "fetch",
        "finish",
        "is_ready",
        "may_wait",
        "put_back",
        "take",
        "take_within",
        "record_failure",
    }
    assert names(hs.AsyncConsumer) == names(hs.Consumer) - inner
    left_out = inner | {"consumer"}
    assert names(hs.AsyncTopicsConsumer) == names(hs.TopicsConsumer) - left_out | {"seek"}


def test_asynchronous_client_creates_lists_and_deletes_streams_and_topics() -> None:
    async def body(log: hs.AsyncClient) -> None:
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
    async def body(log: hs.AsyncClient) -> None:
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


def test_asynchronous_client_sets_states_options_and_partitions_and_purges() -> None:
    async def body(log: hs.AsyncClient) -> None:
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


def test_asynchronous_client_raises_errors_for_invalid_messages_and_closed_objects() -> None:
    async def body(log: hs.AsyncClient) -> None:
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
