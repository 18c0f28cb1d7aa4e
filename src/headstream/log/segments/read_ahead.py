"""Read-ahead cache for consumers that poll a few messages at a time.

Reading one message costs as much as reading a hundred messages. If a small read continues the previous read, ReadAhead also reads
and checks the following messages, and serves the next polls from memory. Compiled, because each poll uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headstream.core.codec.batch.stored.scan import take

if TYPE_CHECKING:
    from typing import Protocol

    from headstream.core.codec import uncompiled as cython

    class ChunkReader(Protocol):
        """The interface of a partition's follower for ReadAhead."""

        @property
        def end_offset(self) -> int: ...
        def may_miss(self, offset: int, /) -> bool: ...
        def read_chunk(self, from_offset: int, until_offset: int, size_bytes: int, /) -> tuple[memoryview, int]: ...

else:
    try:
        import cython
    except ImportError:
        from headstream.core.codec import uncompiled as cython

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.stored.scan import take_at
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.stored.scan import take_at

__all__ = ["ReadAhead"]

_SMALL_BYTES: Final = 4 << 10
"""Maximum size of a small read, bytes. The bytes of a larger read cost more than the call: reading ahead would not help."""

_READ_AHEAD_BYTES: Final = 16 << 10
"""Bytes read ahead: enough to amortize a call, few enough for thousands of partitions."""

_NOWHERE: Final = -1
_NOTES_BYTES: Final = 48
_NOTES: Final = bytearray(_NOTES_BYTES)
"""Shared by compiled code, protected by the interpreter's lock."""


class ReadAhead:
    """The messages that follow the last small read of a partition; not thread-safe."""

    def __init__(self) -> None:
        self._cached = b""
        self._at = 0
        self._next_offset = _NOWHERE

    def read_chunk(self, follower: ChunkReader, from_offset: int, until_offset: int, size_bytes: int) -> tuple[memoryview, int]:
        """Return the result of the follower's read_chunk(); message states can be outdated."""
        if from_offset == self._next_offset:
            if self._at == len(self._cached) and until_offset < follower.end_offset and not follower.may_miss(from_offset):
                # A copy: the follower reuses its buffer.
                self._cached, self._at = bytes(follower.read_chunk(from_offset, follower.end_offset, _READ_AHEAD_BYTES)[0]), 0
            if self._at < len(self._cached):
                at = self._at
                self._at, count = take(self._cached, at, until_offset - from_offset, size_bytes)
                self._next_offset = from_offset + count
                return memoryview(self._cached)[at : self._at], self._next_offset
        chunk, reached = follower.read_chunk(from_offset, until_offset, size_bytes)
        self.forget()
        if len(chunk) <= _SMALL_BYTES:
            self._next_offset = reached
        return chunk, reached

    def take_cached(
        self, offset: cython.longlong, count: cython.longlong, size_bytes: cython.longlong, head: cython.longlong
    ) -> bytearray | None:
        """Return `head` free bytes and the next messages if all are cached, else None; message states can be outdated."""
        cached = memoryview(self._cached)
        size: cython.longlong = cached.nbytes
        if offset != self._next_offset or self._at == size or count < 1:
            return None
        p: cython.p_const_uchar = c.readable(cached)
        notes: cython.p_uchar = c.writable(_NOTES if cython.compiled else bytearray(_NOTES_BYTES))
        end: cython.longlong = take_at(p, self._at, size, count, size_bytes, notes)
        if end < 0 or c.load64(notes, layout.NOTED_COUNT) != count:
            return None
        size = end - self._at
        taken = c.new_bytes(head + size)
        c.copy(c.writable(taken), head, p, self._at, size)
        self._at = end
        self._next_offset = offset + count
        return taken

    def forget(self) -> None:
        """Drop the cached messages, because states have changed."""
        self._cached, self._at = b"", 0
        self._next_offset = _NOWHERE
