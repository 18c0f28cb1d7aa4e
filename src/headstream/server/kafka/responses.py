"""ResponseWriter: the responses of one connection, written together where requests came together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from headstream.core.codec.buffer import BytesLike
from headstream.server.kafka.protocol.framing import response_pieces
from headstream.server.kafka.traffic import KafkaTraffic
from headstream.server.network.sockets import write_pieces

__all__ = ["ResponseWriter"]

_FULL_BYTES: Final = 64 << 10
"""From this size on, responses are written although another request is there."""


class ResponseWriter:
    """Collects responses until flush().

    Args:
        transport: Where they are written.
        traffic: Counts their bytes.
    """

    __slots__ = ("_pieces", "_size_bytes", "_traffic", "_transport")

    def __init__(self, transport: asyncio.WriteTransport, traffic: KafkaTraffic) -> None:
        self._transport = transport
        self._traffic = traffic
        self._pieces: list[BytesLike] = []
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the responses are to be written now."""
        return self._size_bytes >= _FULL_BYTES

    def add(self, correlation_id: int, body: Sequence[BytesLike], *, is_flexible: bool) -> None:
        """Add a response.

        Args:
            correlation_id: The request's.
            body: The message.
            is_flexible: Whether its head has a section of tagged fields.
        """
        pieces = response_pieces(correlation_id, body, is_flexible=is_flexible)
        size_bytes = sum(map(len, pieces))
        self._traffic.sent_bytes += size_bytes
        self._size_bytes += size_bytes
        self._pieces += pieces

    def add_bytes(self, data: bytes) -> None:
        """Add bytes that are a whole response."""
        self._size_bytes += len(data)
        self._pieces.append(data)

    def flush(self) -> None:
        """Write what was added."""
        if not self._pieces:
            return
        pieces, size_bytes = self._pieces, self._size_bytes
        self._pieces, self._size_bytes = [], 0
        if not self._transport.is_closing():
            write_pieces(self._transport, pieces, size_bytes, is_joined=False)
