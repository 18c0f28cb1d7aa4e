"""Finds the segment of a time, by the times of the segments' first messages."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["find_later"]


def find_later(count: int, first_time_of: Callable[[int], int | None], timestamp_us: int) -> int:
    """Return the number of the first segment that begins at a time or later; `count` if there is none.

    Args:
        count: Number of segments; their times never decrease.
        first_time_of: Returns the time of a segment's first message, microseconds since 1970 UTC, or None if compaction has
            emptied it or it cannot be read: the next segment's time is used then.
        timestamp_us: The time.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        times = map(first_time_of, range(middle, count))
        first = next((time_us for time_us in times if time_us is not None), None)
        if first is not None and first < timestamp_us:
            low = middle + 1
        else:
            high = middle
    return low
