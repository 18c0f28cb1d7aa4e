"""SegmentRewrite: replaces neighbouring closed segments with one segment that contains only some of their messages.

    1  <base>-<n>.log, <base>.index-new    the remaining messages; synced
    2  <base>.index-new                    renamed to <base>.index: readers now use the new files
    3  side files, the old .log and the other segments removed

Messages keep their offsets. The new index ends with a seal that contains the end offset of the group. No existing file changes
before step 2, and the old files are superfluous afterwards; in both cases, finish_pass() removes the leftovers of a crash. A
group without remaining messages becomes a segment without messages, whose seal shows that no message is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headstream.core.codec.batch.results import Compacted
from headstream.core.codec.batch.stored.compact import compact_messages, new_key_table
from headstream.errors import CorruptLogError, StorageError
from headstream.log.partition.closed_reading import PassCancelledError, read_closed
from headstream.log.partition.closed_segments import Closed
from headstream.log.partition.segment_removal import drop_segment, open_index, remove_side_files
from headstream.log.segments.files import BufferPool
from headstream.log.segments.layout import (
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    REPLACING_SUFFIX,
    Seal,
    encode_header,
    encode_seal,
    log_suffix,
    segment_path,
)
from headstream.log.system.files import Files

_NO_SEED: Final = bytes(16)
_MOST_OFFSETS: Final = 1 << 31
"""Maximum number of offsets in a segment, because relative offsets in an index have 32 bits."""

Keep = Callable[[memoryview, int, int], Compacted]
"""Chunk of stored messages, byte position of the copy, first offset of the segment -> the messages that stay."""
MakeKeep = Callable[[], Keep]
"""Called at the start of each copy, because the states at this time determine which messages stay."""


def check_whole(directory: str, segment: Closed) -> None:
    """Raise CorruptLogError if a segment from which to remove messages is damaged."""
    if segment.fault:
        raise CorruptLogError(
            f"a segment is damaged: {segment.fault}. Messages of this segment were not removed",
            where=segment_path(directory, segment.base_offset, INDEX_SUFFIX),
            advice="Run headstream verify --repair; if files are still damaged, restore them from a copy",
        )


def keep_without(offsets: Sequence[int] = (), state: int = 0) -> Keep:
    """Return a function that keeps all messages except messages at the given ascending offsets with the given state."""
    dropped, table = encode_offsets(offsets), new_key_table(1)

    def keep(chunk: memoryview, byte_position: int, base: int) -> Compacted:
        return compact_messages(
            chunk,
            table,
            _NO_SEED,
            null_before_us=0,
            dropped_state=state,
            dropped=dropped,
            byte_position=byte_position,
            base_offset=base,
        )

    return keep


def encode_offsets(offsets: Sequence[int]) -> bytes:
    """Return ascending offsets in the format for compact_messages()."""
    return b"".join(offset.to_bytes(8, "little") for offset in offsets)


@dataclass(slots=True)
class PassContext:
    """Shared state of the log during a pass.

    Args:
        is_wanted: Returns whether the pass should continue; called with the lock held.
        state_changes: Returns a number that increases with each state change.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    is_wanted: Callable[[], bool] = lambda: True
    state_changes: Callable[[], int] = lambda: 0

    def check_wanted(self) -> None:
        """Raise PassCancelledError if the pass should not continue."""
        if not self.is_wanted():
            raise PassCancelledError


class Rewritten(NamedTuple):
    """Result of a rewrite; the time of the oldest remaining null payload is None if there is no null payload."""

    segment: Closed
    dropped_count: int
    oldest_null_us: int | None


def groups_of(segments: Iterable[Closed], segment_bytes: int) -> Iterator[list[Closed]]:
    """Yield groups of neighbouring closed segments that fit into one segment of a size; a larger segment is a separate group."""
    group: list[Closed] = []
    size_bytes = 0
    for segment in segments:
        is_far = bool(group) and segment.until_offset - group[0].base_offset > _MOST_OFFSETS
        if group and (size_bytes + segment.size_bytes > segment_bytes or is_far):
            yield group
            group, size_bytes = [], 0
        group.append(segment)
        size_bytes += segment.size_bytes
    if group:
        yield group


class SegmentRewrite:
    """Rewrites groups of one partition's closed segments."""

    def __init__(self, directory: str, files: Files, context: PassContext) -> None:
        self._directory = directory
        self._files = files
        self._context = context
        self._buffers = BufferPool()

    def chunks(self, segment: Closed) -> Generator[memoryview]:
        """Yield the messages of a segment, each send checked; see read_closed()."""
        return read_closed(self._directory, segment, self._files, self._buffers)

    def run(self, group: list[Closed], make_keep: MakeKeep, *, is_by_key: bool) -> Rewritten:
        """Rewrite neighbouring segments into the first segment.

        Args:
            group: Closed segments without a fault; each starts where the previous segment ends.
            is_by_key: Whether all segments were compacted by key.

        Raises:
            PassCancelledError: a segment was dropped or the topic changed; nothing is changed.
        """
        try:
            with self._context.lock:
                changes = self._context.state_changes()
            made = self._copy(group, make_keep(), is_by_key)
            with self._context.lock:
                if self._context.state_changes() != changes:  # states changed in copied segments: copy again, holding the lock
                    made = self._copy(group, make_keep(), is_by_key)
                self._context.check_wanted()
                self._swap(group)
            return made
        except (StorageError, CorruptLogError, PassCancelledError):
            self._discard(group[0])
            raise

    def _copy(self, group: list[Closed], keep: Keep, is_by_key: bool) -> Rewritten:
        """Copy the remaining messages of a group to new files, and sync the files."""
        base, generation = group[0].base_offset, group[0].generation + 1
        with self._context.lock:  # neither the directory nor the segment is removed while files are created
            self._context.check_wanted()
            # Files of a segment that retention has removed would look like a segment with a lost index.
            if not self._files.exists(segment_path(self._directory, base, INDEX_SUFFIX)):
                raise PassCancelledError
            data = self._files.open_write(segment_path(self._directory, base, log_suffix(generation)))
            index = self._files.open_write(segment_path(self._directory, base, REPLACING_SUFFIX))
        until, oldest_null_us = group[-1].until_offset, None
        position, index_position, count, dropped_count, first_us = 0, INDEX_HEADER_BYTES, 0, 0, group[0].first_us
        try:
            data.truncate(0)
            index.truncate(0)
            index.write_at(encode_header(base, generation, is_by_key=is_by_key), 0)
            for segment in group:
                for chunk in self.chunks(segment):
                    kept = keep(chunk, position, base)
                    if kept.count:
                        data.write_at(kept.data, position)
                        index.write_at(kept.entries, index_position)
                    position += len(kept.data)
                    index_position += len(kept.entries)
                    count += kept.count
                    dropped_count += kept.dropped_count
                    oldest_null_us = older(oldest_null_us, kept.oldest_null_us)
            index.write_at(encode_seal(Seal(position, until), base), index_position)
            data.sync()
            index.sync()
        finally:
            data.close()
            index.close()
        messages_count, first_us = (until - base, first_us) if count else (0, 0)
        made = Closed(base, until, generation, is_by_key, position, messages_count, first_us)
        return Rewritten(made, dropped_count, oldest_null_us)

    def _swap(self, group: list[Closed]) -> None:
        """Replace the old files with the new files; the caller holds the lock."""
        for segment in group:
            index = open_index(self._directory, segment.base_offset, self._files)
            if index is None:
                raise PassCancelledError  # dropped meanwhile
            index.close()
        base = group[0].base_offset
        path = segment_path(self._directory, base, REPLACING_SUFFIX)
        self._files.sync_directory(self._directory)  # the new .log's name before the index that needs it
        self._files.rename(path, segment_path(self._directory, base, INDEX_SUFFIX))
        self._files.sync_directory(self._directory)
        # Before the old .log, which shows the next opening that a pass was interrupted.
        remove_side_files(self._directory, base, self._files)
        self._files.remove(segment_path(self._directory, base, log_suffix(group[0].generation)))
        for segment in group[1:]:
            drop_segment(self._directory, segment.base_offset, segment.generation, self._files)
        self._files.sync_directory(self._directory)  # an erased message must not reappear after a power failure

    def _discard(self, head: Closed) -> None:
        """Remove the new files of a group that keeps its old files; finish_pass() removes all other leftovers."""
        with suppress(StorageError), self._context.lock:
            index = open_index(self._directory, head.base_offset, self._files)
            if index is not None:
                index.close()
            if index is None or index.generation == head.generation:
                self._files.remove(segment_path(self._directory, head.base_offset, REPLACING_SUFFIX))
                self._files.remove(segment_path(self._directory, head.base_offset, log_suffix(head.generation + 1)))


def older(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two times, microseconds; a time of None is ignored."""
    return other if one is None else one if other is None else min(one, other)
