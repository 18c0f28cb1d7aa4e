"""Makes the summary of a closed segment: reads its messages once, each send checked, and writes one file beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headstream.core.filters.summarizing import HeaderSummarizer
from headstream.log.partition.closed_reading import PassCancelledError, read_closed
from headstream.log.partition.closed_segments import Closed
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.files import BufferPool
from headstream.log.segments.summaries import SegmentSummary, encode_summary, read_summary
from headstream.log.system.files import Files


def is_summarized(directory: str, segment: Closed, names: Sequence[str], files: Files) -> bool:
    """Return whether a segment has a valid summary of these headers, or no messages to summarize."""
    index = open_index(directory, segment.base_offset, files)
    if index is None:
        return True  # dropped meanwhile
    try:
        if index.last is None:
            return True
        found = read_summary(directory, index, files)
    finally:
        index.close()
    return found is not None and set(found.headers) == set(names)


def summarize_segment(
    directory: str, segment: Closed, names: Sequence[str], files: Files, buffers: BufferPool, check_wanted: Callable[[], None]
) -> bytes:
    """Return the content of a segment's summary; PassCancelledError if the segment was dropped or replaced meanwhile.

    `check_wanted` is called between two chunks, and raises PassCancelledError if the summary is no longer wanted.
    """
    index = open_index(directory, segment.base_offset, files)
    if index is None:
        raise PassCancelledError
    try:
        if index.generation != segment.generation:
            raise PassCancelledError
        summarizer = HeaderSummarizer(names, segment.messages_count)
        for chunk in read_closed(directory, segment, files, buffers):
            check_wanted()
            summarizer.add(chunk)
        return encode_summary(index, SegmentSummary(summarizer.messages_count, summarizer.finish()))
    finally:
        index.close()
