"""A segment's end, checked: its index against its seal, and the seal against the next segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headstream.log.segments.files import ReadFiles
from headstream.log.segments.layout import Seal, base_offsets
from headstream.log.system.findings import FindingKind, LogFinding

__all__ = ["MERGED", "REBUILD", "verify_seal"]

REBUILD: Final = "Run headstream verify --repair: it rebuilds the index where the messages prove it"
MERGED: Final = "the next segment is merged into this one, and not yet removed"
_RESTORE: Final = "Restore the missing segments' files from a copy; all other messages are readable"
_RESTORE_NEWEST: Final = (
    "Restore the files from a copy; without one, headstream verify --repair begins a segment behind what consumers have committed"
)


def verify_seal(
    directory: str, path: str, seal: Seal | None, end: tuple[int, int], next_base: int | None, files: ReadFiles
) -> Iterator[LogFinding]:
    """Yield the faults of the end of a segment that has, or should have, a seal.

    Args:
        directory: The partition's.
        path: The index's.
        seal: The seal, or None where it is missing.
        end: The offset and the byte position behind the last entry.
        next_base: The next segment's first offset, or None where this is the newest.
        files: Its file system.
    """
    if seal is None or seal.end_position != end[1]:
        until = next_base if seal is None else seal.until_offset
        what = f"the index ends at offset {end[0]}, byte {end[1]}: its last entries were cut off or are damaged"
        yield LogFinding(FindingKind.INDEX_SHORT, path, what, REBUILD, from_offset=end[0], until_offset=until)
    if seal is None:
        return
    begin = seal.until_offset
    if next_base is None:
        # A segment can have been begun since the names were listed, and be merged into another by now.
        if not any(base >= begin for base in base_offsets(files.list_names(directory) or [])):
            what = f"the newest segment's two files are missing: the messages from offset {begin} on"
            yield LogFinding(FindingKind.GAP, path, what, _RESTORE_NEWEST, from_offset=begin)
    elif begin < next_base:
        what = f"the next segment began at offset {begin}, and the next one on disk begins at {next_base}"
        yield LogFinding(FindingKind.GAP, path, what, _RESTORE, from_offset=begin, until_offset=next_base)
    elif begin > next_base:
        yield LogFinding(FindingKind.TAIL, path, MERGED, "Nothing needs to be done: the next writer removes it", is_damage=False)
