"""Micro-batch limits: the maximum size and the minimum number of offsets. No I/O: callbacks return the sizes.

maxOffsetsPerTrigger   offsets of all partitions, distributed in proportion to their pending offsets
maxBytesPerTrigger     stored bytes, distributed likewise; a batch ends with a complete send and can exceed the limit by one send
minOffsetsPerTrigger   minimum number of pending offsets, until maxTriggerDelay has passed since the last batch
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from headstream.spark.source.offsets import TopicPartition

DEFAULT_DELAY_US: Final = 15 * 60 * 1_000_000
"""Default of maxTriggerDelay, as in Spark's Kafka source."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of a micro-batch's size.

    Args:
        max_delay_us: Maximum wait for min_offsets, microseconds.
    """

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_us: int = DEFAULT_DELAY_US


class Sizes(Protocol):
    """The sizes of a log, for admit_bytes()."""

    def size_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        """Return the approximate number of stored bytes of a partition's range."""
        ...

    def offset_after(self, partition: TopicPartition, from_offset: int, size_bytes: int) -> int:
        """Return the end of the last send that fits into a number of bytes, or the end of the first send if none fits."""
        ...


def count_pending(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the number of pending offsets of each partition that has any; a partition missing from `start` starts at 0."""
    counts = {partition: latest[partition] - start.get(partition, 0) for partition in sorted(latest)}
    return {partition: count for partition, count in counts.items() if count > 0}


def is_held_back(waiting: int, limits: BatchLimits, since_us: int | None, now_us: int) -> bool:
    """Return whether a micro-batch waits for more offsets.

    Args:
        since_us: Time at which the last batch was admitted; None before the first batch, which does not wait.
        now_us: Current time of the same clock.
    """
    if limits.min_offsets is None or waiting >= limits.min_offsets or since_us is None:
        return False
    return now_us - since_us < limits.max_delay_us


def admit(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """Return the end of a micro-batch of at most `limit` offsets, each partition in proportion to its pending offsets.

    Every partition with pending offsets gets at least one offset if the limit allows. If the limit is smaller than the number of
    partitions, different partitions get an offset in each batch.

    Args:
        start: Start of each partition; a missing partition starts at 0.
        latest: Current end of each partition. An end before its start (the log has lost messages) is returned unchanged.
        limit: Offsets, 1 or more; None: unlimited.
    """
    end = dict(latest)
    waiting = count_pending(start, latest)
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return end
    partitions = list(waiting)
    turn = sum(start.get(partition, 0) for partition in partitions) % len(partitions)
    shares = dict.fromkeys(partitions, 0)
    for partition in (partitions[turn:] + partitions[:turn])[:limit]:
        shares[partition] = 1
    rest, open_total = limit - sum(shares.values()), total - len(partitions)
    if rest > 0:
        exact = {partition: divmod((waiting[partition] - 1) * rest, open_total) for partition in partitions}
        for partition, (whole, _) in exact.items():
            shares[partition] += whole
        left = limit - sum(shares.values())
        for partition in sorted(partitions, key=lambda partition: -exact[partition][1])[:left]:
            shares[partition] += 1
    return end | {partition: start.get(partition, 0) + shares[partition] for partition in partitions}


def admit_bytes(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int, sizes: Sizes
) -> dict[TopicPartition, int]:
    """Return the end of a micro-batch of about `limit` bytes, each partition in proportion to its pending offsets.

    A batch ends with a complete send. If a partition's share is too small for its first send, the batch includes the send only if
    the partition is first in an order that rotates with every batch, or if the limit still allows the send.

    Args:
        start: Start of each partition; a missing partition starts at 0.
        latest: Current end of each partition.
        limit: Stored bytes, 1 or more.
    """
    end = dict(latest)
    partitions = list(count_pending(start, latest))
    begin = {partition: start.get(partition, 0) for partition in partitions}
    bytes_waiting = {partition: sizes.size_between(partition, begin[partition], latest[partition]) for partition in partitions}
    total = sum(bytes_waiting.values())
    if total <= limit:
        return end
    left = limit
    too_big = {}
    for partition in partitions:
        share = limit * bytes_waiting[partition] // total
        stop = min(sizes.offset_after(partition, begin[partition], share), latest[partition])
        size = sizes.size_between(partition, begin[partition], stop)
        if size > share:
            end[partition], too_big[partition] = begin[partition], (stop, size)
        else:
            end[partition] = stop
            left -= size
    turn = zlib.crc32(str(sum(begin.values())).encode()) % max(1, len(too_big))
    waiting = list(too_big)
    for number, partition in enumerate(waiting[turn:] + waiting[:turn]):
        stop, size = too_big[partition]
        if number == 0 or size <= left:
            end[partition] = stop
            left -= size
    return end
