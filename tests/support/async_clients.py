"""Runs of an asynchronous client on a log in memory that has the topic `shop/orders`, and gates that hold its calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import headstream as hs


def run(body: Callable[[hs.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with hs.connect_async("memory://") as log:
            await log.create_topic("shop/orders", partitions=2)
            await body(log)

    asyncio.run(asyncio.wait_for(main(), 120))


async def send(log: hs.AsyncClient, *payloads: bytes) -> None:
    async with log.producer("shop/orders") as producer:
        for payload in payloads:
            await producer.send(payload, partition=1)


class Gate:
    """Holds a function of the client until it is opened, and knows when its work is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.has_begun, self.is_open = threading.Event(), threading.Event()
        call = getattr(owner, name)

        def held(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            self.has_begun.set()
            self.is_open.wait(60)
            return result

        monkeypatch.setattr(owner, name, held)

    async def cancel(self, waiting: Coroutine[Any, Any, Any]) -> None:
        """Cancel a call that has done its work, and whose result is under way."""
        task = asyncio.create_task(waiting)
        await asyncio.to_thread(self.has_begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        self.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await task
