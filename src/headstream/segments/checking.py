"""Whether what is read of a segment is what was written: each send against the CRC-32C of its index entry.

Sends that a chunk holds whole are checked in the chunk. A send that is read in parts is read once as a whole for it,
and remembered. The checksum takes each state byte as 0, so that a writer may change states meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headstream.codec.batch.sends import check_sends, extend_crc32c, new_check
from headstream.errors import CorruptLogError, CorruptSendError
from headstream.segments.files import ReadFile
from headstream.segments.layout import IndexEntry

__all__ = ["SendChecks", "corrupt_offsets", "missing_offsets", "no_message", "said_offsets"]

_MAX_REMEMBERED: Final = 256
"""How many sends read in parts are remembered: more than readers go through one segment at a time."""

_PIECE_BYTES: Final = 256 << 10
"""How much is read before it is checked: what a processor's second cache still holds then, with what else it has to do."""

_AT_ONCE: Final = 1 << 20
"""How much of a send is read at once to check it."""


class SendChecks:
    """The checks of one segment's sends.

    Args:
        path: The path of its .log.
        base_offset: The segment's first offset.
    """

    __slots__ = ("_base_offset", "_path", "_whole")

    def __init__(self, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._path = path
        self._whole: dict[int, None] = {}

    def read_whole(self, file: ReadFile, position: int, buffer: memoryview, begin: int, rows: memoryview) -> tuple[int, int]:
        """Fill a buffer from a file, checking the sends in it piece by piece as they come.

        Args:
            file: The .log.
            position: The byte position in it that the buffer begins at.
            buffer: What is filled.
            begin: Where in the buffer the send of the first row begins.
            rows: The index entries of the sends from there on, as they lie in the index.

        Returns:
            How many bytes came, fewer than wanted only at the end of the file, and how many of the sends are whole.
        """
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
        """Return if a send is whole.

        Args:
            entry: Where it is.
            read: Returns so many bytes from a byte position on, or what there is of them.

        Raises:
            CorruptSendError: it is not.
        """
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
        """Return the error that says that a send is damaged.

        Args:
            entry: Where it is.
            there_until: The byte position up to which the file could be read.
        """
        is_cut = there_until < entry.end_position
        reason = f"the file ends at byte {there_until}" if is_cut else "its bytes are not those that were written"
        return corrupt_offsets(
            f"the send of {said_offsets(entry.first_offset, entry.end_offset)} is damaged: {reason}",
            f"{self._path}, bytes {entry.byte_position} to {entry.end_position - 1}",
            entry.first_offset,
            entry.end_offset,
        )


def said_offsets(from_offset: int, until_offset: int) -> str:
    """Return how a half-open range of offsets is called."""
    return f"offset {from_offset}" if until_offset == from_offset + 1 else f"offsets {from_offset} to {until_offset - 1}"


def corrupt_offsets(what: str, where: str, from_offset: int, until_offset: int) -> CorruptSendError:
    """Return the error of offsets that cannot be read, with what to do about it."""
    return CorruptSendError(
        what,
        where=where,
        advice="Restore the segment's files from a copy, headstream verify says all that is damaged; "
        f"to go on without these messages, read on from offset {until_offset}",
        from_offset=from_offset,
        until_offset=until_offset,
    )


def missing_offsets(directory: str, base_offset: int, from_offset: int, until_offset: int) -> CorruptSendError:
    """Return the error of offsets that a segment's index does not hold, though a later segment is there."""
    return corrupt_offsets(
        f"{said_offsets(from_offset, until_offset)} cannot be read: no index holds them, and later ones are there",
        f"{directory}, behind segment {base_offset}",
        from_offset,
        until_offset,
    )


def no_message(path: str, position: int) -> CorruptLogError:
    """Return the error of a byte position of a .log at which a message should begin and none does."""
    return CorruptLogError(
        f"there is no whole message at byte {position}",
        where=path,
        advice="The file was altered after it was written: restore it from a copy",
    )
