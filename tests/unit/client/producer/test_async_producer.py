"""Unit tests of headstream.client.producer.async_producer."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import headstream as hs
from headstream.broker.messages.messages import Messages
from headstream.core.model.producers import Appended
from tests.support.async_clients import run


def test_a_message_whose_send_was_cancelled_while_it_awaited_room_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    is_open = threading.Event()
    store = Messages.append

    def hold(*arguments: Any, **options: Any) -> Appended:
        is_open.wait(60)
        return store(*arguments, **options)

    monkeypatch.setattr(Messages, "append", hold)

    async def body(log: hs.AsyncClient) -> None:
        async with log.producer("shop/orders", buffer_bytes=1, linger_ms=0) as producer:
            await producer.send(b"a", partition=1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send(b"b", partition=1), 0.01)
            is_open.set()
            await producer.send(b"c", partition=1)
        assert [message.payload for message in await log.poll("shop/orders")] == [b"a", b"c"]

    run(body)


def test_send_waits_in_a_thread_while_the_buffer_is_full() -> None:
    async def body(log: hs.AsyncClient) -> None:
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
        is_open.wait(60)
        if fails:
            raise hs.StorageError("no room")
        return store(*arguments, **options)

    monkeypatch.setattr(Messages, "append", hold)

    async def body(log: hs.AsyncClient) -> None:
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
