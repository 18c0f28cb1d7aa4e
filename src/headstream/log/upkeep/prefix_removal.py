"""Deletes the messages of a partition before an offset: advances the log start offset and removes the messages' bytes.

    <offset>.start                                 created and synced: readers now get no message before the offset
    segments that end at the offset or before      dropped, oldest first
    the segment that contains the offset           rewritten without earlier messages; the newest segment is closed first

The remaining messages keep their offsets, and the rewritten segment keeps its name. The log start offset never decreases; a
smaller offset has no effect. A crash can leave bytes of deleted messages, which the next call removes.

The previous .start file is kept until the next call, because a concurrent directory listing can miss the new name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headstream.core.codec.batch.results import Compacted
from headstream.core.codec.batch.stored.scan import find_offset, scan
from headstream.core.model.topology import check_legal_hold
from headstream.errors import OffsetOutOfRangeError, TopicNotFoundError
from headstream.log.catalog.catalog import is_current
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.closed_reading import PassCancelledError
from headstream.log.partition.closed_segments import Closed, finish_pass, list_closed
from headstream.log.partition.segment_removal import drop_segment
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import START_SUFFIX, base_offsets, segment_path, start_offsets
from headstream.log.system.files import Files
from headstream.log.upkeep.segment_rewrite import Keep, PassContext, SegmentRewrite, check_whole, keep_without

if TYPE_CHECKING:
    from headstream.log.access import LogAccess


def remove_before(log: LogAccess, topic: TopicRecord, number: int, offset: int) -> int:
    """Delete the messages of a partition before an offset; return the log start offset.

    Args:
        offset: The first offset to keep, at most the partition's end.

    Raises:
        OffsetOutOfRangeError: the offset is negative or after the partition's end; nothing is removed.
        LegalHoldError: the topic is under legal hold; nothing is removed.
        TopicNotFoundError: the topic was deleted or changed meanwhile.
        CorruptLogError: the segment that contains the offset is damaged; its bytes before the offset remain, but cannot be read.
    """
    check_legal_hold(topic.name, topic.options.legal_hold)
    directory, files = log.partition_directory(topic, number), log.files

    context = PassContext(log.administration, lambda: is_current(log.snapshot(), topic), lambda: log.states.writes_count)
    try:
        with log.passing:
            with log.administration:
                context.check_wanted()
                first = _check_offset(log, directory, offset)
                offset = max(offset, first)
                partition = log.partition(topic, number)  # opened later, it would remove the new files as leftovers
                bases = base_offsets(files.list_names(directory) or [])
                if bases and offset > bases[-1]:
                    partition.roll()
                finish_pass(directory, files)
                if offset > first:
                    _note_start(directory, offset, files)
                closed = [segment for segment in list_closed(directory, files) if segment.base_offset < offset]
                for segment in closed:
                    if segment.until_offset <= offset:
                        drop_segment(directory, segment.base_offset, segment.generation, files)
            if closed and closed[-1].until_offset > offset:
                _rewrite(SegmentRewrite(directory, files, context), directory, closed[-1], offset)
    except PassCancelledError:
        what = "the topic was deleted or changed while its messages were removed"
        raise TopicNotFoundError(what, where=str(topic.name), advice="Look up the topic again, and retry") from None
    finally:
        log.note_removed(topic, number)
        log.states.note_replaced()
    log.states.forget(topic, number, offset)
    return offset


def _check_offset(log: LogAccess, directory: str, offset: int) -> int:
    """Return the log start offset; raise OffsetOutOfRangeError if an offset is not in the partition."""
    with PartitionFollower(directory, log.files) as follower:
        if not 0 <= offset <= follower.end_offset:
            raise OffsetOutOfRangeError(
                f"cannot remove messages before offset {offset}: the partition ends at {follower.end_offset}",
                where=directory,
                advice="Use an offset from 0 to the end; the end removes all messages",
            )
        return follower.first_offset


def _note_start(directory: str, offset: int, files: Files) -> None:
    for older in start_offsets(files.list_names(directory) or [])[:-1]:
        files.remove(segment_path(directory, older, START_SUFFIX))
    files.open_write(segment_path(directory, offset, START_SUFFIX)).close()
    files.sync_directory(directory)


def _rewrite(rewrite: SegmentRewrite, directory: str, segment: Closed, offset: int) -> None:
    check_whole(directory, segment)
    chunks = rewrite.chunks(segment)
    first = next(chunks, None)
    chunks.close()
    if first is not None and find_offset(first, offset):
        rewrite.run([segment], partial(_keep_from, offset), is_by_key=segment.is_compacted)


def _keep_from(offset: int) -> Keep:
    keep_all = keep_without()

    def keep(chunk: memoryview, byte_position: int, base: int) -> Compacted:
        begin = find_offset(chunk, offset)
        kept = keep_all(chunk[begin:], byte_position, base)
        kept.dropped_count = scan(chunk[:begin]).count
        return kept

    return keep
