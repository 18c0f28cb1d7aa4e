"""One compaction of one partition: of each key in its closed segments, the last message is retained, with its offset.

    closed segments, oldest first      clean (an earlier pass has compacted them) ... dirty ...
    1  the newest offset of each key of the dirty ones             -> a table of hashes (codec.batch.compact)
    2  neighbours that fit into one segment, a group               -> <base>-<n>.log, <base>.index-new, synced
    3  <base>.index-new renamed to <base>.index                    the group's messages are in the new files from here on
    4  side files, the old .log and the group's other segments removed

The new index ends with a seal that has the offset up to which the group went. Before step 3 no existing file
changes; after it, the rest of the old files is superfluous: finish_pass() removes the leftovers of both, whenever the
process crashed. A group is done after all older ones, so that a null payload is never removed
before the messages it deletes. A group without remaining messages stays as a segment without messages, until a later
pass merges it into a neighbour: its seal states that nothing is missing.

A message is retained unless a dirty segment has a newer one of its key. A null payload older than the topic's delay
is removed, and so is a message marked for deletion, which still replaces older ones. Messages without a key are retained:
they were sent before compaction was enabled.

A pass changes only proven segments: by the index, whose entries follow each other up to the end of the .log; by the
messages, each send checked against its entry; by the neighbours, each beginning where the one before it ends. It ends before
the first unproven segment: that one and all newer ones are unchanged, since a repair of the damage can need the messages
that they replace.

Memory is bounded: dirty segments are read in parts of 3 million messages, or of one segment if that has more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from headstream.codec.batch.results import Compacted
from headstream.codec.batch.stored.compact import compact_messages, new_key_table, note_keys
from headstream.errors import CorruptLogError, StorageError
from headstream.log.partition.closed_reading import PassCancelledError, read_closed
from headstream.log.partition.closed_segments import Closed, finish_pass, list_closed
from headstream.log.partition.segment_removal import drop_segment, open_index, remove_side_files
from headstream.log.system.files import Files
from headstream.model.message import MessageState
from headstream.segments.files import BufferPool
from headstream.segments.layout import (
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    REPLACING_SUFFIX,
    Seal,
    encode_header,
    encode_seal,
    log_suffix,
    segment_path,
)

__all__ = ["CompactionPass", "Outcome", "PassContext"]

_KEYS_AT_ONCE: Final = 3_000_000
"""Most messages of one part: a table of 100 to 200 MiB."""
_MOST_OFFSETS: Final = 1 << 31
"""Most offsets of one segment: they are 32 bits in its index."""
_MARKED: Final = MessageState.MARKED_FOR_DELETION.value


@dataclass(slots=True)
class Outcome:
    """Result of a pass.

    Args:
        dropped_count: Number of dropped messages.
        oldest_null_us: The time of the oldest null payload that is still retained, or None.
        is_whole: Whether it completed: not if the topic was changed or segments were dropped meanwhile.
    """

    dropped_count: int = 0
    oldest_null_us: int | None = None
    is_whole: bool = True


@dataclass(slots=True)
class PassContext:
    """Shared state of the log during a pass.

    Args:
        lock: Held while old segments or states are changed.
        is_wanted: Returns whether the pass is to go on; called while the lock is held.
        state_changes: Returns a number that grows with each change of states.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    is_wanted: Callable[[], bool] = lambda: True
    state_changes: Callable[[], int] = lambda: 0


class CompactionPass:
    """One pass over a partition.

    Args:
        directory: The partition's directory; this process is the log's writer.
        files: Its file system.
        segment_bytes: Size up to which a segment is merged with its neighbours.
        null_before_us: Null payloads appended before this time are removed, microseconds since 1970 UTC.
        seed: 16 random bytes.
        context: Shared state of the log.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        *,
        segment_bytes: int,
        null_before_us: int,
        seed: bytes,
        around: PassContext | None = None,
    ) -> None:
        self._directory = directory
        self._files = files
        self._segment_bytes = segment_bytes
        self._null_before_us = null_before_us
        self._seed = seed
        self._context = PassContext() if around is None else around
        self._buffers = BufferPool()
        self._outcome = Outcome()
        self._copied = Outcome()
        self._damage: CorruptLogError | None = None

    def run(self) -> Outcome:
        """Compact all closed segments.

        Raises:
            CorruptLogError: a segment is damaged; it and all newer ones are unchanged.
            StorageError: the system refused; the rest is unchanged.
        """
        try:
            with self._context.lock:
                self._check_wanted()
                finish_pass(self._directory, self._files)
                found = list_closed(self._directory, self._files)
            closed = list(itertools.takewhile(lambda segment: not segment.fault, found))
            done = next((number for number, segment in enumerate(closed) if not segment.is_compacted), len(closed))
            while True:
                until = self._end_of_part(closed, done)
                table, whole = self._note(closed[done:until])
                if done + whole < until:
                    until, closed = done + whole, closed[: done + whole]
                clean = []
                for group in self._groups(closed[:until]):
                    clean.append(self._compact(group, table))
                closed[:until] = clean
                done = len(clean)
                if done == len(closed):
                    break
            self._check_all_whole(found)
            return self._outcome
        except PassCancelledError:
            self._outcome.is_whole = False
            return self._outcome

    def _check_all_whole(self, found: list[Closed]) -> None:
        """Raise the fault of the first damaged segment; older ones have been compacted."""
        if self._damage is not None:
            raise self._damage
        for segment in found:
            if segment.fault:
                raise CorruptLogError(
                    f"a segment is damaged: {segment.fault}. It and all newer ones are not compacted",
                    where=segment_path(self._directory, segment.base_offset, INDEX_SUFFIX),
                    advice="Run headstream verify --repair, and restore what it cannot repair from a copy",
                )

    def _check_wanted(self) -> None:
        if not self._context.is_wanted():
            raise PassCancelledError

    @staticmethod
    def _end_of_part(closed: list[Closed], begin: int) -> int:
        end, count = begin, 0
        while end < len(closed) and (end == begin or count + closed[end].messages_count <= _KEYS_AT_ONCE):
            count += closed[end].messages_count
            end += 1
        return end

    def _note(self, segments: list[Closed]) -> tuple[bytearray, int]:
        """Return the newest offset of each key in the first of these segments, and their number: up to a damaged one."""
        table = new_key_table(sum(segment.messages_count for segment in segments))
        for number, segment in enumerate(segments):
            try:
                for chunk in self._chunks(segment):
                    note_keys(chunk, table, self._seed)
            except CorruptLogError as error:
                self._damage = error
                return self._note(segments[:number])
        return table, len(segments)

    def _groups(self, segments: list[Closed]) -> Iterator[list[Closed]]:
        """Yield groups of neighbours that fit into one segment."""
        group: list[Closed] = []
        size_bytes = 0
        for segment in segments:
            is_far = bool(group) and segment.until_offset - group[0].base_offset > _MOST_OFFSETS
            if group and (size_bytes + segment.size_bytes > self._segment_bytes or is_far):
                yield group
                group, size_bytes = [], 0
            group.append(segment)
            size_bytes += segment.size_bytes
        if group:
            yield group

    def _chunks(self, segment: Closed) -> Iterator[memoryview]:
        return read_closed(self._directory, segment, self._files, self._buffers)

    def _keep(self, chunk: memoryview, table: bytearray, byte_position: int, base: int) -> Compacted:
        return compact_messages(
            chunk,
            table,
            self._seed,
            null_before_us=self._null_before_us,
            dropped_state=_MARKED,
            byte_position=byte_position,
            base_offset=base,
        )

    # -- writing ----------------------------------------------------------------------------------------------

    def _compact(self, group: list[Closed], table: bytearray) -> Closed:
        """Compact a group into its first segment, and return that."""
        if len(group) == 1 and not self._would_drop(group[0], table):
            return self._mark(group[0])
        try:
            with self._context.lock:
                changes = self._context.state_changes()
            made = self._copy(group, table)
            with self._context.lock:
                if self._context.state_changes() != changes:  # states changed in copied segments: copy again, holding the lock
                    made = self._copy(group, table)
                self._check_wanted()
                return self._swap(group, made)
        except (StorageError, CorruptLogError, PassCancelledError):
            self._discard(group[0])
            raise

    def _would_drop(self, segment: Closed, table: bytearray) -> bool:
        oldest: int | None = None
        for chunk in self._chunks(segment):
            kept = self._keep(chunk, table, 0, segment.base_offset)
            if kept.dropped_count:
                return True
            oldest = _older(oldest, kept.oldest_null_us)
        self._outcome.oldest_null_us = _older(self._outcome.oldest_null_us, oldest)
        return False

    def _mark(self, segment: Closed) -> Closed:
        """Mark a segment's index as compacted; its messages stay in place."""
        if segment.is_compacted:
            return segment
        base = segment.base_offset
        with self._context.lock:
            self._check_wanted()
            index = open_index(self._directory, base, self._files)
            if index is None:
                raise PassCancelledError
            rows = index.rows(0, index.count)
            index.close()
            path = segment_path(self._directory, base, REPLACING_SUFFIX)
            file = self._files.open_write(path)
            try:
                file.truncate(0)
                file.write_at(encode_header(base, segment.generation), 0)
                file.write_at(rows, INDEX_HEADER_BYTES)
                file.write_at(encode_seal(Seal(segment.size_bytes, segment.until_offset), base), INDEX_HEADER_BYTES + len(rows))
                file.sync()
            finally:
                file.close()
            self._files.rename(path, segment_path(self._directory, base, INDEX_SUFFIX))
            self._files.sync_directory(self._directory)
        return segment._replace(is_compacted=True)

    def _copy(self, group: list[Closed], table: bytearray) -> Closed:
        """Copy the retained messages of a group to new files, synced, and return its future first segment."""
        base, generation = group[0].base_offset, group[0].generation + 1
        with self._context.lock:  # the directory is not removed while files are created in it
            self._check_wanted()
            data = self._files.open_write(segment_path(self._directory, base, log_suffix(generation)))
            index = self._files.open_write(segment_path(self._directory, base, REPLACING_SUFFIX))
        outcome, until = Outcome(), group[-1].until_offset
        position, index_position, count = 0, INDEX_HEADER_BYTES, 0
        try:
            data.truncate(0)
            index.truncate(0)
            index.write_at(encode_header(base, generation), 0)
            for segment in group:
                for chunk in self._chunks(segment):
                    kept = self._keep(chunk, table, position, base)
                    if kept.count:
                        data.write_at(kept.data, position)
                        index.write_at(kept.entries, index_position)
                    position += len(kept.data)
                    index_position += len(kept.entries)
                    count += kept.count
                    outcome.dropped_count += kept.dropped_count
                    outcome.oldest_null_us = _older(outcome.oldest_null_us, kept.oldest_null_us)
            index.write_at(encode_seal(Seal(position, until), base), index_position)
            data.sync()
            index.sync()
        finally:
            data.close()
            index.close()
        self._copied = outcome
        return Closed(base, until, generation, True, position, until - base if count else 0, group[0].first_us if count else 0)

    def _swap(self, group: list[Closed], made: Closed) -> Closed:
        """Replace the old files by the new ones; the lock is held."""
        for segment in group:
            index = open_index(self._directory, segment.base_offset, self._files)
            if index is None:
                raise PassCancelledError  # dropped meanwhile
            index.close()
        path = segment_path(self._directory, made.base_offset, REPLACING_SUFFIX)
        self._outcome.dropped_count += self._copied.dropped_count
        self._outcome.oldest_null_us = _older(self._outcome.oldest_null_us, self._copied.oldest_null_us)
        self._files.sync_directory(self._directory)  # the new .log's name before the index that needs it
        self._files.rename(path, segment_path(self._directory, made.base_offset, INDEX_SUFFIX))
        self._files.sync_directory(self._directory)
        # Before the old .log, which tells the next opening that a pass was interrupted.
        remove_side_files(self._directory, made.base_offset, self._files)
        self._files.remove(segment_path(self._directory, made.base_offset, log_suffix(group[0].generation)))
        for segment in group[1:]:
            drop_segment(self._directory, segment.base_offset, segment.generation, self._files)
        return made

    def _discard(self, head: Closed) -> None:
        """Remove the new files of a group that keeps its old ones; finish_pass() removes the rest."""
        with suppress(StorageError), self._context.lock:
            index = open_index(self._directory, head.base_offset, self._files)
            if index is not None:
                index.close()
            if index is None or index.generation == head.generation:
                self._files.remove(segment_path(self._directory, head.base_offset, REPLACING_SUFFIX))
                self._files.remove(segment_path(self._directory, head.base_offset, log_suffix(head.generation + 1)))


def _older(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
