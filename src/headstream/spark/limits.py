"""Limits of a micro-batch: how much it takes at most, how much it waits for; pure, the log's sizes are asked for by calls.

maxOffsetsPerTrigger   offsets, over all partitions, each in proportion to what waits there
maxBytesPerTrigger     stored bytes, likewise; cut at the end of a send, so that a batch may pass it by one send
minOffsetsPerTrigger   offsets that are waited for, until maxTriggerDelay has passed since the last batch
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from headstream.spark.offsets import Place

__all__ = ["DEFAULT_DELAY_US", "Limits", "Sizes", "admit", "admit_bytes", "count_waiting", "is_held_back"]

DEFAULT_DELAY_US: Final = 15 * 60 * 1_000_000
"""How long minOffsetsPerTrigger waits where maxTriggerDelay says nothing: as long as Spark's Kafka source does."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What options say of a micro-batch's size.

    Args:
        max_offsets: Offsets at most, or None.
        max_bytes: Stored bytes at most, give or take a send, or None.
        min_offsets: Offsets that are waited for, or None.
        max_delay_us: How long they are waited for, microseconds.
    """

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_us: int = DEFAULT_DELAY_US


class Sizes(Protocol):
    """What admit_bytes() asks of a log."""

    def size_between(self, place: Place, from_offset: int, until_offset: int) -> int:
        """Return about how many stored bytes a range of a partition has."""
        ...

    def offset_after(self, place: Place, from_offset: int, size_bytes: int) -> int:
        """Return where the last send ends that is within so many bytes; the first one's end where none is."""
        ...


def count_waiting(start: Mapping[Place, int], latest: Mapping[Place, int]) -> dict[Place, int]:
    """Return how many offsets wait in each partition that has some, in the order of the partitions.

    Args:
        start: Where each partition begins; one that is missing begins at 0.
        latest: Where each partition ends now.
    """
    return {place: latest[place] - start.get(place, 0) for place in sorted(latest) if latest[place] > start.get(place, 0)}


def is_held_back(waiting: int, limits: Limits, since_us: int | None, now_us: int) -> bool:
    """Return whether a micro-batch waits for more.

    Args:
        waiting: Offsets that wait.
        limits: What is waited for.
        since_us: When the last batch was admitted; None is never: the first one does not wait.
        now_us: The time now, by the same clock.
    """
    if limits.min_offsets is None or waiting >= limits.min_offsets or since_us is None:
        return False
    return now_us - since_us < limits.max_delay_us


def admit(start: Mapping[Place, int], latest: Mapping[Place, int], limit: int | None) -> dict[Place, int]:
    """Return where a micro-batch ends that takes at most `limit` offsets, each partition in proportion to what waits there.

    Whatever waits in a partition moves on: with room for all, each gets at least one; with less room than partitions, the
    partitions take turns.

    Args:
        start: Where each partition begins; one that is missing begins at 0.
        latest: Where each partition ends now. One that ends before its start (its log has lost messages) goes back.
        limit: Offsets, 1 or more; None is no limit.
    """
    end = dict(latest)
    waiting = count_waiting(start, latest)
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return end
    places = list(waiting)
    turn = sum(start.get(place, 0) for place in places) % len(places)
    shares = dict.fromkeys(places, 0)
    for place in (places[turn:] + places[:turn])[:limit]:
        shares[place] = 1
    rest, open_total = limit - sum(shares.values()), total - len(places)
    if rest > 0:
        exact = {place: divmod((waiting[place] - 1) * rest, open_total) for place in places}
        for place, (whole, _) in exact.items():
            shares[place] += whole
        left = limit - sum(shares.values())
        for place in sorted(places, key=lambda place: -exact[place][1])[:left]:
            shares[place] += 1
    return end | {place: start.get(place, 0) + shares[place] for place in places}


def admit_bytes(start: Mapping[Place, int], latest: Mapping[Place, int], limit: int, sizes: Sizes) -> dict[Place, int]:
    """Return where a micro-batch ends that takes about `limit` bytes, each partition in proportion to what waits there.

    A batch ends with whole sends. Of the partitions whose share is too small for their first send, the one whose turn it is
    takes it all the same, and others while there is room left; whose turn it is changes with every batch, in no order that
    could favour one.

    Args:
        start: Where each partition begins; one that is missing begins at 0.
        latest: Where each partition ends now.
        limit: Stored bytes, 1 or more.
        sizes: What the log knows.
    """
    end = dict(latest)
    places = list(count_waiting(start, latest))
    begin = {place: start.get(place, 0) for place in places}
    bytes_waiting = {place: sizes.size_between(place, begin[place], latest[place]) for place in places}
    total = sum(bytes_waiting.values())
    if total <= limit:
        return end
    left = limit
    too_big = {}
    for place in places:
        share = limit * bytes_waiting[place] // total
        stop = min(sizes.offset_after(place, begin[place], share), latest[place])
        size = sizes.size_between(place, begin[place], stop)
        if size > share:
            end[place], too_big[place] = begin[place], (stop, size)
        else:
            end[place] = stop
            left -= size
    turn = zlib.crc32(str(sum(begin.values())).encode()) % max(1, len(too_big))
    waiting = list(too_big)
    for number, place in enumerate(waiting[turn:] + waiting[:turn]):
        stop, size = too_big[place]
        if number == 0 or size <= left:
            end[place] = stop
            left -= size
    return end
