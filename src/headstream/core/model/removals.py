"""Removal: the result of removing messages that were marked for deletion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removal:
    """Result of removing marked messages of a partition; `left_count` segment groups are still to be examined."""

    removed_count: int = 0
    removed_bytes: int = 0
    rewritten_count: int = 0
    left_count: int = 0

    def __add__(self, other: Removal) -> Removal:
        """Return the sum of two successive removals."""
        return Removal(
            self.removed_count + other.removed_count,
            self.removed_bytes + other.removed_bytes,
            self.rewritten_count + other.rewritten_count,
            other.left_count,
        )
