"""Frames: the units of the TCP byte stream, received in pieces of any size. This module does not use sockets.

    request   length u32 | code u32 | payload       length is the size of code and payload
    response  status u32 | length u32 | body        length is the size of the body; 0 if status is not 0

There are no request ids: the requests of a connection are answered in order. A body of one byte must never be sent, because
existing clients do not read bodies of length 0 or 1.

    frames = FrameBuffer.for_requests()        one per connection
    view = frames.writable()                   space for recv_into(), or for asyncio's BufferedProtocol.get_buffer()
    for frame in frames.received(count):       the newly complete requests; their payloads are views into the buffer,
        ...                                    valid until done()
    frames.done()

Memory: at first, at most 1 MiB of a frame can be filled; then the limit is twice the number of received bytes. After the first
step, memory for the entire frame is allocated, so nothing is copied while a long frame arrives. The operating system assigns
pages only when they are written. Between requests a connection has no buffer; the pool caches some buffers for all connections.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.new_buffer import new_buffer
from headstream.core.wire.frame_scan import scan_frames
from headstream.core.wire.vsr.frames import scan_requests
from headstream.errors import DecodeError

MAX_FRAME_BYTES: Final = 65 << 20
"""Maximum size of a frame, bytes. The largest valid send has 10,000,000 bytes of payloads and 100,000 of header values, and 24
bytes per message; an atomic append has up to 64 MiB of messages, plus names."""

_MIN_BUFFER_BYTES: Final = 64 << 10
_STEP_BYTES: Final = 1 << 20
"""Number of bytes that a frame gets initially; smaller steps would cause copies and new memory pages."""
_MOST_RESERVED_BYTES: Final = MAX_FRAME_BYTES
"""Maximum number of a frame's bytes for which a buffer is allocated before the bytes arrive."""
_SHRINK_FACTOR: Final = 2
"""A buffer that exceeds the needed size by this factor is replaced with a smaller buffer, and not taken from the pool."""
_POOLED_BYTES: Final = 32 << 20
_HEAD: Final = struct.Struct("<II")
_VSR_BEGIN: Final = bytes(4)


class Frame(NamedTuple):
    """One complete frame: the code of a request or the status of a response, and a view of the payload in the buffer."""

    number: int
    payload: memoryview


class FrameBufferPool:
    """Free buffers for all connections of a process, at most `most_bytes` in total. Other buffers are returned to the system."""

    __slots__ = ("_free", "_most_bytes", "_size_bytes")

    def __init__(self, most_bytes: int = _POOLED_BYTES) -> None:
        self._free: list[bytearray] = []
        self._most_bytes = most_bytes
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The total size of the free buffers."""
        return self._size_bytes

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes: the smallest free buffer if it is not much larger, otherwise a new buffer."""
        if size >= _MIN_BUFFER_BYTES:  # a smaller request can hold its buffer for a long time
            at = bisect_left(self._free, size, key=len)
            if at < len(self._free) and len(self._free[at]) <= _SHRINK_FACTOR * size:
                buffer = self._free.pop(at)
                self._size_bytes -= len(buffer)
                return buffer
        return new_buffer(size)

    def give(self, buffer: bytearray) -> None:
        """Return a buffer to the pool; its previous user must no longer read it."""
        if _MIN_BUFFER_BYTES <= len(buffer) <= self._most_bytes - self._size_bytes:
            insort(self._free, buffer, key=len)
            self._size_bytes += len(buffer)


class FrameBuffer:
    """The received bytes of one connection, and the frames in these bytes.

    Args:
        most_bytes: Maximum frame size including the header, bytes; the first buffer is not larger.
        finds_vsr: Whether requests can be of protocol 0.11, whose frames begin with 4 zeros (vsr/frames.py).

    Attributes:
        is_vsr: Whether the connection uses protocol 0.11; known after the first 4 bytes. A payload is then the entire frame.
    """

    __slots__ = (
        "_begin",
        "_buffer",
        "_end",
        "_fault",
        "_finds_vsr",
        "_is_request",
        "_limit",
        "_min_bytes",
        "_most_bytes",
        "_need",
        "_pool",
        "_view",
        "is_vsr",
    )

    def __init__(
        self, *, is_request: bool, pool: FrameBufferPool | None = None, most_bytes: int = MAX_FRAME_BYTES, finds_vsr: bool = False
    ) -> None:
        self._finds_vsr = finds_vsr
        self.is_vsr = False
        self._is_request = is_request
        self._pool = FrameBufferPool() if pool is None else pool
        self._most_bytes = most_bytes
        self._min_bytes = min(_MIN_BUFFER_BYTES, most_bytes)
        self._buffer: bytearray | None = None
        self._view = memoryview(b"")
        self._begin = self._end = self._limit = 0
        self._need = 8
        self._fault: DecodeError | None = None

    @classmethod
    def for_requests(
        cls, pool: FrameBufferPool | None = None, most_bytes: int = MAX_FRAME_BYTES, *, finds_vsr: bool = False
    ) -> FrameBuffer:
        """Return a buffer for the server's side of a connection."""
        return cls(is_request=True, pool=pool, most_bytes=most_bytes, finds_vsr=finds_vsr)

    @classmethod
    def for_responses(cls, pool: FrameBufferPool | None = None, most_bytes: int = (1 << 32) + 8) -> FrameBuffer:
        """Return a buffer for the client's side of a connection, where replies to polls can be long."""
        return cls(is_request=False, pool=pool, most_bytes=most_bytes)

    @property
    def fault(self) -> DecodeError | None:
        """The error for a frame that is too long; the connection sends it and closes, because no further frame can be read."""
        return self._fault

    def set_max_bytes(self, most_bytes: int) -> None:
        """Set the maximum frame size, bytes; received(0) then returns a pending frame that was too long before."""
        self._most_bytes = most_bytes
        if self._fault is not None and (self._fault.need or 0) <= most_bytes:
            self._fault = None
        self._min_bytes = min(_MIN_BUFFER_BYTES, most_bytes)

    @property
    def needed_bytes(self) -> int:
        """Number of bytes that can be added after the next writable(); 0 if no frame is pending."""
        if self._buffer is None:
            return 0
        return self._limit if self._end < self._limit else self._grown_size()

    def _grown_size(self) -> int:
        """Return the size to which a full buffer can be filled next, with the limits of the module's docstring."""
        pending = self._end - self._begin
        return max(min(max(2 * pending, _STEP_BYTES), max(self._need, pending + 1)), self._min_bytes)

    @property
    def pending_bytes(self) -> int:
        """Number of received bytes of an incomplete frame; when the connection ends, these bytes are lost."""
        return self._end - self._begin

    def writable(self) -> memoryview:
        """Return space for at least one more byte; pass the number of bytes written into it to received()."""
        if self._buffer is None:
            self._begin_buffer(self._min_bytes)
        elif self._end == self._limit:
            self._grow(self._grown_size())
        return self._view[self._end : self._limit]

    def _begin_buffer(self, size: int) -> None:
        buffer = self._buffer = self._pool.take(size)
        self._view = memoryview(buffer)
        self._limit = len(buffer)

    def copy_in(self, data: memoryview) -> int:
        """Copy at most 64 KiB to writable() while no frame is pending; return the number of bytes, which received() needs."""
        if self._buffer is None and len(data) > self._min_bytes:
            self._begin_buffer(_MIN_BUFFER_BYTES)
        self.writable()[: len(data)] = data
        return len(data)

    def received(self, count: int) -> list[Frame]:
        """Return the frames that have become complete."""
        self._end += count
        if self._fault is not None:
            self._begin = self._end
            return []
        view = self._view
        if self._finds_vsr and self._end - self._begin >= 4:
            self._finds_vsr = False
            self.is_vsr = view[self._begin : self._begin + 4] == _VSR_BEGIN
        if self.is_vsr:
            found = scan_requests(view, self._begin, self._end, self._most_bytes)
        else:
            found = scan_frames(view, self._begin, self._end, self._most_bytes, self._is_request)
        self._begin, self._need = found.end, found.need
        if found.is_too_long:
            self._fault = DecodeError(
                "a frame exceeds the limit",
                0,
                found.need,
                self._most_bytes,
                advice=f"Send at most {self._most_bytes} bytes at once",
            )
        return [Frame(number, view[begin:end]) for number, begin, end in found.frames]

    def feed(self, data: BytesLike) -> list[Frame]:
        """Add bytes and return the complete frames as copies; calls done() as necessary."""
        rest, frames = memoryview(data).cast("B"), list[Frame]()
        while rest:
            writable = self.writable()
            count = min(len(writable), len(rest))
            writable[:count] = rest[:count]
            more = self.received(count)
            frames += [Frame(number, memoryview(bytes(payload))) for number, payload in more]
            self.done()
            rest = rest[count:]
        return frames

    def done(self) -> None:
        """Release the payloads that received() returned, so that their memory can be reused."""
        if self._buffer is None:
            return
        if self._begin == self._end:
            self.close()
        elif self._limit - self._begin < min(self._need, 2 * (self._end - self._begin)):
            self._grow(min(self._need, max(2 * (self._end - self._begin), _STEP_BYTES)))
        elif len(self._buffer) > _SHRINK_FACTOR * self._min_bytes and self._need <= self._min_bytes:
            self._move(self._min_bytes)

    def close(self) -> None:
        """Discard the received bytes, and return the buffer to the pool."""
        buffer, self._buffer = self._buffer, None
        self._view = memoryview(b"")
        self._begin = self._end = self._limit = 0
        if buffer is not None:
            self._pool.give(buffer)

    def _grow(self, size: int) -> None:
        """Allow `size` bytes for the pending frame; it is not copied if the buffer has space for them."""
        if self._begin + size <= len(self._view):
            self._limit = self._begin + size
        else:
            self._move(size)

    def _move(self, size: int) -> None:
        """Move the pending bytes to the beginning of a buffer of at least `size` bytes, or of the full size of a long frame."""
        old, pending = self._buffer, self._view[self._begin : self._end]
        is_long = size > _STEP_BYTES
        new = self._pool.take(max(size, min(self._need, _MOST_RESERVED_BYTES)) if is_long else size)
        new[: len(pending)] = pending
        self._buffer, self._view = new, memoryview(new)
        self._begin, self._end, self._limit = 0, len(pending), size if is_long else len(new)
        pending.release()
        if old is not None:
            self._pool.give(old)


def request_head(code: int, size: int) -> bytes:
    """Encode the header of a request with a payload of `size` bytes."""
    return _HEAD.pack(size + 4, code)


def response_head(status: int, size: int) -> bytes:
    """Encode the header of a response with a body of `size` bytes."""
    return _HEAD.pack(status, size)


def encode_request(code: int, payload: BytesLike | Sequence[BytesLike] = b"") -> bytes:
    """Encode a request."""
    return _join(payload, 4, code, is_request=True)


def encode_response(status: int, body: BytesLike | Sequence[BytesLike] = b"") -> bytes:
    """Encode a response."""
    return _join(body, 0, status, is_request=False)


def _join(payload: BytesLike | Sequence[BytesLike], extra: int, number: int, *, is_request: bool) -> bytes:
    pieces: list[BytesLike] = [payload] if isinstance(payload, (bytes, bytearray, memoryview, mmap.mmap)) else list(payload)
    size = sum(len(piece) for piece in pieces) + extra
    head = _HEAD.pack(size, number) if is_request else _HEAD.pack(number, size)
    return b"".join([head, *pieces])
