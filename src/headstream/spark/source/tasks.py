"""Plans the ranges between two offsets as Spark tasks, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from headstream.errors import OffsetOutOfRangeError
from headstream.spark.source.offsets import Available, OffsetRange, TopicPartition

MESSAGE_BYTES: Final = 512
"""Number of bytes that cost about as much to read as one message. The unit of cost is one message or this many bytes."""
SMALL_COST: Final = 10_000
"""Cost below which a range does not get its own task, because the range fits one Arrow batch."""
LARGE_COST: Final = 500_000
"""Maximum cost of a task, about half a second, so that one large partition is read by all cores."""

Task: TypeAlias = tuple[OffsetRange, ...]
"""The ranges of one Spark task, in reading order."""


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    available: Mapping[TopicPartition, Available],
    *,
    fail_on_data_loss: bool,
    is_read: Callable[[TopicPartition], bool] = lambda partition: True,
    on_loss: Callable[[OffsetRange, int, str], None] = lambda wanted, count, there: None,
) -> list[OffsetRange]:
    """Return the ranges that lie between two offsets, in order, without empty ranges.

    A partition that is not in `start` begins at 0, because it was created while the query was running.

    Args:
        end: End of each partition; only these partitions are read.
        available: The current offsets of each partition.
        is_read: Returns whether a partition is still subscribed to; a subscribed partition that is not in `end` was deleted.
        on_loss: Called with a range, the number of its skipped offsets, and a description of the existing range.

    Raises:
        OffsetOutOfRangeError: offsets are missing, and `fail_on_data_loss` is set.
    """
    vanished = [partition for partition in sorted(start) if partition not in end and is_read(partition)]
    if vanished and fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"a partition that was read up to offset {start[vanished[0]]} was deleted, with its unread messages",
            where=", ".join(map(str, vanished)),
            advice="Set failOnDataLoss=false to continue without the partition",
        )
    found = []
    for partition in sorted(end):
        wanted = OffsetRange(*partition, start.get(partition, 0), end[partition])
        if wanted.count == 0:
            continue
        first, last = available.get(partition, Available(0, 0))
        is_missing = wanted.from_offset < first or max(wanted.from_offset, wanted.until_offset) > last
        there = f"only {first} to {last} exist" if partition in available else "this partition no longer exists"
        if is_missing and fail_on_data_loss:
            raise OffsetOutOfRangeError(
                f"offsets {wanted.from_offset} to {wanted.until_offset} cannot all be read: {there}",
                where=str(partition),
                advice="Older messages were removed by retention or DeleteRecords; later offsets were never written or are lost. "
                "Set failOnDataLoss=false to read the existing messages",
            )
        part = OffsetRange(*partition, max(wanted.from_offset, first), min(wanted.until_offset, last))
        if is_missing:
            on_loss(wanted, max(wanted.count, 0) - max(part.count, 0), there)
        if part.count > 0:
            found.append(part)
    return found


def plan_tasks(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None = None,
    size_of: Callable[[OffsetRange], int] = lambda part: 0,
) -> list[Task]:
    """Return the tasks: large ranges are split, and small ranges are combined.

    Args:
        min_partitions: Minimum number of tasks, if there are enough offsets; None: the fewest tasks that use all cores.
        size_of: Returns the approximate number of stored bytes of a range; tasks with large messages get fewer messages.
    """
    costs = {part: max(part.count, size_of(part) // MESSAGE_BYTES) for part in ranges}
    if not costs:
        return []
    if min_partitions is None:
        return _coalesce(_split_all(costs, LARGE_COST), SMALL_COST)
    # The largest piece size that yields enough tasks; small pieces are combined only if enough tasks remain.
    enough = min(min_partitions, sum(part.count for part in ranges))
    size = min(LARGE_COST, max(1, sum(costs.values()) // min_partitions))
    pieces = _split_all(costs, size)
    if len(pieces) < enough:  # a few large messages dominate the cost: divide by number
        size = min(LARGE_COST, max(1, sum(part.count for part in ranges) // min_partitions))
        pieces = _split_all({part: part.count for part in ranges}, size)
    tasks = _coalesce(pieces, min(SMALL_COST, size))
    return tasks if len(tasks) >= min_partitions else [(piece,) for piece, _ in pieces]


def _split_all(costs: Mapping[OffsetRange, int], size: int) -> list[tuple[OffsetRange, int]]:
    """Return all ranges, split into pieces of at most cost `size` where possible, with the cost of each piece."""
    return [
        (piece, -(-cost * piece.count // part.count))
        for part, cost in costs.items()
        for piece in _split(part, min(part.count, -(-cost // size)))
    ]


def _split(part: OffsetRange, pieces: int) -> list[OffsetRange]:
    edges = [part.from_offset + part.count * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(*part.topic_partition, edges[number], edges[number + 1]) for number in range(pieces)]


def _coalesce(pieces: Iterable[tuple[OffsetRange, int]], size: int) -> list[Task]:
    """Return tasks of adjacent pieces, combined up to a cost of `size`."""
    tasks: list[list[OffsetRange]] = []
    spare = 0
    for piece, cost in pieces:
        if tasks and cost <= spare:
            tasks[-1].append(piece)
            spare -= cost
        else:
            tasks.append([piece])
            spare = size - cost
    return [tuple(task) for task in tasks]
