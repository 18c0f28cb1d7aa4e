"""Partition: append, roll and sync.

    sent batch -> codec.batch.stamp (-> repeats dropped) -> <base offset>.log -> entry in <base offset>.index -> synced
    (always) -> acknowledged

Data first, then its index entry: the entry is what commits a send, here and for every reader. What fails between
the two leaves bytes that nothing points to, which the next append writes over.

A segment is begun only when all before it is on the disk, names included, whatever the policy: what a power cut can
harm is the newest segment, and recovery need look into no other.

Two locks, in this order: `_lock` orders appends; `_sync_lock` is held while files are synced, opened or closed, so that
appends go on while a sync is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from headstream.codec.batch.results import Stamped
from headstream.codec.batch.stamp import stamp
from headstream.codec.buffer import BytesLike
from headstream.errors import StorageError
from headstream.log.compacted_input import check_keys
from headstream.log.deduplication import Repeats
from headstream.log.files import Files, WriteFile
from headstream.log.partition_end import NO_SEGMENT, PartitionEnd
from headstream.log.producer_states import ProducerStates, check_number
from headstream.log.recovery import Tail, note_failed_sync, recover
from headstream.log.sealing import seal_segment
from headstream.log.segment_size import check_sent_bytes
from headstream.log.syncing import GroupCommit, closed_error
from headstream.log.taking_back import take_back
from headstream.model.producers import Appended, BatchNumber
from headstream.model.topology import Fsync, TopicOptions
from headstream.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    IndexEntry,
    encode_entry,
    encode_header,
    segment_path,
)

__all__ = ["Partition", "ReservedError"]

_NO_OPTIONS: Final = TopicOptions()


class ReservedError(Exception):
    """Said within the log alone: a staged commit comes first (commits.py); nothing was appended."""


class Partition:
    """The writer's side of one partition; any thread may append.

    Args:
        directory: Its directory; the caller holds the log's lock.
        files: Where it is.
        wide: Whether the topic's limits are `wide`.
        segment_bytes: A segment that has this many bytes, or would have more, is followed by a new one.
        fsync: When what was acknowledged is on the disk itself.
        on_dirty: With the policy `interval`, called with `sync` at the first append since the last one.

    Raises:
        CorruptLogError: what is there cannot be appended to.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        *,
        wide: bool,
        segment_bytes: int,
        fsync: Fsync = Fsync.INTERVAL,
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
        # Sends are counted in the order of writing. What the last process left may not be on the disk: it is the first.
        self._synced = 0
        self._are_names_synced = False
        self._failure: str | None = None
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
        end.is_doubtful = False

    @property
    def end_offset(self) -> int:
        """What the next message gets."""
        return self.end.end_offset

    def reserve(self) -> int:
        """Keep the partition for one who says so as it appends, and return its end offset, which is now fixed.

        Raises:
            StorageError: it takes no messages.
        """
        with self._lock:
            self._settle()
            self._is_reserved = True
            return self.end.end_offset

    def release(self) -> None:
        """Let everyone append again."""
        with self._lock:
            self._is_reserved = False

    def take_back(self, from_offset: int) -> None:
        """Take back what is damaged from an offset on, and what is behind it: nobody was told that it is there.

        Raises:
            CorruptLogError, StorageError: the files cannot be read or written.
        """
        with self._lock:
            self._settle()
            self._close_files()
            if from_offset < self.end.end_offset and take_back(self.directory, self._files, from_offset):
                self._repeats.forget()
                self._are_names_synced = False
                self._take_over(recover(self.directory, self._files))

    def append(
        self, sent: BytesLike, timestamp_us: int, seed: bytes, options: TopicOptions = _NO_OPTIONS, *, is_reserved: bool = False
    ) -> int:
        """Append a batch and return the offset of its first message; it is committed then.

        Where repeats are looked for, it is the offset of the first message that is new, or what the next one gets.

        Args:
            sent: Messages as sent, back to back.
            timestamp_us: The time they get, microseconds since 1970 UTC; not before that of the newest message.
            seed: 16 random bytes, for the ids that are to be made.
            options: The topic's: whether each message has to have a key, and how many ids are remembered.
            is_reserved: Whether the caller has reserved the partition; it syncs by itself.

        Raises:
            LimitError: a message is beyond the topic's limits or has no key where one is needed, or the batch is beyond
                64 MiB; nothing was written.
            DecodeError: the bytes are no batch; nothing was written.
            DiskFullError: there is no room; nothing is committed, and the next append tries again.
            PartitionClosedError: a sync has failed, now or before; whether this send is on the disk is not known.
            StorageError: the system refused to write; nothing is committed.
            ReservedError: the partition is another's just now; nothing was written.
        """
        size_bytes = check_sent_bytes(sent, self.directory)
        if not (is_reserved or options.looks_into_messages):
            first = self.end.append(memoryview(sent), 0, size_bytes, timestamp_us)
            if first >= 0:
                return first
        return self._append(sent, timestamp_us, seed, options, None, is_reserved).offset

    def append_numbered(
        self, sent: BytesLike, timestamp_us: int, seed: bytes, number: BatchNumber | None, options: TopicOptions = _NO_OPTIONS
    ) -> Appended:
        """Append a batch, unless its number says that it is there already, and return where it is; it is committed then.

        The number may be None; the other arguments are those of append().

        Raises, beside what append() does:
            SequenceError, ProducerFencedError: the batch does not follow the one before it; nothing was written.
            ProducersLimitError: too many producers have sent lately; nothing was written.
        """
        check_sent_bytes(sent, self.directory)
        if number is not None:
            check_number(number)
        return self._append(sent, timestamp_us, seed, options, number, False)

    def forget_producer(self, producer_id: int) -> None:
        """Forget a producer, which will not repeat anything."""
        with self._lock:
            self._settle()
            self._producers.forget(producer_id)

    def _append(
        self, sent: BytesLike, now_us: int, seed: bytes, options: TopicOptions, number: BatchNumber | None, is_reserved: bool
    ) -> Appended:
        with self._lock:
            if self._is_reserved and not is_reserved:
                raise ReservedError
            self._settle()
            time_us = max(now_us, self.end.timestamp_us)
            stamped = stamp(sent, self.end.end_offset, time_us, seed, self._wide)
            appended = None if number is None else self._producers.find(number, stamped.count)
            if appended is None:
                if options.compaction_delay_us is not None:
                    check_keys(sent, self.directory)
                count, new = stamped.count, self._repeats.drop(sent, options.deduplication_count, seed)
                if new is not None:
                    stamped = stamp(new, self.end.end_offset, time_us, seed, self._wide)
                appended = Appended(self.end.end_offset, time_us, stamped.count)
                self._write(stamped, time_us, number, count)
            written = self.end.written
            if not self._is_reserved:
                self._open_short_way(options, seed)
        if is_reserved:
            return appended
        if self._group is not None:
            self._group.wait(written)
        elif not self.end.is_announced:
            self.end.is_announced = True
            if self._on_dirty is not None:
                self._on_dirty(self.sync)
        return appended

    def _settle(self) -> None:
        """Make sure that something can be done; the caller has the lock."""
        self.end.shut()
        self._check_usable()
        if self.end.is_doubtful:
            self._recover()

    def _open_short_way(self, options: TopicOptions, seed: bytes) -> None:
        """Let small sends go the short way from now on, if nothing is looked for in them, or waited for after them."""
        if options.looks_into_messages or self._group is not None or self._data is None or self._index is None:
            return
        data, index = self._data.direct(), self._index.direct()
        if data is not None and index is not None:
            until = min(data[1], self._segment_bytes)
            self.end.open((data[0], until), index, seed[8:] + seed[:8], wide=self._wide)

    def _write(self, stamped: Stamped, time_us: int, number: BatchNumber | None, count: int) -> None:
        """Write stored messages and their index entry: then they are committed; before them, what is known of their number."""
        if not stamped.count and number is None:
            return
        end, size_bytes = self.end, len(stamped.data)
        data, index = self._place_for(size_bytes) if stamped.count else (None, None)
        end.is_doubtful = True
        record = None
        if number is not None:
            record = self._producers.write(number, count, end.end_offset, stamped.count, time_us)
        if data is not None and index is not None:
            entry = IndexEntry(end.byte_position, size_bytes, end.end_offset, stamped.count, time_us, stamped.crc32c)
            data.write_at(stamped.data, entry.byte_position)
            index.write_at(encode_entry(entry, end.base_offset), INDEX_HEADER_BYTES + end.entries * INDEX_ENTRY_BYTES)
            end.advance(size_bytes, stamped.count, time_us)
            self._repeats.note(stamped.data)
        if number is not None and record is not None:
            self._producers.note(number.producer_id, record)
        end.is_doubtful = False

    def _recover(self) -> None:
        """Take what is on disk for the truth, after an append that did not end."""
        with self._sync_lock:
            self._repeats.forget()
            self._close_files()
            end = self.end
            base = None if end.base_offset == NO_SEGMENT else end.base_offset
            known = Tail(base, end.end_offset, end.byte_position, end.entries, end.timestamp_us)
            self._take_over(recover(self.directory, self._files, known))
            end.written += 1  # what was interrupted after its entry is there after all
            self._are_names_synced = False

    def _place_for(self, size_bytes: int) -> tuple[WriteFile, WriteFile]:
        """Return the files that so many bytes go to: a new segment's where the newest is full."""
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
                if not self._are_names_synced:  # whoever made them may have died before he came to it
                    self._sync_names(index)
        return data, index

    def _sync_names(self, index: WriteFile) -> None:
        """Sync the index's head and the files' names, before there is data in them: data without them is unreadable."""
        try:
            index.sync()
            self._files.sync_directory(self.directory)
        except StorageError as error:
            self._fail(error)
            raise closed_error(self.directory, self._failure) from error
        self._are_names_synced = True

    def _begin_segment(self, base: int) -> None:
        """Make the files of a new segment: the index last, which is what readers look for."""
        with self._sync_lock:
            end = self.end
            if end.base_offset != NO_SEGMENT:
                self.sync()
            end.is_doubtful = True
            self._release_files()
            self._data = self._files.open_write(segment_path(self.directory, base, LOG_SUFFIX))
            self._files.sync_directory(self.directory)  # an index without its .log is what no power cut may leave
            self._index = self._files.open_write(segment_path(self.directory, base, INDEX_SUFFIX))
            self._index.write_at(encode_header(base), 0)
            self._sync_names(self._index)
            seal_segment(end, base, self._files)
            end.base_offset = base
            end.byte_position = 0
            end.entries = 0
            end.is_doubtful = False

    def roll(self) -> None:
        """Begin a new segment, unless the newest is empty: what is closed can be compacted.

        Raises:
            PartitionClosedError: a sync has failed, now or before.
            StorageError: the system refused to write.
        """
        with self._lock:
            self._settle()
            if self.end.byte_position > 0:
                self._begin_segment(self.end.end_offset)

    # -- syncing --------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Return when all that was appended before is on the disk, and how many appends that is.

        Raises:
            PartitionClosedError: the system could not, now or before.
        """
        with self._sync_lock:
            self._check_usable()
            self.end.is_announced = False
            written = self.end.written
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
        """Close for good: what could not be synced may be gone from the disk though it can still be read from memory."""
        self._failure = error.what
        note_failed_sync(self.directory, self._files)
        self._release_files()

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise closed_error(self.directory, self._failure)

    def close(self) -> None:
        """Let go of the files, synced unless the policy is `never`; the next append opens them again.

        Raises:
            PartitionClosedError: the system could not sync; the files are closed all the same.
        """
        with self._lock:
            self.end.shut()
            self._close_files()

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
