"""Frames of Kafka's protocol: a length, then a request with a head; sans-IO.

request    length i32 | api_key i16 | version i16 | correlation_id i32 | client_id string | [tagged fields] | message
response   length i32 | correlation_id i32 | [tagged fields] | message                            big-endian
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhih")
_RESPONSE: Final = struct.Struct(">ii")
_SMALL_BYTES: Final = 4 << 10
"""Minimum size of a buffer, which suffices for a fetch of a few partitions, a heartbeat, or a commit."""
_MAX_TAGS: Final = 100


class RequestHead(NamedTuple):
    """The head of a request.

    Args:
        correlation_id: Number that the response repeats.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str


def pull_head(frame: memoryview) -> tuple[RequestHead, int]:
    """Return the head of a frame, without tagged fields, and the position after the head; DecodeError if invalid."""
    if len(frame) < _HEAD.size:
        raise DecodeError("a request header is cut short", 0, _HEAD.size, len(frame))
    api_key, version, correlation_id, size = _HEAD.unpack_from(frame)
    at = _HEAD.size
    if size > len(frame) - at:
        raise DecodeError("the client id is cut short", at, size, len(frame) - at)
    try:
        client_id = str(frame[at : at + max(size, 0)], "utf-8")
    except UnicodeDecodeError:
        raise DecodeError("the client id (client.id) is not valid UTF-8", at) from None
    return RequestHead(api_key, version, correlation_id, client_id), at + max(size, 0)


def skip_tags(frame: memoryview, at: int) -> int:
    """Return the position after the tagged fields of a head; DecodeError if the fields are incomplete or too many."""
    count, at = _pull_varint(frame, at)
    if count > _MAX_TAGS:
        raise DecodeError("the header of a request has too many tagged fields", at)
    for _ in range(count):
        _, at = _pull_varint(frame, at)
        size, at = _pull_varint(frame, at)
        if size > len(frame) - at:
            raise DecodeError("a tagged field is cut short", at, size, len(frame) - at)
        at += size
    return at


def _pull_varint(frame: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(frame):
            break
        byte = frame[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise DecodeError("a varint is cut short", at)


def response_pieces(correlation_id: int, body: Sequence[BytesLike], *, is_flexible: bool) -> list[BytesLike]:
    """Return a complete response; `is_flexible`: the head has an (empty) section of tagged fields."""
    size = sum(map(len, body)) + 4 + is_flexible
    return [_RESPONSE.pack(size, correlation_id) + b"\0" * is_flexible, *body]


class KafkaFrameBuffer:
    """Buffer of one connection: bytes are received at the end; frames (up to `most_bytes`) are taken from the start."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._data = bytearray(_SMALL_BYTES)
        self._begin = self._end = 0

    @property
    def capacity_bytes(self) -> int:
        """The size of the buffer."""
        return len(self._data)

    @property
    def pending_bytes(self) -> int:
        """Received bytes that are not taken as frames."""
        return self._end - self._begin

    @property
    def is_full(self) -> bool:
        """Whether no bytes can be received until a frame is taken or the buffer grows."""
        return self.pending_bytes == len(self._data)

    @property
    def has_frame(self) -> bool:
        """Whether take() returns a frame, or reports an invalid length."""
        try:
            return 0 < self.needed_bytes() <= self.pending_bytes
        except DecodeError:
            return True

    def writable(self) -> memoryview:
        """Return the free part of the buffer, which is never empty; previously taken frames become invalid."""
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end == len(self._data):
            pending = self._data[self._begin : self._end]
            self._data[: len(pending)] = pending
            self._begin, self._end = 0, len(pending)
        return memoryview(self._data)[self._end :]

    def received(self, count: int) -> None:
        """Count bytes received into writable()."""
        self._end += count

    def needed_bytes(self) -> int:
        """Return the buffer size that the next frame requires, 0 if unknown; DecodeError for an invalid length."""
        if self.pending_bytes < 4:
            return 0
        size: int = _LENGTH.unpack_from(self._data, self._begin)[0]
        if not 0 <= size <= self.most_bytes:
            raise DecodeError("a request exceeds the size limit", self._begin, self.most_bytes, size)
        return size + 4

    def take(self) -> memoryview | None:
        """Return the next frame without its length, valid until bytes are received; None if the frame is incomplete."""
        needed = self.needed_bytes()
        if not needed or needed > self.pending_bytes:
            return None
        begin = self._begin
        self._begin += needed
        return memoryview(self._data)[begin + 4 : self._begin]

    def resize(self, size_bytes: int) -> None:
        """Resize the buffer, at least to the size of the pending bytes and the minimum size."""
        pending = bytes(memoryview(self._data)[self._begin : self._end])
        self._data = bytearray(max(size_bytes, len(pending), _SMALL_BYTES))
        self._data[: len(pending)] = pending
        self._begin, self._end = 0, len(pending)
