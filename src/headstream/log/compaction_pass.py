"""One compaction of one partition: of each key in its closed segments, the last message is kept, with its offset.

    closed segments, oldest first      clean (an earlier pass has been there) ... dirty ...
    1  the newest offset of each key of the dirty ones             -> a table of hashes (codec.batch.compact)
    2  neighbours that fit into one segment, a group               -> <base>-<n>.log, <base>.index-new, synced
    3  <base>.index-new renamed to <base>.index                    the group's messages are in the new files from here on
    4  the old .log and the group's other segments removed

The new index ends with a seal that says up to which offset the group went. Until step 3 nothing that is there has
changed; from it on, what is left of the old files is superfluous: finish_pass()
removes both, whenever the process died. A group is done after all older ones, so that a null payload never goes
before what it removes. A group of which nothing is left stays as a segment without messages, until a later pass makes it
a part of a neighbour: its seal says that nothing is missing there.

A message stays where no newer one of its key is in a dirty segment. A null payload that is older than the topic's delay
goes, and what is marked for deletion, which still takes the place of what is older. What has no key stays, it was sent
before compaction was asked for.

A pass touches what it has proved whole: by its index, whose entries follow each other up to the end of the .log; by the
messages, each send against its entry; by its neighbours, of which each begins where the one before it ends. It ends before
the first segment that is not: that one and all newer ones stay as they are, since what they replace may be needed again
when the damage is repaired.

Memory is bounded: the dirty segments are taken in parts of 3 million messages, or of one segment where that has more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from headstream.codec.batch.compact import keep_last, new_key_table, note_keys
from headstream.codec.batch.results import Kept
from headstream.errors import CorruptLogError, StorageError
from headstream.log.closed_reading import UnwantedError, read_closed
from headstream.log.closed_segments import Closed, finish_pass, look_at_closed
from headstream.log.files import Files
from headstream.log.segment_removal import drop_segment, open_index
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

__all__ = ["CompactionPass", "Outcome", "Surroundings"]

_KEYS_AT_ONCE: Final = 3_000_000
"""Messages of one part, at most: a table of 100 to 200 MiB."""
_MOST_OFFSETS: Final = 1 << 31
"""Offsets that one segment spans, at most: they are 32 bits in its index."""
_MARKED: Final = MessageState.MARKED_FOR_DELETION.value


@dataclass(slots=True)
class Outcome:
    """What a pass has done.

    Args:
        dropped_count: How many messages have gone.
        oldest_null_us: The time of the oldest null payload that stays for a while, or None where there is none.
        is_whole: Whether it came to its end: not if the topic was changed or segments were dropped meanwhile.
    """

    dropped_count: int = 0
    oldest_null_us: int | None = None
    is_whole: bool = True


@dataclass(slots=True)
class Surroundings:
    """What goes on around a pass.

    Args:
        lock: Held by whoever changes old segments or states.
        is_wanted: Whether the pass is to go on; asked while the lock is held.
        state_changes: A number that grows with each change of states.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    is_wanted: Callable[[], bool] = lambda: True
    state_changes: Callable[[], int] = lambda: 0


class CompactionPass:
    """One pass over a partition.

    Args:
        directory: The partition's; the caller is the log's writer.
        files: Where it is.
        segment_bytes: How big a segment may become by taking in its neighbours.
        null_before_us: Null payloads that were appended before this time go, microseconds since 1970 UTC.
        seed: 16 random bytes.
        around: What goes on around it.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        *,
        segment_bytes: int,
        null_before_us: int,
        seed: bytes,
        around: Surroundings | None = None,
    ) -> None:
        self._directory = directory
        self._files = files
        self._segment_bytes = segment_bytes
        self._null_before_us = null_before_us
        self._seed = seed
        self._around = Surroundings() if around is None else around
        self._buffers = BufferPool()
        self._outcome = Outcome()
        self._copied = Outcome()
        self._damage: CorruptLogError | None = None

    def run(self) -> Outcome:
        """Go through all closed segments.

        Raises:
            CorruptLogError: a segment is damaged; it and all newer ones stay as they are.
            StorageError: the system refused; what is not done stays as it is.
        """
        try:
            with self._around.lock:
                self._check_wanted()
                finish_pass(self._directory, self._files)
                found = look_at_closed(self._directory, self._files)
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
        except UnwantedError:
            self._outcome.is_whole = False
            return self._outcome

    def _check_all_whole(self, found: list[Closed]) -> None:
        """Report the first segment that is damaged; what is older has been compacted."""
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
        if not self._around.is_wanted():
            raise UnwantedError

    @staticmethod
    def _end_of_part(closed: list[Closed], begin: int) -> int:
        end, count = begin, 0
        while end < len(closed) and (end == begin or count + closed[end].messages_count <= _KEYS_AT_ONCE):
            count += closed[end].messages_count
            end += 1
        return end

    def _note(self, segments: list[Closed]) -> tuple[bytearray, int]:
        """Return the newest offset of each key in the first of these segments, and how many they are: up to a damaged one."""
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
        """Yield neighbours that fit into one segment together."""
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

    def _keep(self, chunk: memoryview, table: bytearray, byte_position: int, base: int) -> Kept:
        return keep_last(
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
            with self._around.lock:
                changes = self._around.state_changes()
            made = self._copy(group, table)
            with self._around.lock:
                if self._around.state_changes() != changes:  # states were set in what has been copied: once more, and nobody
                    made = self._copy(group, table)  # sets any meanwhile
                self._check_wanted()
                return self._swap(group, made)
        except (StorageError, CorruptLogError, UnwantedError):
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
        """Say in a segment's index that a pass has been there, and leave its messages where they are."""
        if segment.is_compacted:
            return segment
        base = segment.base_offset
        with self._around.lock:
            self._check_wanted()
            index = open_index(self._directory, base, self._files)
            if index is None:
                raise UnwantedError
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
        """Copy what stays of a group to new files, synced, and return what will be its first segment."""
        base, generation = group[0].base_offset, group[0].generation + 1
        with self._around.lock:  # nobody removes the directory while files are made in it
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
        """Put the new files in the place of the old ones; the lock is held."""
        for segment in group:
            index = open_index(self._directory, segment.base_offset, self._files)
            if index is None:
                raise UnwantedError  # dropped meanwhile
            index.close()
        path = segment_path(self._directory, made.base_offset, REPLACING_SUFFIX)
        self._outcome.dropped_count += self._copied.dropped_count
        self._outcome.oldest_null_us = _older(self._outcome.oldest_null_us, self._copied.oldest_null_us)
        self._files.sync_directory(self._directory)  # the new .log's name before the index that needs it
        self._files.rename(path, segment_path(self._directory, made.base_offset, INDEX_SUFFIX))
        self._files.sync_directory(self._directory)
        self._files.remove(segment_path(self._directory, made.base_offset, log_suffix(group[0].generation)))
        for segment in group[1:]:
            drop_segment(self._directory, segment.base_offset, segment.generation, self._files)
        return made

    def _discard(self, head: Closed) -> None:
        """Remove the new files of a group that keeps its old ones; what stays behind, finish_pass() removes."""
        with suppress(StorageError), self._around.lock:
            index = open_index(self._directory, head.base_offset, self._files)
            if index is not None:
                index.close()
            if index is None or index.generation == head.generation:
                self._files.remove(segment_path(self._directory, head.base_offset, REPLACING_SUFFIX))
                self._files.remove(segment_path(self._directory, head.base_offset, log_suffix(head.generation + 1)))


def _older(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
