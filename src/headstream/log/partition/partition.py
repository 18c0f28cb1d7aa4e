"""PartitionWriter: append, roll and sync.

    sent batch (-> checked -> repeats dropped) -> codec.batch.stamp -> <base offset>.log -> entry in <base offset>.index
    -> synced (always) -> acknowledged

    Data is written before its index entry: the entry commits a send for the writer and for all readers. A failure between the two
    writes leaves bytes that no entry refers to; the next append overwrites these bytes.

A new segment is started only after all earlier segments and their names are synced, regardless of the policy. A power failure can
therefore damage only the newest segment, and recovery reads no other segment.

There are two locks, acquired in this order: `_lock` serializes appends; `_sync_lock` is held while files are synced, opened or
closed, so that appends continue during a sync.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headstream.core.codec.batch.results import Stamped
from headstream.core.codec.batch.stored.stamp import check_sent, stamp
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.producers import Appended, BatchNumber
from headstream.core.model.topology import Fsync, TopicOptions
from headstream.errors import CorruptSendError, PartitionNotFoundError, StorageError
from headstream.log.partition.compacted_input import check_keys
from headstream.log.partition.deduplication import Repeats
from headstream.log.partition.partition_end import NO_NUMBER, NO_SEGMENT, PartitionEnd
from headstream.log.partition.producer_states import ProducerStates, check_number
from headstream.log.partition.recovery import Tail, note_failed_sync, recover
from headstream.log.partition.size_limits import check_sent_bytes
from headstream.log.partition.syncing import GroupCommit, closed_error
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    IndexEntry,
    Seal,
    base_offsets,
    encode_entry,
    encode_header,
    encode_seal,
    segment_path,
)
from headstream.log.system.files import Files, WriteFile
from headstream.log.system.findings import report

# Truncates the part of a staged commit that a power failure damaged in a partition: a damaged send, and the sends after it.
#
# Recovery keeps a damaged send before a complete send, which may have been acknowledged. No send of an unfinished
# commit was acknowledged: the commit's part of the partition is truncated at the first damaged send, and
# appended again from the staged files.


# Seals a segment when the next segment begins: the index gets the next segment's first offset, so that its loss is detected.


def seal_segment(end: PartitionEnd, next_base: int, files: Files) -> None:
    """Write the seal after the last entry of the current segment's index, if any; the next segment must be synced.

    The seal itself is not synced, and write errors are ignored: an index with a missing or partial seal is also valid.
    """
    base = end.base_offset
    if base == NO_SEGMENT:
        return
    with suppress(StorageError):
        index = files.open_write(segment_path(end.directory, base, INDEX_SUFFIX))
        try:
            seal = Seal(end.byte_position, next_base)
            index.write_at(encode_seal(seal, base), INDEX_HEADER_BYTES + end.entries * INDEX_ENTRY_BYTES)
        finally:
            index.close()


def truncate_damaged(directory: str, files: Files, from_offset: int) -> bool:
    """Truncate the newest segment at the first damaged send from an offset on; return whether a send was damaged.

    Damaged sends of earlier segments are kept, and reading them raises an error, because earlier segments were synced.
    """
    damaged = _find_damaged(directory, files, from_offset)
    base = base_offsets(files.list_names(directory) or [])[-1:]
    if damaged is None or not base or damaged < base[0]:
        return False
    path = segment_path(directory, base[0], INDEX_SUFFIX)
    data, index = files.open_write(segment_path(directory, base[0], LOG_SUFFIX)), files.open_write(path)
    try:
        reader = IndexReader(index, path, base[0])
        kept = end = 0
        for number in range(reader.count):
            entry = reader.find_entry(number)
            if entry is not None and entry.end_offset <= damaged:
                kept, end = number + 1, entry.end_position
        report(path, f"the sends of an unfinished commit are damaged from offset {damaged}: they are appended again")
        index.truncate(INDEX_HEADER_BYTES + kept * INDEX_ENTRY_BYTES)
        index.sync()  # before the entry's data is truncated
        data.truncate(end)
        data.sync()
    finally:
        data.close()
        index.close()
    return True


def _find_damaged(directory: str, files: Files, from_offset: int) -> int | None:
    with PartitionFollower(directory, files) as follower:
        try:
            for _ in follower.read(max(from_offset, follower.first_offset)):
                pass
        except CorruptSendError as error:
            return max(error.from_offset, from_offset)
    return None


_NO_OPTIONS: Final = TopicOptions()


class ReservedError(Exception):
    """Internal error: the partition is reserved by a staged commit (commits.py); nothing was appended."""


class PartitionWriter:
    """The writer of one partition; thread-safe.

    Args:
        segment_bytes: Maximum size of a segment, bytes; a send that exceeds the size starts the next segment.
        fsync: When acknowledged messages are synced.
        generation: The generation of the partition in the catalog.
        on_dirty: With the policy `interval`, called with `sync` at the first append after each sync.

    Raises:
        CorruptLogError: the existing files cannot be appended to.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        *,
        wide: bool,
        segment_bytes: int,
        fsync: Fsync = Fsync.INTERVAL,
        generation: int = 0,
        on_dirty: Callable[[Callable[[], int]], None] | None = None,
    ) -> None:
        self.directory = directory
        self._files = files
        self._wide = wide
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._data: WriteFile | None = None
        self._index: WriteFile | None = None
        self._fsync = fsync
        self._on_dirty = on_dirty if fsync is Fsync.INTERVAL else None
        self._group = GroupCommit(self.sync) if fsync is Fsync.ALWAYS else None
        self._sync_lock = threading.RLock()
        # Sends are counted in the order of writing. The previous process's sends may not be synced, so they count as one send.
        self._synced = 0
        self._are_names_synced = False
        self._failure: str | None = None
        self.generation = generation
        self._is_retired = False
        self._repeats = Repeats(directory, files)
        self._is_reserved = False
        self.end = PartitionEnd(directory)
        self._take_over(recover(directory, files))

    def _take_over(self, tail: Tail) -> None:
        self._producers = ProducerStates(self.directory, self._files, tail.end_offset)
        end = self.end
        end.base_offset = NO_SEGMENT if tail.base_offset is None else tail.base_offset
        end.end_offset = tail.end_offset
        end.byte_position = tail.byte_position
        end.entries = tail.entries
        end.timestamp_us = tail.timestamp_us
        end.needs_recovery = False

    @property
    def end_offset(self) -> int:
        """The offset of the next message."""
        return self.end.end_offset

    def reserve(self) -> int:
        """Reserve the partition for a staged commit; return the end offset, which cannot change until release()."""
        with self._lock:
            self._recover_if_needed()
            self._is_reserved = True
            return self.end.end_offset

    def release(self) -> None:
        """Release the reservation."""
        with self._lock:
            self._is_reserved = False

    def truncate_damaged(self, from_offset: int) -> None:
        """Truncate the segment at the first damaged send from an offset on; the truncated sends were not acknowledged."""
        with self._lock:
            self._recover_if_needed()
            self._close_files()
            if from_offset < self.end.end_offset and truncate_damaged(self.directory, self._files, from_offset):
                self._repeats.forget()
                self._are_names_synced = False
                self._take_over(recover(self.directory, self._files))

    def append(
        self, sent: BytesLike, timestamp_us: int, seed: bytes, options: TopicOptions = _NO_OPTIONS, *, is_reserved: bool = False
    ) -> int:
        """Append and commit a batch; return the offset of the first message.

        With deduplication, return the offset of the first new message; the end offset if there is no new message.

        Args:
            timestamp_us: Append time of the messages, microseconds since 1970 UTC; not before the time of the newest message.

        Raises:
            LimitError: a message exceeds the topic's limits or lacks a required key, or the batch exceeds
                64 MiB; nothing was written.
            DecodeError: the bytes are not a batch; nothing was written.
            DiskFullError: the disk is full; no message is committed, and the next append retries.
            PartitionClosedError: a sync has failed; it is unknown whether this send is on the disk.
            StorageError: the operating system reported a write error; nothing is committed.
            ReservedError: a staged commit has reserved the partition; nothing was written.
        """
        size_bytes = check_sent_bytes(sent, self.directory)
        if not (is_reserved or options.inspects_messages):
            first = self.end.append(memoryview(sent), 0, size_bytes, timestamp_us)
            if first >= 0:
                return first
        return self._append(sent, timestamp_us, seed, options, None, is_reserved).offset

    def append_numbered(
        self, sent: BytesLike, timestamp_us: int, seed: bytes, number: BatchNumber | None, options: TopicOptions = _NO_OPTIONS
    ) -> Appended:
        """Append a batch like append(), unless the batch number shows that it was appended before; return its position.

        Raises, in addition to append():
            SequenceError, ProducerFencedError: the batch does not follow the previous batch; nothing was written.
            ProducersLimitError: too many producers have sent recently; no message was written.
        """
        size_bytes = check_sent_bytes(sent, self.directory)
        if number is not None:
            check_number(number)
        if not options.inspects_messages:
            found = self.end.append_numbered(memoryview(sent), 0, size_bytes, timestamp_us, *(number or NO_NUMBER))
            if found is not None:
                return Appended(*found)
        return self._append(sent, timestamp_us, seed, options, number, False)

    def forget_producer(self, producer_id: int) -> None:
        """Remove the state of a producer that will not repeat a batch."""
        with self._lock:
            self._recover_if_needed()
            self._producers.forget(producer_id)

    def _append(
        self, sent: BytesLike, now_us: int, seed: bytes, options: TopicOptions, number: BatchNumber | None, is_reserved: bool
    ) -> Appended:
        with self._lock:
            if self._is_reserved and not is_reserved:
                raise ReservedError
            self._recover_if_needed()
            time_us, first = max(now_us, self.end.timestamp_us), self.end.end_offset
            stamped = stamp(sent, first, time_us, seed, self._wide) if options.deduplication_count is None else None
            count = check_sent(sent, self._wide) if stamped is None else stamped.count
            appended = None if number is None else self._producers.find(number, count)
            if appended is None:
                if options.compaction_delay_us is not None:
                    check_keys(sent, self.directory)
                new = self._repeats.drop(sent, options.deduplication_count, seed)
                stamped = stamped or stamp(new, first, time_us, seed, self._wide)
                appended = Appended(first, time_us, stamped.count)
                self._write(stamped, time_us, number, count)
            written = self.end.written
            if not self._is_reserved:
                self._open_fast_path(options, seed)
        if is_reserved:
            return appended
        if self._group is not None:
            self._group.wait(written)
        elif not self.end.is_announced:
            self.end.is_announced = True
            if self._on_dirty is not None:
                self._on_dirty(self.sync)
        return appended

    def _recover_if_needed(self) -> None:
        """Recover after an interrupted append, if needed; the caller holds the lock."""
        self.end.shut()
        self._check_usable()
        if self.end.needs_recovery:
            self._recover()

    def _open_fast_path(self, options: TopicOptions, seed: bytes) -> None:
        """Open the fast path for small sends, unless appends require a check before or a sync afterwards."""
        if options.inspects_messages or self._group is not None or self._data is None or self._index is None:
            return
        data, index = self._data.direct(), self._index.direct()
        if data is not None and index is not None:
            until = min(data[1], self._segment_bytes)
            self.end.open((data[0], until), index, seed[8:] + seed[:8], wide=self._wide, producers=self._producers)

    def _write(self, stamped: Stamped, time_us: int, number: BatchNumber | None, count: int) -> None:
        """Write the record of the batch number, the messages, and the index entry, which commits the messages."""
        if not stamped.count and number is None:
            return
        end, size_bytes = self.end, len(stamped.data)
        data, index = self._files_for(size_bytes) if stamped.count else (None, None)
        end.needs_recovery = True
        first = end.end_offset
        producer = None if number is None else self._producers.write(number, count, first, stamped.count, time_us)
        if data is not None and index is not None:
            entry = IndexEntry(end.byte_position, size_bytes, end.end_offset, stamped.count, time_us, stamped.crc32c)
            data.write_at(stamped.data, entry.byte_position)
            index.write_at(encode_entry(entry, end.base_offset), INDEX_HEADER_BYTES + end.entries * INDEX_ENTRY_BYTES)
            end.advance(size_bytes, stamped.count, time_us)
            self._repeats.note(stamped.data)
        if producer is not None:
            producer.note()
        end.needs_recovery = False

    def _recover(self) -> None:
        """Restore the state from the disk after an interrupted append."""
        with self._sync_lock:
            self._repeats.forget()
            self._close_files()
            end = self.end
            base = None if end.base_offset == NO_SEGMENT else end.base_offset
            known = Tail(base, end.end_offset, end.byte_position, end.entries, end.timestamp_us)
            self._take_over(recover(self.directory, self._files, known))
            end.written += 1  # the interrupted append had written its entry
            self._are_names_synced = False

    def _files_for(self, size_bytes: int) -> tuple[WriteFile, WriteFile]:
        """Return the files for an append of `size_bytes`; start a new segment if the newest segment is full."""
        end = self.end
        is_full = end.byte_position > 0 and end.byte_position + size_bytes > self._segment_bytes
        if end.base_offset == NO_SEGMENT or is_full:
            self._begin_segment(end.end_offset)
        return self._opened()

    def _opened(self) -> tuple[WriteFile, WriteFile]:
        data, index = self._data, self._index
        if data is None or index is None:
            with self._sync_lock:
                base = max(self.end.base_offset, 0)
                data = self._data = self._files.open_write(segment_path(self.directory, base, LOG_SUFFIX))
                index = self._index = self._files.open_write(segment_path(self.directory, base, INDEX_SUFFIX))
                if not self._are_names_synced:  # their creator possibly crashed before syncing
                    self._sync_names(index)
        return data, index

    def _sync_names(self, index: WriteFile) -> None:
        """Sync the index's head and the file names before writing data, because data is unreadable without them."""
        try:
            index.sync()
            self._files.sync_directory(self.directory)
        except StorageError as error:
            self._fail(error)
            raise closed_error(self.directory, self._failure) from error
        self._are_names_synced = True

    def _begin_segment(self, base: int) -> None:
        """Create the files of a new segment; the index is created last, because readers list indexes."""
        with self._sync_lock:
            end = self.end
            if end.base_offset != NO_SEGMENT:
                self.sync()
            end.needs_recovery = True
            self._release_files()
            self._data = self._files.open_write(segment_path(self.directory, base, LOG_SUFFIX))
            self._files.sync_directory(self.directory)  # a power cut must not leave an index without its .log
            self._index = self._files.open_write(segment_path(self.directory, base, INDEX_SUFFIX))
            self._index.write_at(encode_header(base), 0)
            self._sync_names(self._index)
            seal_segment(end, base, self._files)
            end.base_offset = base
            end.byte_position = 0
            end.entries = 0
            end.needs_recovery = False

    def roll(self) -> None:
        """Start a new segment, unless the newest segment is empty, so that the closed segment can be compacted."""
        with self._lock:
            self._recover_if_needed()
            if self.end.byte_position > 0:
                self._begin_segment(self.end.end_offset)

    # -- syncing --------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Sync all earlier appends; return their number."""
        with self._sync_lock:
            written = self.end.begin_sync()
            if self._is_retired:
                return written
            self._check_usable()
            if written > self._synced and self.end.base_offset != NO_SEGMENT:
                data, index = self._opened()
                try:
                    self._producers.sync()
                    data.sync()
                    index.sync()
                except StorageError as error:
                    self._fail(error)
                    raise closed_error(self.directory, self._failure) from error
                self._synced = written
            return written

    def _fail(self, error: StorageError) -> None:
        """Close the partition for appends, because unsynced data can be lost although the page cache still returns it."""
        self._failure = error.what
        note_failed_sync(self.directory, self._files)
        self._release_files()

    def _check_usable(self) -> None:
        if self._is_retired:
            raise PartitionNotFoundError("the partition was deleted or purged", where=self.directory)
        if self._failure is not None:
            raise closed_error(self.directory, self._failure)

    def close(self) -> None:
        """Close the files, synced unless the policy is `never`, even if the sync fails; the next append reopens the files."""
        with self._lock:
            self.end.shut()
            self._close_files()

    def retire(self) -> None:
        """Close the files of a deleted partition without a sync; later operations raise PartitionNotFoundError."""
        with self._lock, self._sync_lock:
            self._is_retired = True
            self._release_files()

    def _close_files(self) -> None:
        with self._sync_lock:
            try:
                if self._failure is None and self._fsync is not Fsync.NEVER:
                    self.sync()
            finally:
                self._release_files()

    def _release_files(self) -> None:
        self.end.shut()
        for file in (self._data, self._index):
            if file is not None:
                if self._failure is None:
                    file.trim()
                file.close()
        self._data = self._index = None
        self._producers.close()
