"""Where messages are inside of a send: the index knows where the send begins, and its messages are counted from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headstream.codec.batch.scan import take_whole
from headstream.errors import CorruptLogError
from headstream.segments.layout import IndexEntry

__all__ = ["SendPlaces"]

_MAX_PLACES: Final = 64
"""How many places inside sends are remembered: as many readers as can go through one segment without searching."""

_SEARCH_BYTES: Final = 128 << 10
"""How much of a send is read at once to find an offset in it: on the average, half of a send is."""


class SendPlaces:
    """The places of one segment.

    Args:
        read: Returns so many bytes from a byte position on.
        damaged: Returns the error that says that there is no whole message at a byte position.
    """

    __slots__ = ("_damaged", "_known", "_read")

    def __init__(self, read: Callable[[int, int], memoryview], damaged: Callable[[int], CorruptLogError]) -> None:
        self._read = read
        self._damaged = damaged
        self._known: dict[int, int] = {}

    def forget(self) -> None:
        """Forget all: the segment has another .log by now."""
        self._known.clear()

    def find(self, entry: IndexEntry, offset: int) -> int:
        """Return the byte position of an offset within a send."""
        if offset == entry.first_offset:
            return entry.byte_position
        position = self._known.get(offset)
        if position is not None:
            return position
        position, at = entry.byte_position, entry.first_offset
        while at < offset:
            chunk, reached = self._search(entry, position, offset - at)
            position, at = position + len(chunk), at + reached
        self.remember(offset, position)
        return position

    def _search(self, entry: IndexEntry, position: int, count: int) -> tuple[memoryview, int]:
        """Return up to so many messages of a send from a byte position on, and how many they are."""
        rest = entry.end_position - position
        span = min(rest, _SEARCH_BYTES)
        while True:
            chunk = self._read(position, span)
            end, taken = take_whole(chunk, count, span)
            if taken:
                return chunk[:end], taken
            if span == rest:
                raise self._damaged(position)
            span = min(rest, span * 2)

    def remember(self, offset: int, position: int) -> None:
        """Remember where an offset is."""
        self._known[offset] = position
        if len(self._known) > _MAX_PLACES:
            del self._known[next(iter(self._known))]
