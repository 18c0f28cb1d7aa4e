"""Runs of an asynchronous client on a log in memory that has the topic `shop/orders`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import headstream as hs
from headstream.client.async_client import AsyncClient

__all__ = ["run", "send"]


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
