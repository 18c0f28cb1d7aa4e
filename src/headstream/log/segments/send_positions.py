"""Byte positions of messages within a send; the index contains the send's position, from which messages are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headstream.core.codec.batch.stored.scan import take_complete
from headstream.errors import CorruptLogError
from headstream.log.segments.layout import IndexEntry

_MAX_POSITIONS: Final = 64
"""Maximum number of remembered positions within sends: this number of readers can continue in a segment without a search."""

_SEARCH_BYTES: Final = 128 << 10
"""Bytes of a send read at once to find an offset in it; on average half of a send is searched."""

_GUESS_SPARE_BYTES: Final = 512
"""Bytes that are read in addition to the messages' size at the send's average length."""


class SendPositions:
    """Known positions of messages in one segment; `damaged` creates the error for a byte position without a complete message."""

    __slots__ = ("_damaged", "_known", "_last_offset", "_last_position", "_read")

    def __init__(self, read: Callable[[int, int], memoryview], damaged: Callable[[int], CorruptLogError]) -> None:
        self._read = read
        self._damaged = damaged
        self._known: dict[int, int] = {}
        self._last_offset = self._last_position = -1

    def forget(self) -> None:
        """Drop all positions, because the segment has a different .log."""
        self._known.clear()
        self._last_offset = self._last_position = -1

    def find(self, entry: IndexEntry, offset: int) -> int:
        """Return the byte position of an offset within a send."""
        if offset == entry.first_offset:
            return entry.byte_position
        position = self._known.get(offset)
        if position is not None:
            return position
        position, at = entry.byte_position, entry.first_offset
        if at <= self._last_offset <= offset:  # callers request offsets in order: earlier bytes are not read again
            position, at = self._last_position, self._last_offset
        while at < offset:
            chunk, reached = self._search(entry, position, offset - at)
            position, at = position + len(chunk), at + reached
        self.remember(offset, position)
        self._last_offset, self._last_position = offset, position
        return position

    def _search(self, entry: IndexEntry, position: int, count: int) -> tuple[memoryview, int]:
        """Return up to `count` messages of a send from a byte position on, and their number."""
        rest = entry.end_position - position
        guess = entry.size_bytes // entry.messages_count * count
        span = min(rest, _SEARCH_BYTES, guess + guess // 4 + _GUESS_SPARE_BYTES)
        while True:
            chunk = self._read(position, span)
            end, taken = take_complete(chunk, count, span)
            if taken:
                return chunk[:end], taken
            if span == rest:
                raise self._damaged(position)
            span = min(rest, span * 2)

    def remember(self, offset: int, position: int) -> None:
        """Store the position of an offset."""
        self._known[offset] = position
        if len(self._known) > _MAX_POSITIONS:
            del self._known[next(iter(self._known))]
