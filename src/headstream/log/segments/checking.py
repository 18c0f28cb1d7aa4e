"""Compares each send read from a segment with the CRC-32C of its index entry.

Sends that are completely in a chunk are checked in the chunk. A send that is read in parts is first read completely and checked,
and the result is stored. The checksum treats each state byte as 0, so that a writer can change states meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headstream.core.codec.batch.stored.sends import check_sends, extend_crc32c, new_check
from headstream.errors import CorruptLogError, CorruptSendError
from headstream.log.segments.files import ReadFile
from headstream.log.segments.layout import IndexEntry

_MAX_REMEMBERED: Final = 256
"""Maximum number of remembered sends that are read in parts; more than the concurrent readers of a segment."""

_PIECE_BYTES: Final = 256 << 10
"""Bytes read before they are checked: they still fit in the processor's second-level cache."""

_AT_ONCE: Final = 1 << 20
"""Bytes of a send read at once to check it."""


class SendChecks:
    """The checks of one segment's sends."""

    __slots__ = ("_base_offset", "_path", "_whole")

    def __init__(self, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._path = path
        self._whole: dict[int, None] = {}

    def read_whole(self, file: ReadFile, position: int, buffer: memoryview, begin: int, rows: memoryview) -> tuple[int, int]:
        """Fill a buffer from a byte position of a file and check its sends against their index entries (`rows`; the first send is
        at buffer position `begin`). Return the number of bytes read (fewer only at the end of the file) and of undamaged
        sends."""
        notes, done, whole = new_check(), 0, 0
        while done < len(buffer):
            span = min(_PIECE_BYTES, len(buffer) - done)
            got = file.read_into(buffer[done : done + span], position + done)
            done += got
            if done > begin:
                whole = check_sends(buffer[begin:done], rows, self._base_offset, notes=notes)
            if got < span:
                break
        return done, whole

    def check(self, entry: IndexEntry, read: Callable[[int, int], memoryview]) -> None:
        """Raise CorruptSendError if a send is damaged; `read` is called with a byte position and a maximum size."""
        if entry.byte_position in self._whole:
            return
        position, value, span = entry.byte_position, 0, _AT_ONCE
        while position < entry.end_position:
            rest = entry.end_position - position
            chunk = read(position, min(span, rest))
            end, value = extend_crc32c(chunk, value)
            if end == 0:
                if len(chunk) < min(span, rest) or span >= rest:
                    raise self.corrupt(entry, position + len(chunk))
                span *= 2
            position += end
        if value != entry.crc32c:
            raise self.corrupt(entry, position)
        self._whole[entry.byte_position] = None
        if len(self._whole) > _MAX_REMEMBERED:
            del self._whole[next(iter(self._whole))]

    def corrupt(self, entry: IndexEntry, there_until: int) -> CorruptSendError:
        """Return the error for a damaged send in a file that could be read up to a byte position."""
        is_cut = there_until < entry.end_position
        reason = f"the file ends at byte {there_until}" if is_cut else "the checksum does not match"
        return corrupt_offsets(
            f"the send of {describe_offsets(entry.first_offset, entry.end_offset)} is damaged: {reason}",
            f"{self._path}, bytes {entry.byte_position} to {entry.end_position - 1}",
            entry.first_offset,
            entry.end_offset,
        )


def describe_offsets(from_offset: int, until_offset: int) -> str:
    """Return a half-open range of offsets as a string."""
    return f"offset {from_offset}" if until_offset == from_offset + 1 else f"offsets {from_offset} to {until_offset - 1}"


def corrupt_offsets(what: str, where: str, from_offset: int, until_offset: int) -> CorruptSendError:
    """Return the error for unreadable offsets, with advice."""
    return CorruptSendError(
        what,
        where=where,
        advice="Restore the segment's files from a copy (headstream verify lists all damage), or "
        f"read from offset {until_offset} to continue without these messages",
        from_offset=from_offset,
        until_offset=until_offset,
    )


def missing_offsets(directory: str, base_offset: int, from_offset: int, until_offset: int) -> CorruptSendError:
    """Return the error for offsets that no index contains although later segments exist."""
    return corrupt_offsets(
        f"{describe_offsets(from_offset, until_offset)} cannot be read: no index contains them, but later offsets exist",
        f"{directory}, after segment {base_offset}",
        from_offset,
        until_offset,
    )


def no_message(path: str, position: int) -> CorruptLogError:
    """Return the error for a byte position in a .log at which no complete message starts."""
    return CorruptLogError(
        f"there is no complete message at byte {position}",
        where=path,
        advice="The file was altered after it was written: restore it from a copy",
    )


def unreadable_segment(error: CorruptLogError, from_offset: int, until_offset: int) -> CorruptSendError:
    """Return the error for a segment that is completely unreadable."""
    return CorruptSendError(
        error.what, where=error.where, advice=error.advice, from_offset=from_offset, until_offset=until_offset
    )
