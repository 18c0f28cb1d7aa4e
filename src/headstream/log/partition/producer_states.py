"""ProducerStates: a partition's records of producers with numbered batches, so that a repeated batch is not appended again.

<partition>/producers, little-endian; 64 bytes per record, so that no record crosses a page boundary:

    head     magic "HSPRODUC" | version u32 | zero to byte 64
    record   producer_id u64 | batch_number u64 | first_offset u64 | timestamp_us u64 | sequence u32 | count u32 | stored u32
             | epoch u16 | zero to byte 60 | check u32

A producer has six adjacent records, written cyclically: for the newest five batches and the batch that is being appended.
`batch_number` counts the producer's batches, `count` is the number of messages in the batch and `stored` the number of new
messages; check is the CRC-32C of the record's preceding bytes. Zeros are not a record.

A record is written before the messages, and is valid once the messages are committed. After a crash, records beyond the end of
the partition belong to batches that were not appended, and the next opening clears these records first. A crash at any step
therefore leaves both the batch and its record, or neither. Syncs have the same order: records first.

A producer's batches are handled as follows:

    first batch, or unknown producer                  appended, regardless of its sequence
    expected sequence                                 appended
    batch among the newest five                       not appended: the offset of the stored batch is returned
    newer epoch, sequence 0                           appended; earlier sequences are removed
    older epoch                                       ProducerFencedError
    anything else                                     SequenceError

Records are kept for batches that retention or compaction has removed. A purge removes all records, because it creates a new
partition. With a policy other than `always`, a power failure can lose acknowledged messages and their records; the producer can
continue as if the messages were stored.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Final

from headstream.core.model.producers import MAX_EPOCH, MAX_PRODUCER_ID, SEQUENCES, Appended, BatchNumber, next_sequence
from headstream.errors import ProducerFencedError, ProducersLimitError, SequenceError
from headstream.log.partition.producer_end import RECORD_BYTES, SLOT_BYTES, ProducerEnd, is_record
from headstream.log.segments.layout import PRODUCER_RECORD, PRODUCERS_NAME
from headstream.log.system.files import Files, WriteFile

MAX_PRODUCERS: Final = 20_000
"""Maximum number of remembered producers per partition, which take about 12 MB of memory."""

PROTECTED_US: Final = 4_000_000_000
"""Time a producer is remembered after its last batch, microseconds: more than a client's MAX_DELIVERY_TIMEOUT_MS (an hour)."""

_MAGIC: Final = b"HSPRODUC"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sI52x")


class ProducerStates:
    """The producers of one partition by id; the caller holds the partition's lock. Records beyond `end_offset` are cleared."""

    def __init__(self, directory: str, files: Files, end_offset: int) -> None:
        self._path = f"{directory}/{PRODUCERS_NAME}"
        self._directory = directory
        self._files = files
        self._file: WriteFile | None = None
        self.producers: dict[int, ProducerEnd] = {}
        self._silent: list[tuple[int, ProducerEnd]] = []
        self._free: list[int] = []
        self._slots = 0
        self._is_new = True
        self.is_dirty = False
        self._load(end_offset)

    # -- loading ----------------------------------------------------------------------------------------------

    def _load(self, end_offset: int) -> None:
        """Read the records; clear records of batches that were not appended."""
        file = self._files.open_read(self._path)
        if file is None:
            return
        try:
            content = memoryview(bytearray(file.size_bytes()))
            content = content[: file.read_into(content, 0)]
        finally:
            file.close()
        self._is_new = len(content) < _HEAD.size
        self._slots = -(-max(0, len(content) - _HEAD.size) // SLOT_BYTES)
        found: dict[int, ProducerEnd] = {}
        stale: list[tuple[int, int, int, int]] = []
        for position in range(_HEAD.size, len(content) - RECORD_BYTES + 1, RECORD_BYTES):
            if not is_record(content, position):
                continue  # zeros, or torn by a crash: its batch was not appended
            producer_id, batch_number, first_offset, _, sequence, count, stored, *_ = PRODUCER_RECORD.unpack_from(
                content, position
            )
            if first_offset + stored > end_offset:
                stale.append((batch_number, position, producer_id, next_sequence(sequence, count)))
                continue
            slot, at = divmod(position - _HEAD.size, SLOT_BYTES)
            producer = found.get(producer_id)
            if producer is None:
                producer = found[producer_id] = ProducerEnd(producer_id, slot)
            producer.records[at : at + RECORD_BYTES] = content[position : position + RECORD_BYTES]
            producer.batch_number = max(producer.batch_number, batch_number)
        for producer in found.values():
            producer.refresh()
        self._clear(stale, found)
        self.producers = found
        self._free = sorted(set(range(self._slots)) - {producer.slot for producer in found.values()}, reverse=True)

    def _clear(self, stale: list[tuple[int, int, int, int]], found: dict[int, ProducerEnd]) -> None:
        """Clear records beyond the end, because their offsets will be reused."""
        if not stale:
            return
        file = self._opened()
        for _, position, _, _ in stale:
            file.write_at(bytes(RECORD_BYTES), position)
        self.is_dirty = True
        for _, _, producer_id, sequence in sorted(stale):
            producer = found.get(producer_id)
            if producer is not None:
                producer.resumes_at = sequence

    # -- one batch --------------------------------------------------------------------------------------------

    def find(self, number: BatchNumber, count: int) -> Appended | None:
        """Return the position of a batch that was appended before; None if the batch must be appended.

        Raises:
            ProducerFencedError: a newer epoch of its producer has begun.
            SequenceError: a different batch was expected.
        """
        producer = self.producers.get(number.producer_id)
        if producer is None or not producer.batch_number:
            return None
        if number.epoch != producer.epoch:
            if number.epoch < producer.epoch:
                raise ProducerFencedError(
                    f"producer {number.producer_id} is in epoch {producer.epoch}, but the batch has epoch {number.epoch}",
                    where=self._directory,
                    advice="Do not send the batch again: a newer epoch of the producer has replaced this epoch",
                )
            if number.sequence:
                raise self._refusal(number, 0)
            return None
        found = producer.find(number.sequence, count)
        if found is not None:
            return Appended(*found, is_repeat=True)
        if number.sequence not in (producer.sequence, producer.resumes_at):
            raise self._refusal(number, producer.sequence)
        return None

    def _refusal(self, number: BatchNumber, expected: int) -> SequenceError:
        return SequenceError(
            f"a batch of producer {number.producer_id}, epoch {number.epoch}, begins with sequence {number.sequence}, but "
            f"{expected} is expected",
            where=self._directory,
            advice="Begin a new epoch: an earlier batch is missing, or this batch is older than the newest five",
        )

    def write(self, number: BatchNumber, count: int, first_offset: int, stored: int, timestamp_us: int) -> ProducerEnd:
        """Write the record of a batch that is about to be appended; return the producer, whose note() commits the record.

        Args:
            stored: Number of messages of the batch to append.

        Raises:
            ProducersLimitError: all stored producers have sent recently, so that no producer can be evicted.
        """
        producer = self.producers.get(number.producer_id)
        if producer is None:
            producer = self._add(number.producer_id, timestamp_us)
        at = producer.write(number.epoch, number.sequence, count, first_offset, stored, timestamp_us)
        self._opened().write_at(producer.records[at : at + RECORD_BYTES], self._position_of(producer) + at)
        self.is_dirty = True
        return producer

    def direct(self) -> tuple[int, int] | None:
        """Return the open file's descriptor and the byte position up to which the fast path can write, or None."""
        return None if self._file is None else self._file.direct()

    @staticmethod
    def _position_of(producer: ProducerEnd) -> int:
        return _HEAD.size + producer.slot * SLOT_BYTES

    def _add(self, producer_id: int, now_us: int) -> ProducerEnd:
        """Add a producer; at the limit, evict the least recently active producer."""
        if len(self.producers) >= MAX_PRODUCERS:
            oldest = self._oldest()
            if oldest.timestamp_us > now_us - PROTECTED_US:
                raise ProducersLimitError(
                    f"the limit of {MAX_PRODUCERS} producers that send to this partition within "
                    f"{PROTECTED_US // 60_000_000} minutes is reached",
                    where=self._directory,
                    advice="Use one producer for many messages, and close finished producers",
                )
            self.forget(oldest.producer_id)
        slot = self._free.pop() if self._free else self._slots
        self._slots = max(self._slots, slot + 1)
        producer = self.producers[producer_id] = ProducerEnd(producer_id, slot)
        return producer

    def _oldest(self) -> ProducerEnd:
        """Return the least recently active producer; the sorted list is reused for many calls."""
        while True:
            while self._silent:
                timestamp_us, producer = self._silent[-1]
                if self.producers.get(producer.producer_id) is producer and producer.timestamp_us == timestamp_us:
                    return producer
                self._silent.pop()
            self._silent = [(producer.timestamp_us, producer) for producer in self.producers.values()]
            self._silent.sort(key=itemgetter(0), reverse=True)

    def forget(self, producer_id: int) -> None:
        """Remove the state of a producer that will not repeat a batch."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        self._opened().write_at(bytes(SLOT_BYTES), self._position_of(producer))
        self.is_dirty = True
        del self.producers[producer_id]
        self._free.append(producer.slot)

    # -- the file ---------------------------------------------------------------------------------------------

    def _opened(self) -> WriteFile:
        if self._file is None:
            self._file = self._files.open_write(self._path)
            if self._is_new:
                self._file.write_at(_HEAD.pack(_MAGIC, _VERSION), 0)
        return self._file

    def sync(self) -> None:
        """Sync the written records; must be called before the messages are synced."""
        file = self._file
        if self.is_dirty and file is not None:
            self.is_dirty = False  # before: records written meanwhile are for the next sync
            file.sync()
            if self._is_new:
                self._files.sync_directory(self._directory)
                self._is_new = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def check_number(number: BatchNumber) -> None:
    """Raise SequenceError if a field of a batch number is out of range."""
    is_known = 0 < number.producer_id <= MAX_PRODUCER_ID
    if not (is_known and 0 <= number.epoch <= MAX_EPOCH and 0 <= number.sequence < SEQUENCES):
        raise SequenceError(
            f"{number} is not a valid batch number",
            advice="Use non-negative numbers: 63 bits for the id, 15 for the epoch, 31 for the sequence",
        )
