"""Compacts one partition: for each key in its closed segments, retains the last message at its offset.

    closed segments, oldest first      clean (an earlier pass has compacted them) ... dirty ...
    1  the newest offset of each key of the dirty segments -> a table of hashes (codec.batch.compact)
    2  a group: neighbours that fit into one segment -> one new segment (segment_rewrite.py)

Groups are rewritten from old to new, so that a null payload is never removed before the messages that it deletes. A group without
remaining messages becomes a segment without messages, which a later pass merges into a neighbour.

A message is retained unless a dirty segment has a newer message with the same key. Null payloads older than the topic's delay and
messages marked for deletion whose grace has ended are removed. Until their removal, they also replace older messages. Messages
without a key, sent before compaction was enabled, are retained.

A pass changes only segments that are proven complete: the index entries are contiguous up to the end of the .log, each send
matches its entry, and each segment starts where the previous segment ends. The pass stops at the first unproven segment. This
segment and all newer segments stay unchanged, because a repair may need messages that the pass would remove.

Memory is limited: dirty segments are read in parts of 3 million messages, or one segment if it has more messages.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch.results import Compacted
from headstream.core.codec.batch.stored.compact import compact_messages, new_key_table, note_keys
from headstream.core.model.message import MessageState
from headstream.errors import CorruptLogError
from headstream.log.partition.closed_reading import PassCancelledError
from headstream.log.partition.closed_segments import Closed, finish_pass, list_closed
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.layout import (
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    REPLACING_SUFFIX,
    Seal,
    encode_header,
    encode_seal,
    segment_path,
)
from headstream.log.system.files import Files
from headstream.log.upkeep.segment_rewrite import PassContext, SegmentRewrite, groups_of, older

_KEYS_AT_ONCE: Final = 3_000_000
"""Maximum number of messages of one part, whose table takes 100 to 200 MiB."""
_MARKED: Final = MessageState.MARKED_FOR_DELETION.value


@dataclass(slots=True)
class Outcome:
    """Result of a pass; incomplete if the topic was changed or segments were dropped meanwhile."""

    dropped_count: int = 0
    oldest_null_us: int | None = None
    is_whole: bool = True


class CompactionPass:
    """One pass over a partition.

    Args:
        segment_bytes: Size up to which a segment is merged with its neighbours.
        null_before_us: Null payloads appended before this time are removed, microseconds since 1970 UTC.
        seed: 16 random bytes.
        dropped: Offsets of messages to remove if they are marked for deletion: ascending u64, little-endian.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        *,
        segment_bytes: int,
        null_before_us: int,
        seed: bytes,
        dropped: bytes = b"",
        around: PassContext | None = None,
    ) -> None:
        self._directory = directory
        self._files = files
        self._segment_bytes = segment_bytes
        self._null_before_us = null_before_us
        self._seed = seed
        self._dropped = dropped
        self._context = PassContext() if around is None else around
        self._rewrite = SegmentRewrite(directory, files, self._context)
        self._outcome = Outcome()
        self._damage: CorruptLogError | None = None

    def run(self) -> Outcome:
        """Compact all closed segments; after a CorruptLogError, the damaged segment and all newer segments are unchanged."""
        try:
            with self._context.lock:
                self._context.check_wanted()
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
                for group in groups_of(closed[:until], self._segment_bytes):
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
        """Raise the fault of the first damaged segment; older segments are compacted."""
        if self._damage is not None:
            raise self._damage
        for segment in found:
            if segment.fault:
                raise CorruptLogError(
                    f"a segment is damaged: {segment.fault}. This segment and all newer segments were not compacted",
                    where=segment_path(self._directory, segment.base_offset, INDEX_SUFFIX),
                    advice="Run headstream verify --repair; if files are still damaged, restore them from a copy",
                )

    @staticmethod
    def _end_of_part(closed: list[Closed], begin: int) -> int:
        end, count = begin, 0
        while end < len(closed) and (end == begin or count + closed[end].messages_count <= _KEYS_AT_ONCE):
            count += closed[end].messages_count
            end += 1
        return end

    def _note(self, segments: list[Closed]) -> tuple[bytearray, int]:
        """Return the newest offset of each key in the segments before a damaged segment, and their number."""
        table = new_key_table(sum(segment.messages_count for segment in segments))
        for number, segment in enumerate(segments):
            try:
                for chunk in self._rewrite.chunks(segment):
                    note_keys(chunk, table, self._seed)
            except CorruptLogError as error:
                self._damage = error
                return self._note(segments[:number])
        return table, len(segments)

    def _keep(self, chunk: memoryview, table: bytearray, byte_position: int, base: int) -> Compacted:
        return compact_messages(
            chunk,
            table,
            self._seed,
            null_before_us=self._null_before_us,
            dropped_state=_MARKED,
            dropped=self._dropped,
            byte_position=byte_position,
            base_offset=base,
        )

    # -- writing ----------------------------------------------------------------------------------------------

    def _compact(self, group: list[Closed], table: bytearray) -> Closed:
        """Compact a group into its first segment; return this segment."""
        if len(group) == 1 and not self._would_drop(group[0], table):
            return self._mark(group[0])
        made = self._rewrite.run(
            group, lambda: lambda chunk, position, base: self._keep(chunk, table, position, base), is_by_key=True
        )
        self._outcome.dropped_count += made.dropped_count
        self._outcome.oldest_null_us = older(self._outcome.oldest_null_us, made.oldest_null_us)
        return made.segment

    def _would_drop(self, segment: Closed, table: bytearray) -> bool:
        oldest: int | None = None
        for chunk in self._rewrite.chunks(segment):
            kept = self._keep(chunk, table, 0, segment.base_offset)
            if kept.dropped_count:
                return True
            oldest = older(oldest, kept.oldest_null_us)
        self._outcome.oldest_null_us = older(self._outcome.oldest_null_us, oldest)
        return False

    def _mark(self, segment: Closed) -> Closed:
        """Mark a segment's index as compacted without moving messages."""
        if segment.is_compacted:
            return segment
        base = segment.base_offset
        with self._context.lock:
            self._context.check_wanted()
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
