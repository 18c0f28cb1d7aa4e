"""Which segment a time is in, by the times of their first messages."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["find_later"]


def find_later(count: int, first_time_of: Callable[[int], int | None], timestamp_us: int) -> int:
    """Return the number of the first segment that begins at a time or later, `count` where there is none.

    Args:
        count: How many segments there are; their times never decrease.
        first_time_of: Returns the time of a segment's first message, microseconds since 1970 UTC, or None where compaction
            has left nothing of it, or it cannot be read: it counts as the next one then.
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
