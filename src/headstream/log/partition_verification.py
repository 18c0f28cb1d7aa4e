"""One partition's files, checked against each other: what is damaged, to the send.

    index head       its check, version, base offset
    index entries    each one's check; each begins where the one before it ends, in bytes and in offsets; times never decrease
    compacted        the same, but that offsets may be missing between entries and behind the last one
    messages         each send's CRC-32C, count, offsets, time; each payload's CRC-32; each state one that exists
    segments         each begins where the one before it ends

Only what is committed is checked, so a writer may go on: a file's size is read before its index, and what lies behind
the last whole entry is at most one send that nobody was told of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from headstream.log.findings import SET_ASIDE, Finding, FindingKind
from headstream.log.segment_verification import SegmentCheck
from headstream.segments.files import BufferPool, ReadFiles
from headstream.segments.layout import (
    MAX_BASE_OFFSET,
    PRODUCERS_NAME,
    SYNC_FAILED_NAME,
    base_offsets,
    log_offsets,
    log_suffix,
    segment_path,
)

__all__ = ["verify_partition"]

_FILE_NAME: Final = re.compile(r"(\d{20})(?:(-\d+)?\.log|\.(index|index-new|log\.dropped))")


def verify_partition(
    directory: str, files: ReadFiles, buffers: BufferPool, on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[Finding]:
    """Yield what is wrong with the segments of a partition.

    Args:
        directory: The partition's directory.
        files: Where it is.
        buffers: What messages are read into.
        on_bytes: Called with the number of bytes of messages that were checked since.
    """
    names = files.list_names(directory)
    if names is None:
        return
    yield from _strange_files(directory, names)
    generations = dict(log_offsets(names))
    bases = sorted({*base_offsets(names), *generations})
    for number, base in enumerate(bases):
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        check = SegmentCheck(directory, base, generations.get(base, 0), next_base, files, buffers, on_bytes)
        yield from check.run()
        yield from _superfluous_logs(directory, base, check.generation, names)


def _superfluous_logs(directory: str, base: int, named: int | None, names: list[str]) -> Iterator[Finding]:
    """Say which .log files a segment has beside the one that its index names."""
    for other, generation in log_offsets(names):
        if other == base and named not in (None, generation):
            path = segment_path(directory, base, log_suffix(generation))
            what = "left by a compaction that was broken off, or that is under way"
            yield Finding(FindingKind.TAIL, path, what, "Nothing needs to be done: the next writer removes it", is_damage=False)


def _strange_files(directory: str, names: list[str]) -> Iterator[Finding]:
    for name in sorted(names):
        path = f"{directory}/{name}"
        if SET_ASIDE in name or ".log.rest-" in name:
            yield Finding(
                FindingKind.FILE_SET_ASIDE,
                path,
                "a file that was set aside when the log was repaired",
                "Look whether it is needed, and remove it",
                is_damage=False,
            )
        elif name == SYNC_FAILED_NAME:
            yield Finding(
                FindingKind.TAIL,
                path,
                "a sync to the disk failed: what was written last may not be on the disk",
                "See what the kernel's log says of the disk; the next writer writes it again",
                is_damage=False,
            )
        elif name != PRODUCERS_NAME and ((match := _FILE_NAME.fullmatch(name)) is None or int(match[1]) > MAX_BASE_OFFSET):
            yield Finding(FindingKind.FILE_STRANGE, path, "a file that is no part of a log", "Move it elsewhere", is_damage=False)
