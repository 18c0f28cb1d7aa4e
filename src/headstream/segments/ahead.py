"""Reading ahead for those who ask for few messages at a time, one poll after the other.

A read of one message costs as much as one of a hundred: so the second of two small reads, where it begins at the end of the
first, brings those behind it as well, checked, and the next reads find them here. Compiled, as it is asked for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headstream.codec.batch.scan import take

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
    from headstream.segments.follower import PartitionFollower
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.scan import take_at
    from headstream.codec.uncompiled_primitives import copy, load64, new_bytes, readable, writable
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.scan import take_at
    from cython.cimports.headstream.codec.primitives import copy, load64, new_bytes, readable, writable

__all__ = ["Ahead"]

_SMALL_BYTES: Final = 4 << 10
"""What more is read than this costs its own bytes, not the asking."""

_AHEAD_BYTES: Final = 16 << 10
"""What is read ahead: enough for the asking to cost next to nothing, little enough for thousands of partitions."""

_NOWHERE: Final = -1
_NOTES: Final = bytearray(48)


class Ahead:
    """What lies ahead of the last small read of a partition; one thread at a time."""

    def __init__(self) -> None:
        self._kept = b""
        self._at = 0
        self._next_offset = _NOWHERE

    def read_chunk(
        self, follower: PartitionFollower, from_offset: int, until_offset: int, size_bytes: int
    ) -> tuple[memoryview, int]:
        """Return what follower.read_chunk() returns; the states in it may be those of an earlier read.

        Args:
            follower: The partition, always the same one.
            from_offset: The first one, first_offset or later.
            until_offset: One past the last one, more than from_offset, at most end_offset.
            size_bytes: About how big the chunk is.
        """
        if from_offset == self._next_offset:
            if self._at == len(self._kept) and until_offset < follower.end_offset and not follower.may_miss(from_offset):
                # A copy: the buffer it was read into goes back to all the others.
                self._kept, self._at = bytes(follower.read_chunk(from_offset, follower.end_offset, _AHEAD_BYTES)[0]), 0
            if self._at < len(self._kept):
                at = self._at
                self._at, count = take(self._kept, at, until_offset - from_offset, size_bytes)
                self._next_offset = from_offset + count
                return memoryview(self._kept)[at : self._at], self._next_offset
        chunk, reached = follower.read_chunk(from_offset, until_offset, size_bytes)
        self.forget()
        if len(chunk) <= _SMALL_BYTES:
            self._next_offset = reached
        return chunk, reached

    def take_kept(
        self, offset: cython.longlong, count: cython.longlong, size_bytes: cython.longlong, head: cython.longlong
    ) -> bytearray | None:
        """Return the next messages if all of them are here, as stored; their states may be those of an earlier read.

        Args:
            offset: The first one's.
            count: How many.
            size_bytes: The most bytes that they may have.
            head: How much room is left before them, bytes.
        """
        kept = memoryview(self._kept)
        size: cython.longlong = kept.nbytes
        if offset != self._next_offset or self._at == size or count < 1:
            return None
        p: cython.p_const_uchar = readable(kept)
        notes: cython.p_uchar = writable(_NOTES)
        end: cython.longlong = take_at(p, self._at, size, count, size_bytes, notes)
        if end < 0 or load64(notes, 24) != count:
            return None
        size = end - self._at
        taken = new_bytes(head + size)
        copy(writable(taken), head, p, self._at, size)
        self._at = end
        self._next_offset = offset + count
        return taken

    def forget(self) -> None:
        """Read anew from now on: states have changed."""
        self._kept, self._at = b"", 0
        self._next_offset = _NOWHERE
