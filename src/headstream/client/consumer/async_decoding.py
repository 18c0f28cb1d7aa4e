"""The types of asynchronous consumers of decoded messages; see decoding.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar

from headstream.client.consumer.async_consumer import AsyncConsumer, AsyncTopicsConsumer
from headstream.client.consumer.decoding import DecodedMessage

_T = TypeVar("_T")

if TYPE_CHECKING:

    class AsyncDecodingConsumer(AsyncConsumer, Generic[_T]):
        """An asynchronous consumer of decoded messages."""

        def __aiter__(self) -> AsyncIterator[DecodedMessage[_T]]: ...
        async def __anext__(self) -> DecodedMessage[_T]: ...
        async def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[DecodedMessage[_T]]: ...  # type: ignore[override]

    class AsyncDecodingTopicsConsumer(AsyncTopicsConsumer, Generic[_T]):
        """An asynchronous consumer of decoded messages from several topics."""

        def __aiter__(self) -> AsyncIterator[DecodedMessage[_T]]: ...
        async def __anext__(self) -> DecodedMessage[_T]: ...
        async def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[DecodedMessage[_T]]: ...  # type: ignore[override]

else:
    AsyncDecodingConsumer, AsyncDecodingTopicsConsumer = AsyncConsumer, AsyncTopicsConsumer
