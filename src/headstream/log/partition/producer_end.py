"""ProducerEnd: the expected next batch of a producer in a partition, and the producer's newest five batches; compiled.

A producer's state consists of its records' bytes as stored in the partition's file (producer_states.py). Both paths of an append
use ProducerEnd to create the record of the next batch and to find the record of a repeated batch.
"""

from __future__ import annotations

from typing import Final

from headstream.core.model.producers import SEQUENCES

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.uncompiled_checksums import crc32c_from
    from headstream.log.segments import layout
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.checksums import crc32c_from
    from cython.cimports.headstream.log.segments import layout

KNOWN_BATCHES: Final = 5
"""Number of a producer's newest batches that are remembered."""

RECORD_BYTES: Final = layout.PRODUCER_BYTES
SLOT_BYTES: Final = (KNOWN_BATCHES + 1) * RECORD_BYTES
"""Size of a producer's records, bytes, including the record of the batch that is being appended."""

NO_SEQUENCE: Final = -1

RECORD = cython.declare(cython.longlong, RECORD_BYTES)
RECORDS = cython.declare(cython.longlong, KNOWN_BATCHES + 1)
ALL_SEQUENCES = cython.declare(cython.longlong, SEQUENCES)


class ProducerEnd:
    """The state of one producer; the caller holds the partition's lock or is atomic.

    Attributes:
        batch_number: Number of batches that the producer has sent; 0 if it has sent no batch.
        resumes_at: The sequence after batches that were lost in a power failure, or NO_SEQUENCE.
    """

    def __init__(self, producer_id: int, slot: int) -> None:
        self.producer_id = producer_id
        self.slot = slot
        self.records = bytearray(SLOT_BYTES)
        self.batch_number = 0
        self.epoch = 0
        self.sequence = 0
        self.timestamp_us = 0
        self.resumes_at = NO_SEQUENCE

    def write(
        self,
        epoch: cython.longlong,
        sequence: cython.longlong,
        count: cython.longlong,
        first_offset: cython.longlong,
        stored: cython.longlong,
        timestamp_us: cython.longlong,
    ) -> cython.longlong:
        """Create the record of a batch with `stored` messages to be appended; return its position in `records`."""
        at: cython.longlong = (self.batch_number + 1) % RECORDS * RECORD
        p: cython.p_uchar = c.writable(self.records)
        c.store64(p, at, self.producer_id)
        c.store64(p, at + layout.PRODUCER_BATCH, self.batch_number + 1)
        c.store64(p, at + layout.PRODUCER_OFFSET, first_offset)
        c.store64(p, at + layout.PRODUCER_TIME, timestamp_us)
        c.store32(p, at + layout.PRODUCER_SEQUENCE, sequence)
        c.store32(p, at + layout.PRODUCER_COUNT, count)
        c.store32(p, at + layout.PRODUCER_STORED, stored)
        c.store32(p, at + layout.PRODUCER_EPOCH, epoch)  # two bytes, and two of the zeros after them
        c.store32(p, at + layout.PRODUCER_CHECK, crc32c_from(p, at, layout.PRODUCER_CHECK, 0))
        return at

    def note(self) -> None:
        """Mark the batch of the last created record as appended."""
        self.batch_number += 1
        self.refresh()
        self.resumes_at = NO_SEQUENCE

    def refresh(self) -> None:
        """Set the attributes from the record of the newest batch."""
        at: cython.longlong = self.batch_number % RECORDS * RECORD
        p: cython.p_uchar = c.writable(self.records)
        self.epoch = c.load32(p, at + layout.PRODUCER_EPOCH)
        self.sequence = (c.load32(p, at + layout.PRODUCER_SEQUENCE) + c.load32(p, at + layout.PRODUCER_COUNT)) % ALL_SEQUENCES
        self.timestamp_us = c.load64(p, at + layout.PRODUCER_TIME)

    def follows(self, epoch: cython.longlong, sequence: cython.longlong) -> cython.bint:
        """Return whether a batch is the expected batch."""
        return self.batch_number > 0 and sequence == self.sequence and epoch == self.epoch

    def find(self, sequence: cython.longlong, count: cython.longlong) -> tuple[int, int, int] | None:
        """Return offset, time and count of a batch's stored messages if it is among this epoch's newest batches, else None."""
        p: cython.p_uchar = c.writable(self.records)
        batch_number: cython.longlong = self.batch_number
        at: cython.longlong
        while batch_number > 0 and batch_number > self.batch_number - RECORDS + 1:
            at = batch_number % RECORDS * RECORD
            if (
                c.load64(p, at + layout.PRODUCER_BATCH) == batch_number
                and c.load32(p, at + layout.PRODUCER_EPOCH) == self.epoch
                and c.load32(p, at + layout.PRODUCER_SEQUENCE) == sequence
                and c.load32(p, at + layout.PRODUCER_COUNT) == count
            ):
                return (
                    c.load64(p, at + layout.PRODUCER_OFFSET),
                    c.load64(p, at + layout.PRODUCER_TIME),
                    c.load32(p, at + layout.PRODUCER_STORED),
                )
            batch_number -= 1
        return None


def is_record(view: memoryview, at: cython.longlong) -> cython.bint:
    """Return whether the RECORD_BYTES bytes at a position are a complete record; zeros are not a record."""
    p: cython.p_const_uchar = c.readable(view)
    return c.load64(p, at) != 0 and c.load32(p, at + layout.PRODUCER_CHECK) == crc32c_from(p, at, layout.PRODUCER_CHECK, 0)
