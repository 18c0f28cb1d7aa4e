"""Frames: what goes over TCP, in pieces of any size, without a socket.

    request   length u32 | code u32 | payload       length counts code and payload
    response  status u32 | length u32 | body        length counts the body; 0 where status is not 0

There are no request ids: a connection's requests are answered in their order. A body of one byte must never be sent
(existing clients do not read bodies of length 0 or 1).

    frames = FrameBuffer.for_requests()        a connection's
    view = frames.writable()                   room for recv_into(), or for asyncio's BufferedProtocol.get_buffer()
    for frame in frames.received(count):       the requests that are whole now; their payloads are views into the buffer,
        ...                                    good until done()
    frames.done()

Memory: a buffer grows as bytes arrive, never because a frame claims to be long, to twice what has come; between
requests a connection holds none at all (the pool keeps a few for all).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headstream.codec.buffer import BytesLike
from headstream.errors import DecodeError
from headstream.wire.frame_scan import scan_frames

__all__ = [
    "MAX_FRAME_BYTES",
    "BufferPool",
    "Frame",
    "FrameBuffer",
    "encode_request",
    "encode_response",
    "request_head",
    "response_head",
]

MAX_FRAME_BYTES: Final = 65 << 20
"""The largest legal send has 10,000,000 bytes of payloads and 100,000 of header values, and 24 bytes a message; an atomic
append of our own has up to 64 MiB of messages, and names around them."""

_SMALLEST: Final = 64 << 10
_SMALLEST_SHARE: Final = 2
"""A buffer that is so many times as long as the smallest is given back for one, once little is pending."""
_POOLED_BYTES: Final = 32 << 20
_HEAD: Final = struct.Struct("<II")


class Frame(NamedTuple):
    """One whole frame.

    Args:
        number: The code of a request; the status of a response.
        payload: What follows the head, as a view into the buffer.
    """

    number: int
    payload: memoryview


class BufferPool:
    """Buffers that nobody uses now, for all connections of a process.

    Args:
        most_bytes: How many bytes are kept; more are given back to the system.
    """

    __slots__ = ("_free", "_most_bytes", "_size_bytes")

    def __init__(self, most_bytes: int = _POOLED_BYTES) -> None:
        self._free: list[bytearray] = []
        self._most_bytes = most_bytes
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """How many bytes are kept."""
        return self._size_bytes

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes: the one that was given last if it is large enough, and much is asked for."""
        if self._free and _SMALLEST <= size <= len(self._free[-1]):  # who asks for little may keep it for long
            buffer = self._free.pop()
            self._size_bytes -= len(buffer)
            return buffer
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back that nobody reads any more."""
        if _SMALLEST <= len(buffer) <= self._most_bytes - self._size_bytes:
            self._free.append(buffer)
            self._size_bytes += len(buffer)


class FrameBuffer:
    """Received bytes of one connection, and the frames in them.

    Args:
        is_request: Whether they are requests, or else responses.
        pool: Where buffers come from.
        most_bytes: The most bytes a frame may have in all; a buffer begins with no more than these.
    """

    __slots__ = ("_begin", "_buffer", "_end", "_fault", "_is_request", "_most_bytes", "_need", "_pool", "_smallest", "_view")

    def __init__(self, *, is_request: bool, pool: BufferPool | None = None, most_bytes: int = MAX_FRAME_BYTES) -> None:
        self._is_request = is_request
        self._pool = BufferPool() if pool is None else pool
        self._most_bytes = most_bytes
        self._smallest = min(_SMALLEST, most_bytes)
        self._buffer: bytearray | None = None
        self._view = memoryview(b"")
        self._begin = self._end = 0
        self._need = 8
        self._fault: DecodeError | None = None

    @classmethod
    def for_requests(cls, pool: BufferPool | None = None, most_bytes: int = MAX_FRAME_BYTES) -> FrameBuffer:
        """Return the buffer of a server's side of a connection."""
        return cls(is_request=True, pool=pool, most_bytes=most_bytes)

    @classmethod
    def for_responses(cls, pool: BufferPool | None = None, most_bytes: int = (1 << 32) + 8) -> FrameBuffer:
        """Return the buffer of a client's side of a connection; a poll's reply may be long."""
        return cls(is_request=False, pool=pool, most_bytes=most_bytes)

    @property
    def fault(self) -> DecodeError | None:
        """Why nothing more can be read, once a frame claimed to be too long: answer, and close the connection."""
        return self._fault

    def allow(self, most_bytes: int) -> None:
        """Let frames have so many bytes in all; one that was too long until now, and is not any more, is read by received(0)."""
        self._most_bytes = most_bytes
        if self._fault is not None and (self._fault.need or 0) <= most_bytes:
            self._fault = None
        self._smallest = min(_SMALLEST, most_bytes)

    @property
    def needed_bytes(self) -> int:
        """How long the buffer is once writable() has made room for more; 0 where nothing is pending."""
        if self._buffer is None:
            return 0
        return len(self._buffer) if self._end < len(self._buffer) else self._grown()

    def _grown(self) -> int:
        """Return how long a buffer is to be that is full: for twice of what is pending, or what its frame needs."""
        pending = self._end - self._begin
        return max(min(2 * pending, max(self._need, pending + 1)), self._smallest)

    @property
    def pending_bytes(self) -> int:
        """How many bytes of a frame are there that is not whole: at the end of a connection, what was lost."""
        return self._end - self._begin

    def writable(self) -> memoryview:
        """Return room for at least one more byte; what stands in it counts once received() says so."""
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = self._pool.take(self._smallest)
            self._view = memoryview(buffer)
        elif self._end == len(buffer):
            self._move(self._grown())
        return self._view[self._end :]

    def take_in(self, data: memoryview) -> int:
        """Copy bytes to where writable() says, and return how many they are, for received().

        Args:
            data: At most 64 KiB, while nothing is pending.
        """
        if self._buffer is None and len(data) > self._smallest:
            self._buffer = self._pool.take(_SMALLEST)
            self._view = memoryview(self._buffer)
        self.writable()[: len(data)] = data
        return len(data)

    def received(self, count: int) -> list[Frame]:
        """Return the frames that are whole now.

        Args:
            count: How many bytes were written into what writable() returned.
        """
        self._end += count
        if self._fault is not None:
            self._begin = self._end
            return []
        view = self._view
        found = scan_frames(view, self._begin, self._end, self._most_bytes, self._is_request)
        self._begin, self._need = found.end, found.need
        if found.is_too_long:
            self._fault = DecodeError(
                "a frame is longer than is allowed",
                0,
                found.need,
                self._most_bytes,
                advice=f"Send at most {self._most_bytes} bytes at once",
            )
        return [Frame(number, view[begin:end]) for number, begin, end in found.frames]

    def feed(self, data: BytesLike) -> list[Frame]:
        """Return the frames that are whole with these bytes; they are copied in. done() is called before more is fed."""
        rest, frames = memoryview(data).cast("B"), list[Frame]()
        while rest:
            room = self.writable()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            more = self.received(count)
            frames += [Frame(number, memoryview(bytes(payload))) for number, payload in more]
            self.done()
            rest = rest[count:]
        return frames

    def done(self) -> None:
        """Give up the payloads that received() has returned; what they stood in is used again."""
        if self._buffer is None:
            return
        if self._begin == self._end:
            self.close()
        elif len(self._buffer) - self._begin < min(self._need, 2 * (self._end - self._begin)):
            self._move(min(self._need, max(2 * (self._end - self._begin), self._smallest)))
        elif len(self._buffer) > _SMALLEST_SHARE * self._smallest and self._need <= self._smallest:
            self._move(self._smallest)

    def close(self) -> None:
        """Give the buffer back, and forget what is in it."""
        buffer, self._buffer = self._buffer, None
        self._view = memoryview(b"")
        self._begin = self._end = 0
        if buffer is not None:
            self._pool.give(buffer)

    def _move(self, size: int) -> None:
        """Move what is pending to the beginning of a buffer of at least `size` bytes."""
        old, pending = self._buffer, self._view[self._begin : self._end]
        new = self._pool.take(size)
        new[: len(pending)] = pending
        self._buffer, self._view = new, memoryview(new)
        self._begin, self._end = 0, len(pending)
        pending.release()
        if old is not None:
            self._pool.give(old)


def request_head(code: int, size: int) -> bytes:
    """Return the head of a request with a payload of `size` bytes."""
    return _HEAD.pack(size + 4, code)


def response_head(status: int, size: int) -> bytes:
    """Return the head of a response with a body of `size` bytes."""
    return _HEAD.pack(status, size)


def encode_request(code: int, payload: BytesLike | Sequence[BytesLike] = b"") -> bytes:
    """Return a request.

    Args:
        code: The command.
        payload: Its payload, in one piece or in several.
    """
    return _join(payload, 4, code, is_request=True)


def encode_response(status: int, body: BytesLike | Sequence[BytesLike] = b"") -> bytes:
    """Return a response.

    Args:
        status: 0, or why there is no reply.
        body: The reply, in one piece or in several.
    """
    return _join(body, 0, status, is_request=False)


def _join(payload: BytesLike | Sequence[BytesLike], extra: int, number: int, *, is_request: bool) -> bytes:
    pieces: list[BytesLike] = [payload] if isinstance(payload, (bytes, bytearray, memoryview, mmap.mmap)) else list(payload)
    size = sum(len(piece) for piece in pieces) + extra
    head = _HEAD.pack(size, number) if is_request else _HEAD.pack(number, size)
    return b"".join([head, *pieces])
