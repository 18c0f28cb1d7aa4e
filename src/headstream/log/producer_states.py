"""ProducerStates: what a partition remembers of those who number their batches, so that one that comes again is not
appended again.

<partition>/producers, little-endian; 64 bytes a record, so that none crosses a page:

    head     magic "HSPRODUC" | version u32 | zero to byte 64
    record   producer_id u64 | turn u64 | first_offset u64 | timestamp_us u64 | sequence u32 | count u32 | stored u32
             | epoch u16 | zero to byte 60 | check u32

A producer has six records side by side, written in turn: its newest five batches, and room for the one that is being
appended. `turn` counts its batches, `count` is the messages of the batch and `stored` those of them that were new;
check is the CRC-32C of what stands before it. Zeros are no record.

A record is written before the messages, and counts once they are there: those of a killed process that point behind the
end of the partition are of batches that were not appended. They are cleared before anything else is, at the next opening.
So whichever step a process dies at, the batch and the memory of it are both there or both not. Syncs go in the same order,
records first.

A batch of a producer is one of these:

    its first one, or one of an unknown producer      appended, whatever its sequence
    sequence as expected                              appended
    one of the newest five                            not appended: where it is, is known
    epoch newer, sequence 0                           appended; the sequences before are forgotten
    epoch older                                       ProducerFencedError
    anything else                                     SequenceError

What retention or compaction removes is still known to have been there. A purge forgets, as it makes a new partition. A
power cut may take acknowledged messages under a policy other than `always`, and what is remembered of them with it: the
producer may go on behind them as if they were there.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Final

from headstream.codec.batch.scan import crc32c
from headstream.errors import ProducerFencedError, ProducersLimitError, SequenceError
from headstream.log.files import Files, WriteFile
from headstream.model.producers import MAX_EPOCH, MAX_PRODUCER_ID, SEQUENCES, Appended, BatchNumber, next_sequence
from headstream.segments.layout import PRODUCERS_NAME

__all__ = ["MAX_PRODUCERS", "PROTECTED_US", "ProducerStates", "check_number"]

MAX_PRODUCERS: Final = 20_000
"""So many producers are remembered a partition: about 16 MB of memory where each has sent five batches."""

PROTECTED_US: Final = 4_000_000_000
"""A producer is remembered for this long after its last batch, however many there are: longer than a client may try to
deliver one (an hour, MAX_DELIVERY_TIMEOUT_MS)."""

_BATCHES: Final = 5
_SLOTS: Final = _BATCHES + 1
_MAGIC: Final = b"HSPRODUC"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sI52x")
_RECORD: Final = struct.Struct("<QQQQIIIH14xI")
_BODY_BYTES: Final = _RECORD.size - 4
_ROOM_BYTES: Final = _SLOTS * _RECORD.size


class _Record:
    """One batch of a producer."""

    __slots__ = ("count", "epoch", "first_offset", "sequence", "stored", "timestamp_us", "turn")

    def __init__(
        self, turn: int, first_offset: int, timestamp_us: int, sequence: int, count: int, stored: int, epoch: int
    ) -> None:
        self.turn = turn
        self.first_offset = first_offset
        self.timestamp_us = timestamp_us
        self.sequence = sequence
        self.count = count
        self.stored = stored
        self.epoch = epoch

    def encode(self, producer_id: int) -> bytes:
        body = _RECORD.pack(
            producer_id,
            self.turn,
            self.first_offset,
            self.timestamp_us,
            self.sequence,
            self.count,
            self.stored,
            self.epoch,
            0,
        )[:_BODY_BYTES]
        return body + crc32c(body).to_bytes(4, "little")


class _Producer:
    """What is known of one producer."""

    __slots__ = ("batches", "resumes_at", "room")

    def __init__(self, room: int) -> None:
        self.room = room
        self.batches: list[_Record] = []
        self.resumes_at: int | None = None
        """The sequence behind batches that a power cut has taken."""


class ProducerStates:
    """The producers of one partition; the caller has the partition's lock.

    Args:
        directory: The partition's.
        files: Where it is.
        end_offset: The partition's: records that point behind it are cleared.

    Raises:
        StorageError: the system refused an operation.
    """

    def __init__(self, directory: str, files: Files, end_offset: int) -> None:
        self._path = f"{directory}/{PRODUCERS_NAME}"
        self._directory = directory
        self._files = files
        self._file: WriteFile | None = None
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        self._free: list[int] = []
        self._rooms = 0
        self._is_new = True
        self._is_dirty = False
        self._load(end_offset)

    # -- what is there ----------------------------------------------------------------------------------------

    def _load(self, end_offset: int) -> None:
        """Read what is remembered, and clear what was never appended."""
        file = self._files.open_read(self._path)
        if file is None:
            return
        try:
            content = memoryview(bytearray(file.size_bytes()))
            content = content[: file.read_into(content, 0)]
        finally:
            file.close()
        self._is_new = len(content) < _HEAD.size
        self._rooms = -(-max(0, len(content) - _HEAD.size) // _ROOM_BYTES)
        found: dict[int, _Producer] = {}
        stale: list[tuple[int, int, _Record]] = []
        for position in range(_HEAD.size, len(content) - _RECORD.size + 1, _RECORD.size):
            body = content[position : position + _BODY_BYTES]
            producer_id, *fields, check = _RECORD.unpack_from(content, position)
            if check != crc32c(body) or not producer_id:
                continue  # zeros, or torn by the end of a process: it belongs to a batch that was not appended
            record = _Record(*fields)
            if record.first_offset + record.stored > end_offset:
                stale.append((position, producer_id, record))
                continue
            producer = found.setdefault(producer_id, _Producer((position - _HEAD.size) // _ROOM_BYTES))
            producer.batches.append(record)
        self._clear(stale, found)
        for producer in found.values():
            producer.batches.sort(key=lambda record: record.turn)
            epoch = producer.batches[-1].epoch
            producer.batches = [record for record in producer.batches[-_BATCHES:] if record.epoch == epoch]
        newest = sorted(found.items(), key=lambda each: each[1].batches[-1].timestamp_us)
        self._producers = OrderedDict(newest)
        self._free = sorted(set(range(self._rooms)) - {producer.room for producer in found.values()}, reverse=True)

    def _clear(self, stale: list[tuple[int, int, _Record]], found: dict[int, _Producer]) -> None:
        """Clear records of what is not there; the offsets they name are about to be others'."""
        if not stale:
            return
        file = self._opened()
        for position, _, _ in stale:
            file.write_at(bytes(_RECORD.size), position)
        self._is_dirty = True
        for _, producer_id, record in sorted(stale, key=lambda each: each[2].turn):
            producer = found.get(producer_id)
            if producer is not None:
                producer.resumes_at = next_sequence(record.sequence, record.count)

    # -- one batch --------------------------------------------------------------------------------------------

    def find(self, number: BatchNumber, count: int) -> Appended | None:
        """Return where a batch is that was appended before, None for one that is to be appended.

        Args:
            number: The batch's.
            count: How many messages it has.

        Raises:
            ProducerFencedError: a newer epoch of its producer has begun.
            SequenceError: it is not the one that follows.
        """
        producer = self._producers.get(number.producer_id)
        if producer is None or not producer.batches:
            return None
        last = producer.batches[-1]
        if number.epoch != last.epoch:
            if number.epoch < last.epoch:
                raise ProducerFencedError(
                    f"producer {number.producer_id} is in epoch {last.epoch}, the batch is of epoch {number.epoch}",
                    where=self._directory,
                    advice="Its producer has given the batch up: it is not to be sent again",
                )
            if number.sequence:
                raise self._refusal(number, 0)
            return None
        for record in producer.batches:
            if (record.epoch, record.sequence, record.count) == (number.epoch, number.sequence, count):
                return Appended(record.first_offset, record.timestamp_us, record.stored, is_repeat=True)
        expected = next_sequence(last.sequence, last.count)
        if number.sequence not in (expected, producer.resumes_at):
            raise self._refusal(number, expected)
        return None

    def _refusal(self, number: BatchNumber, expected: int) -> SequenceError:
        return SequenceError(
            f"a batch of producer {number.producer_id}, epoch {number.epoch}, begins with sequence {number.sequence}, "
            f"{expected} is expected",
            where=self._directory,
            advice="A batch before it is missing, or this one is older than the newest five: begin a new epoch",
        )

    def write(self, number: BatchNumber, count: int, first_offset: int, stored: int, timestamp_us: int) -> _Record:
        """Write the record of a batch that is about to be appended, and return it; note() then makes it count.

        Args:
            number: The batch's; find() has said that it is to be appended.
            count: How many messages it has.
            first_offset: Where it begins.
            stored: How many of its messages are appended.
            timestamp_us: Its time, microseconds since 1970 UTC.

        Raises:
            ProducersLimitError: so many producers have sent lately that none can be forgotten.
            StorageError: the system refused.
        """
        producer = self._producers.get(number.producer_id)
        if producer is None:
            producer = self._add(number.producer_id, timestamp_us)
        turn = producer.batches[-1].turn + 1 if producer.batches else 1
        record = _Record(turn, first_offset, timestamp_us, number.sequence, count, stored, number.epoch)
        position = _HEAD.size + producer.room * _ROOM_BYTES + turn % _SLOTS * _RECORD.size
        self._opened().write_at(record.encode(number.producer_id), position)
        self._is_dirty = True
        return record

    def note(self, producer_id: int, record: _Record) -> None:
        """Take note that a batch has been appended."""
        producer = self._producers[producer_id]
        if producer.batches and producer.batches[-1].epoch != record.epoch:
            producer.batches.clear()
        producer.batches.append(record)
        del producer.batches[:-_BATCHES]
        producer.resumes_at = None
        self._producers.move_to_end(producer_id)

    def _add(self, producer_id: int, now_us: int) -> _Producer:
        """Make room for a producer, in place of the one that has been silent for longest where there are too many."""
        if len(self._producers) >= MAX_PRODUCERS:
            oldest_id, oldest = next(iter(self._producers.items()))
            if oldest.batches and oldest.batches[-1].timestamp_us > now_us - PROTECTED_US:
                raise ProducersLimitError(
                    f"{MAX_PRODUCERS} producers have sent to this partition within {PROTECTED_US // 60_000_000} minutes: "
                    "no other can be remembered now",
                    where=self._directory,
                    advice="Use one producer for many messages, and close those that are done with",
                )
            self.forget(oldest_id)
        room = self._free.pop() if self._free else self._rooms
        self._rooms = max(self._rooms, room + 1)
        producer = self._producers[producer_id] = _Producer(room)
        return producer

    def forget(self, producer_id: int) -> None:
        """Forget a producer, which is done: there is nothing that it might send again."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        self._opened().write_at(bytes(_ROOM_BYTES), _HEAD.size + producer.room * _ROOM_BYTES)
        self._is_dirty = True
        del self._producers[producer_id]
        self._free.append(producer.room)

    # -- the file ---------------------------------------------------------------------------------------------

    def _opened(self) -> WriteFile:
        if self._file is None:
            self._file = self._files.open_write(self._path)
            if self._is_new:
                self._file.write_at(_HEAD.pack(_MAGIC, _VERSION), 0)
        return self._file

    def sync(self) -> None:
        """Return when what was written is on the disk itself; to be called before the messages are synced.

        Raises:
            StorageError: the system could not.
        """
        file = self._file
        if self._is_dirty and file is not None:
            self._is_dirty = False  # before: what is written meanwhile is for the next time
            file.sync()
            if self._is_new:
                self._files.sync_directory(self._directory)
                self._is_new = False

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def check_number(number: BatchNumber) -> None:
    """Refuse a number that no batch can have.

    Raises:
        SequenceError: a field is out of range.
    """
    is_known = 0 < number.producer_id <= MAX_PRODUCER_ID
    if not (is_known and 0 <= number.epoch <= MAX_EPOCH and 0 <= number.sequence < SEQUENCES):
        raise SequenceError(
            f"{number} is no number of a batch", advice="Ids have 63 bits, epochs 15, sequences 31, none is negative"
        )
