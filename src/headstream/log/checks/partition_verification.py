"""Checks the files of one partition against each other; findings name the damaged send.

    index head       its checksum, version, base offset
    index entries    the checksum of each entry; each starts where the previous ends, in bytes and offsets; times never decrease
    compacted        like index entries, but offsets can be missing between entries and after the last entry
    messages         each send's CRC-32C, count, offsets, time; each payload's CRC-32; each state is known
    segments         each starts where the previous segment ends

Only committed bytes are checked, so that a writer can continue: a file's size is read before the index, and the bytes after the
last complete entry are at most one unacknowledged send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from headstream.log.checks.segment_verification import SegmentCheck
from headstream.log.segments.files import BufferPool, ReadFiles
from headstream.log.segments.layout import (
    MAX_BASE_OFFSET,
    PRODUCERS_NAME,
    SUMMARY_SUFFIX,
    SYNC_FAILED_NAME,
    base_offsets,
    log_offsets,
    log_suffix,
    segment_path,
)
from headstream.log.segments.summaries import is_whole_summary, read_content
from headstream.log.system.findings import QUARANTINE_MARK, FindingKind, LogFinding

_FILE_NAME: Final = re.compile(r"(\d{20})(?:(-\d+)?\.log|\.(index|index-new|log\.dropped|start|summary(?:\.new)?))")


def verify_partition(
    directory: str, files: ReadFiles, buffers: BufferPool, on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[LogFinding]:
    """Yield the faults of a partition's segments; `on_bytes` is called with the number of bytes checked since the last call."""
    names = files.list_names(directory)
    if names is None:
        return
    yield from _unknown_files(directory, names)
    generations = dict(log_offsets(names))
    bases = sorted({*base_offsets(names), *generations})
    for number, base in enumerate(bases):
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        check = SegmentCheck(directory, base, generations.get(base, 0), next_base, files, buffers, on_bytes)
        yield from check.run()
        yield from _damaged_summary(directory, base, files)
        yield from _superfluous_logs(directory, base, check.generation, names)


def _damaged_summary(directory: str, base: int, files: ReadFiles) -> Iterator[LogFinding]:
    path = segment_path(directory, base, SUMMARY_SUFFIX)
    content = read_content(path, files)
    if content is not None and not is_whole_summary(content):
        what = "the segment's header summary is damaged, so filters read the whole segment"
        yield LogFinding(FindingKind.TAIL, path, what, "No action is required: the writer replaces the summary", is_damage=False)


def _superfluous_logs(directory: str, base: int, named: int | None, names: list[str]) -> Iterator[LogFinding]:
    """Yield the .log files of a segment that the segment's index does not name."""
    for other, generation in log_offsets(names):
        if other == base and named not in (None, generation):
            path = segment_path(directory, base, log_suffix(generation))
            what = "a file of an interrupted or running compaction"
            yield LogFinding(
                FindingKind.TAIL, path, what, "No action is required: the next writer removes the file", is_damage=False
            )


def _unknown_files(directory: str, names: list[str]) -> Iterator[LogFinding]:
    for name in sorted(names):
        path = f"{directory}/{name}"
        if QUARANTINE_MARK in name or ".log.rest-" in name:
            yield LogFinding(
                FindingKind.FILE_SET_ASIDE,
                path,
                "a file that was renamed when the log was repaired",
                "Remove the file when you no longer need it",
                is_damage=False,
            )
        elif name == SYNC_FAILED_NAME:
            yield LogFinding(
                FindingKind.TAIL,
                path,
                "a sync to the disk failed: the last writes may be missing from the disk",
                "Check the kernel's log for disk errors; the next writer writes the data again",
                is_damage=False,
            )
        elif name != PRODUCERS_NAME and ((match := _FILE_NAME.fullmatch(name)) is None or int(match[1]) > MAX_BASE_OFFSET):
            yield LogFinding(
                FindingKind.FILE_UNKNOWN,
                path,
                "a file that is not part of a log",
                "Move the file out of the log",
                is_damage=False,
            )
