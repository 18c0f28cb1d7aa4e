"""PartitionEnd: the position of a partition's next send, and the fast path for small sends; compiled.

The fast path replaces PartitionWriter.append() for sends that need only these steps: check, stamp, data, index entry. The fast
path is atomic for other threads: compiled, it holds the interpreter's lock from the first check to the last write and creates no
Python object; interpreted, it holds a separate lock, for which shut() and begin_sync() wait. PartitionWriter opens the fast path
at the end of an append and shuts it when the partition's lock is next acquired. If the fast path is shut or rejects a send, the
send takes the general path, which raises the errors.

A numbered batch can take the fast path if the records of its producer are loaded and expect the batch. As on the general path,
the batch's record is written before its messages. Repeated batches, first batches and new epochs take the general path.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from headstream.log.partition.producer_end import RECORD_BYTES, SLOT_BYTES
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.stored.stamp import scan_sent, store_sent
    from headstream.core.codec.uncompiled_checksums import crc32c_from
    from headstream.log.partition.producer_end import ProducerEnd
    from headstream.log.system.uncompiled_file_primitives import write_at
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.stored.stamp import scan_sent, store_sent
    from cython.cimports.headstream.core.codec.checksums import crc32c_from
    from cython.cimports.headstream.log.partition.producer_end import ProducerEnd
    from cython.cimports.headstream.log.system.file_primitives import write_at

NO_NUMBER: Final = (0, 0, 0)
"""Producer, epoch and sequence of a batch without a number."""

NO_SEGMENT: Final = -1
"""The base offset of a partition without a segment."""

MAX_SHORT_BYTES: Final = 32 << 10
"""Maximum bytes of a send on the fast path: a batch of 16 KiB from a Kafka client fits; a larger send delays other threads."""

MOST_BYTES = cython.declare(cython.longlong, MAX_SHORT_BYTES)
ENTRY_BYTES = cython.declare(cython.longlong, INDEX_ENTRY_BYTES)
HEADER_BYTES = cython.declare(cython.longlong, INDEX_HEADER_BYTES)
RECORD = cython.declare(cython.longlong, RECORD_BYTES)
SLOT = cython.declare(cython.longlong, SLOT_BYTES)
GOLDEN = cython.declare(cython.ulonglong, 0x9E37_79B9_7F4A_7C15)
MASK64 = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)

# Buffers for stored messages, an entry and faults: a message is 24 bytes or more as sent, and grows by 21. Compiled ends share
# them, protected by the interpreter's lock.
_STORED_BYTES: Final = 2 * MAX_SHORT_BYTES
_NOTES_BYTES: Final = 40
_STORED: Final = bytearray(_STORED_BYTES)
_ENTRY: Final = bytearray(INDEX_ENTRY_BYTES)
_NOTES: Final = bytearray(_NOTES_BYTES)


class Producers(Protocol):
    """The producers of numbered batches (producer_states.py), for the fast path."""

    producers: dict[int, ProducerEnd]
    is_dirty: bool

    def direct(self) -> tuple[int, int] | None:
        """Return the open file's descriptor and the byte position up to which the fast path can write, or None."""


class PartitionEnd:
    """The end of a partition's newest segment, for the partition's writer.

    Attributes:
        base_offset: First offset of the newest segment, or NO_SEGMENT.
        byte_position: Position of the next message in the segment.
        needs_recovery: Set during a write; after an exception, recovery must read from the disk which sends are committed.
        is_announced: Whether the syncer was notified of appends since the last sync.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.base_offset = NO_SEGMENT
        self.end_offset = 0
        self.byte_position = 0
        self.entries = 0
        self.timestamp_us = 0
        self.written = 1
        self.needs_recovery = False
        self.is_announced = False
        self._is_open = False
        self._wide = False
        self._data = -1
        self._index = -1
        self._data_until = 0
        self._index_until = 0
        self._seed_low = 0
        self._seed_high = 0
        self._states: Producers | None = None
        self._producers: dict[int, ProducerEnd] | None = None
        self._records = -1
        self._records_until = 0
        if cython.compiled:
            self._stored, self._entry, self._notes = _STORED, _ENTRY, _NOTES
        else:
            self._stored, self._entry, self._notes = (
                bytearray(_STORED_BYTES),
                bytearray(INDEX_ENTRY_BYTES),
                bytearray(_NOTES_BYTES),
            )
            self._guard = threading.Lock()

    def open(
        self, data: tuple[int, int], index: tuple[int, int], seed: bytes, *, wide: bool, producers: Producers | None = None
    ) -> None:
        """Open the fast path. The caller holds the partition's lock, and no append may be running.

        Args:
            data: Descriptor of the segment's file, and the byte position up to which the fast path can write.
            index: Descriptor and byte position of the segment's index.
            seed: 16 random bytes, used only for ids of this fast path.
            producers: The producers of numbered batches; None excludes numbered batches.
        """
        records = None if producers is None else producers.direct()
        self._states = producers
        self._producers = None if producers is None or records is None else producers.producers
        self._records, self._records_until = records or (-1, 0)
        self._data, self._data_until = data
        self._index, self._index_until = index
        self._seed_low = int.from_bytes(seed[:8], "little")
        self._seed_high = int.from_bytes(seed[8:], "little")
        self._wide = wide
        self._is_open = True

    def shut(self) -> None:
        """Shut the fast path; must be called before any other operation on the partition."""
        if cython.compiled:
            self._is_open = False
        else:
            with self._guard:
                self._is_open = False

    def begin_sync(self) -> int:
        """Return the number of written sends, which the sync that starts now includes; the next send is announced again."""
        if cython.compiled:
            self.is_announced = False
            return self.written
        with self._guard:
            self.is_announced = False
            return self.written

    def advance(self, size_bytes: cython.longlong, count: cython.longlong, time_us: cython.longlong) -> None:
        """Update the end after a send and its index entry have been written."""
        self.end_offset += count
        self.byte_position += size_bytes
        self.entries += 1
        self.timestamp_us = time_us
        self.written += 1

    def append(
        self, view: memoryview, at: cython.longlong, until: cython.longlong, timestamp_us: cython.longlong
    ) -> cython.longlong:
        """Append and commit a small batch (bytes `at` to `until` of a view) over the fast path, if possible.

        Args:
            timestamp_us: Append time, microseconds since 1970 UTC, 0 or more; not before the time of the newest message.

        Returns:
            The offset of the first message; -1 if the batch needs the general path: nothing is committed.
        """
        if cython.compiled:
            return self._append(view, at, until, timestamp_us, None, 0)
        with self._guard:
            return self._append(view, at, until, timestamp_us, None, 0)

    def append_numbered(
        self,
        view: memoryview,
        at: cython.longlong,
        until: cython.longlong,
        timestamp_us: cython.longlong,
        producer_id: cython.longlong,
        epoch: cython.longlong,
        sequence: cython.longlong,
    ) -> tuple[int, int, int] | None:
        """Append a producer's small batch like append(); the producer NO_NUMBER means a batch without a number.

        Returns:
            The offset of the first message, the time, and the number of messages; None, without a commit, if the general path is
            needed.
        """
        if cython.compiled:
            return self._append_numbered(view, at, until, timestamp_us, producer_id, epoch, sequence)
        with self._guard:
            return self._append_numbered(view, at, until, timestamp_us, producer_id, epoch, sequence)

    def _append_numbered(
        self,
        view: memoryview,
        at: cython.longlong,
        until: cython.longlong,
        timestamp_us: cython.longlong,
        producer_id: cython.longlong,
        epoch: cython.longlong,
        sequence: cython.longlong,
    ) -> tuple[int, int, int] | None:
        """Append a batch of a producer; see append_numbered()."""
        producer: ProducerEnd | None = None
        if producer_id != 0:
            if self._producers is None:
                return None
            producer = self._producers.get(producer_id)
            if producer is None or not producer.follows(epoch, sequence) or not self._has_slot_for_record(producer):
                return None
        first: cython.longlong = self._append(view, at, until, timestamp_us, producer, sequence)
        count: cython.longlong = self.end_offset - first
        time_us: cython.longlong = self.timestamp_us  # read before any allocation that could switch threads
        return None if first < 0 else (first, time_us, count)

    def _append(
        self,
        view: memoryview,
        at: cython.longlong,
        until: cython.longlong,
        timestamp_us: cython.longlong,
        producer: ProducerEnd | None,
        sequence: cython.longlong,
    ) -> cython.longlong:
        """Append a batch and its producer's record; see append()."""
        p: cython.p_const_uchar = c.after(c.readable(view), at)
        size: cython.longlong = until - at
        if not self._is_open or not self.is_announced or self.needs_recovery or size > MOST_BYTES:
            return -1
        count: cython.longlong = scan_sent(p, size, self._wide, c.writable(self._notes))
        if count <= 0:
            return -1
        stored_size: cython.longlong = size + (layout.OVERHEAD - layout.SENT_OVERHEAD) * count
        if (
            self.byte_position + stored_size > self._data_until
            or HEADER_BYTES + (self.entries + 1) * ENTRY_BYTES > self._index_until
        ):
            return -1
        time_us: cython.longlong = max(timestamp_us, self.timestamp_us)
        stored: cython.p_uchar = c.writable(self._stored)
        crc: cython.uint = store_sent(p, size, stored, self.end_offset, time_us, self._seed_low, self._seed_high)
        self._seed_low = (self._seed_low + GOLDEN * count) & MASK64
        self._seed_high = (self._seed_high + GOLDEN * count) & MASK64
        first: cython.longlong = self.end_offset
        self.needs_recovery = True
        if producer is not None and not self._write_record(producer, sequence, count, time_us):
            return -1
        if not self._write(stored, stored_size, count, time_us, crc):
            return -1
        if producer is not None:
            producer.note()
        self.needs_recovery = False
        return first

    def _has_slot_for_record(self, producer: ProducerEnd) -> cython.bint:
        """Return whether the fast path can write the record of a producer's batch."""
        return RECORD + (producer.slot + 1) * SLOT <= self._records_until

    def _write_record(
        self, producer: ProducerEnd, sequence: cython.longlong, count: cython.longlong, time_us: cython.longlong
    ) -> cython.bint:
        """Write the record of a producer's batch, which is valid once the batch is committed; return whether it was written."""
        at: cython.longlong = producer.write(producer.epoch, sequence, count, self.end_offset, count, time_us)
        position: cython.longlong = RECORD + producer.slot * SLOT + at  # the file's head has the size of a record
        states = self._states
        if states is not None:
            states.is_dirty = True
        return write_at(self._records, c.after(c.writable(producer.records), at), RECORD, position)

    def _write(
        self, stored: cython.p_uchar, size: cython.longlong, count: cython.longlong, time_us: cython.longlong, crc: cython.uint
    ) -> cython.bint:
        """Write stored messages and their index entry (log/segments/layout.py); return whether they are committed."""
        entry: cython.p_uchar = c.writable(self._entry)
        base: cython.longlong = self.base_offset
        c.store32(entry, 0, self.byte_position)
        c.store32(entry, layout.ENTRY_SIZE, size)
        c.store32(entry, layout.ENTRY_OFFSET, self.end_offset - base)
        c.store32(entry, layout.ENTRY_COUNT, count)
        c.store64(entry, layout.ENTRY_TIMESTAMP, time_us)
        c.store32(entry, layout.ENTRY_CHECKSUM, crc)
        c.store32(entry, layout.ENTRY_CHECK, crc32c_from(entry, 0, layout.ENTRY_CHECK, base & 0xFFFF_FFFF))
        if not write_at(self._data, stored, size, self.byte_position):
            return False
        if not write_at(self._index, entry, ENTRY_BYTES, HEADER_BYTES + self.entries * ENTRY_BYTES):
            return False
        self.advance(size, count, time_us)
        return True
