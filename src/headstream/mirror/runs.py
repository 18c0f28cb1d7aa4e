"""OffsetRuns: a set of offsets as runs of consecutive ones: small where messages are copied in order."""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["OffsetRuns"]


class OffsetRuns:
    """A set of offsets."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, offset: int) -> None:
        """Add an offset."""
        index = bisect_right(self._begins, offset) - 1
        if index >= 0 and offset < self._ends[index]:
            return
        joins_left = index >= 0 and self._ends[index] == offset
        joins_right = index + 1 < len(self._begins) and self._begins[index + 1] == offset + 1
        if joins_left and joins_right:
            self._ends[index] = self._ends.pop(index + 1)
            del self._begins[index + 1]
        elif joins_left:
            self._ends[index] = offset + 1
        elif joins_right:
            self._begins[index + 1] = offset
        else:
            self._begins.insert(index + 1, offset)
            self._ends.insert(index + 1, offset + 1)

    @property
    def end(self) -> int:
        """One past the greatest offset; 0 without any."""
        return self._ends[-1] if self._ends else 0

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._begins, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def __len__(self) -> int:
        return len(self._begins)
