"""PartitionEnd: where the next send of a partition goes, and the short way there for a small one; compiled.

The short way is what Partition.append() does where nothing stands against it: check, stamp, data, index entry. It holds
the interpreter's lock from its first look to its last write and makes no Python object, so that to every other thread it
is one step. It is open only from the end of an append to the beginning of whatever else the partition's lock is taken for;
Partition opens and shuts it. Whoever finds it shut, or is sent back, goes the long way, which says what is the matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headstream.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.stamp import check_sent, store_sent
    from headstream.codec.uncompiled_checksums import crc32c_from
    from headstream.codec.uncompiled_primitives import after, readable, store32, store64, writable, write_at
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.stamp import check_sent, store_sent
    from cython.cimports.headstream.codec.checksums import crc32c_from
    from cython.cimports.headstream.codec.file_primitives import write_at
    from cython.cimports.headstream.codec.primitives import after, readable, store32, store64, writable

__all__ = ["MAX_SHORT_BYTES", "NO_SEGMENT", "PartitionEnd"]

NO_SEGMENT: Final = -1
"""The base offset of a partition that has no segment yet."""

MAX_SHORT_BYTES: Final = 16 << 10
"""The most bytes of a send that goes the short way: what takes longer shall let other threads run meanwhile."""

MOST_BYTES = cython.declare(cython.longlong, MAX_SHORT_BYTES)
ENTRY_BYTES = cython.declare(cython.longlong, INDEX_ENTRY_BYTES)
HEADER_BYTES = cython.declare(cython.longlong, INDEX_HEADER_BYTES)
GOLDEN = cython.declare(cython.ulonglong, 0x9E37_79B9_7F4A_7C15)
MASK64 = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)

# Where stored messages, an entry and faults are made, by whoever has the interpreter's lock: a message is 24 bytes or more
# as sent, and grows by 21.
_STORED: Final = bytearray(2 * MAX_SHORT_BYTES)
_ENTRY: Final = bytearray(INDEX_ENTRY_BYTES)
_NOTES: Final = bytearray(40)


class PartitionEnd:
    """The end of a partition's newest segment, for its writer.

    Args:
        directory: The partition's, by which those who wait for its messages are known.

    Attributes:
        base_offset: The newest segment's first offset, or NO_SEGMENT.
        end_offset: What the next message gets.
        byte_position: Where it goes in the segment.
        entries: How many sends the segment has.
        timestamp_us: The time of the newest message.
        written: How many sends have been written, counted in their order.
        is_doubtful: Set while a write is between its steps: should it end there, by whatever exception, what is on disk
            decides what was committed, not what is here.
        is_announced: Whether whoever syncs knows of what was appended since the last sync.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.base_offset = NO_SEGMENT
        self.end_offset = 0
        self.byte_position = 0
        self.entries = 0
        self.timestamp_us = 0
        self.written = 1
        self.is_doubtful = False
        self.is_announced = False
        self._is_open = False
        self._wide = False
        self._data = -1
        self._index = -1
        self._data_until = 0
        self._index_until = 0
        self._seed_low = 0
        self._seed_high = 0

    def open(self, data: tuple[int, int], index: tuple[int, int], seed: bytes, *, wide: bool) -> None:
        """Open the short way; the caller has the partition's lock, and nothing is under way.

        Args:
            data: Descriptor of the segment's file, and the byte position up to which may be written there.
            index: The same of its index.
            seed: 16 random bytes, used by nobody else for ids from now on.
            wide: Whether the topic's limits are `wide`.
        """
        self._data, self._data_until = data
        self._index, self._index_until = index
        self._seed_low = int.from_bytes(seed[:8], "little")
        self._seed_high = int.from_bytes(seed[8:], "little")
        self._wide = wide
        self._is_open = True

    def shut(self) -> None:
        """Shut the short way, before anything else is done with the partition."""
        self._is_open = False

    def advance(self, size_bytes: cython.longlong, count: cython.longlong, time_us: cython.longlong) -> None:
        """Take note of a send that has been written, with its index entry.

        Args:
            size_bytes: Its stored messages'.
            count: How many they are.
            time_us: Their time, microseconds since 1970 UTC.
        """
        self.end_offset += count
        self.byte_position += size_bytes
        self.entries += 1
        self.timestamp_us = time_us
        self.written += 1

    def append(
        self, view: memoryview, at: cython.longlong, until: cython.longlong, timestamp_us: cython.longlong
    ) -> cython.longlong:
        """Append a small batch, if it can be done the short way; it is committed then.

        Args:
            view: Bytes, with messages as sent in them, back to back.
            at: Where these begin.
            until: Where they end.
            timestamp_us: The time they get, microseconds since 1970 UTC, 0 or more; not before that of the newest message.

        Returns:
            The offset of the first message; -1 where it has to go the long way, and nothing is committed.
        """
        p: cython.p_const_uchar = after(readable(view), at)
        size: cython.longlong = until - at
        if not self._is_open or not self.is_announced or self.is_doubtful or size > MOST_BYTES:
            return -1
        count: cython.longlong = check_sent(p, size, self._wide, writable(_NOTES))
        if count <= 0:
            return -1
        stored_size: cython.longlong = size + 21 * count
        if (
            self.byte_position + stored_size > self._data_until
            or HEADER_BYTES + (self.entries + 1) * ENTRY_BYTES > self._index_until
        ):
            return -1
        time_us: cython.longlong = max(timestamp_us, self.timestamp_us)
        stored: cython.p_uchar = writable(_STORED)
        crc: cython.uint = store_sent(p, size, stored, self.end_offset, time_us, self._seed_low, self._seed_high)
        self._seed_low = (self._seed_low + GOLDEN * count) & MASK64
        self._seed_high = (self._seed_high + GOLDEN * count) & MASK64
        first: cython.longlong = self.end_offset
        return first if self._write(stored, stored_size, count, time_us, crc) else -1

    def _write(
        self,
        stored: cython.p_uchar,
        size: cython.longlong,
        count: cython.longlong,
        time_us: cython.longlong,
        crc: cython.uint,
    ) -> cython.bint:
        """Write stored messages and their index entry (segments/layout.py); return whether they are committed."""
        entry: cython.p_uchar = writable(_ENTRY)
        base: cython.longlong = self.base_offset
        store32(entry, 0, self.byte_position)
        store32(entry, 4, size)
        store32(entry, 8, self.end_offset - base)
        store32(entry, 12, count)
        store64(entry, 16, time_us)
        store32(entry, 24, crc)
        store32(entry, 28, crc32c_from(entry, 0, 28, base & 0xFFFF_FFFF))
        self.is_doubtful = True
        if not write_at(self._data, stored, size, self.byte_position):
            return False
        if not write_at(self._index, entry, ENTRY_BYTES, HEADER_BYTES + self.entries * ENTRY_BYTES):
            return False
        self.advance(size, count, time_us)
        self.is_doubtful = False
        return True
