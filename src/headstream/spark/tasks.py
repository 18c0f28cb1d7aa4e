"""Tasks: ranges between two offsets -> what each Spark task reads; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from headstream.errors import OffsetOutOfRangeError
from headstream.spark.offsets import Available, OffsetRange, Place

__all__ = ["LARGE_COST", "MESSAGE_BYTES", "SMALL_COST", "Task", "plan_ranges", "plan_tasks"]

MESSAGE_BYTES: Final = 512
"""Bytes that cost about as much to read as a message: cost is counted in messages, or in this many bytes."""
SMALL_COST: Final = 10_000
"""What is not worth a task of its own: it fits one Arrow batch."""
LARGE_COST: Final = 500_000
"""What one task reads at most: about half a second's work, so that one big partition keeps every core busy."""

Task: TypeAlias = tuple[OffsetRange, ...]
"""What one Spark task reads, in this order."""


def plan_ranges(
    start: Mapping[Place, int],
    end: Mapping[Place, int],
    available: Mapping[Place, Available],
    *,
    fail_on_data_loss: bool,
    is_read: Callable[[Place], bool] = lambda place: True,
) -> list[OffsetRange]:
    """Return the ranges that lie between two offsets, in order, without empty ones.

    A partition that `start` does not know begins at 0: it came while the query ran, and nothing of it has been read.

    Args:
        start: Where each partition begins.
        end: Where each partition ends; only these are read.
        available: What each partition holds now.
        fail_on_data_loss: Whether offsets that are not there (any more) are an error, or passed over.
        is_read: Whether a partition is still subscribed to: one that is and has no end was deleted.

    Raises:
        OffsetOutOfRangeError: they are, and it is.
    """
    vanished = [place for place in sorted(start) if place not in end and is_read(place)]
    if vanished and fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"a partition that was read up to offset {start[vanished[0]]} has been deleted, with what was not read of it",
            where=", ".join(map(str, vanished)),
            advice="failOnDataLoss=false goes on without it",
        )
    found = []
    for place in sorted(end):
        wanted = OffsetRange(*place, start.get(place, 0), end[place])
        if wanted.count == 0:
            continue
        first, last = available.get(place, Available(0, 0))
        if fail_on_data_loss and (wanted.from_offset < first or max(wanted.from_offset, wanted.until_offset) > last):
            there = f"{first} to {last} are there" if place in available else "this partition is not there any more"
            raise OffsetOutOfRangeError(
                f"offsets {wanted.from_offset} to {wanted.until_offset} were to be read, {there}",
                where=str(place),
                advice="Older ones have been dropped, later ones were never written or are lost; "
                "failOnDataLoss=false reads what is there",
            )
        part = OffsetRange(*place, max(wanted.from_offset, first), min(wanted.until_offset, last))
        if part.count > 0:
            found.append(part)
    return found


def plan_tasks(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None = None,
    size_of: Callable[[OffsetRange], int] = lambda part: 0,
) -> list[Task]:
    """Return what each task reads: big ranges split, small ones put together.

    Args:
        ranges: What is to be read, in order.
        min_partitions: How many tasks there are at least, as far as there are offsets for them; None is as few as are good.
        size_of: About how many stored bytes a range has: big messages make smaller tasks.
    """
    costs = {part: max(part.count, size_of(part) // MESSAGE_BYTES) for part in ranges}
    if not costs:
        return []
    if min_partitions is None:
        return _coalesce(_split_all(costs, LARGE_COST), SMALL_COST)
    # The biggest size that gives enough tasks; what is smaller is put together only as far as enough remain.
    enough = min(min_partitions, sum(part.count for part in ranges))
    size = min(LARGE_COST, max(1, sum(costs.values()) // min_partitions))
    pieces = _split_all(costs, size)
    if len(pieces) < enough:  # few big messages have taken all the cost: divide by number
        size = min(LARGE_COST, max(1, sum(part.count for part in ranges) // min_partitions))
        pieces = _split_all({part: part.count for part in ranges}, size)
    tasks = _coalesce(pieces, min(SMALL_COST, size))
    return tasks if len(tasks) >= min_partitions else [(piece,) for piece, _ in pieces]


def _split_all(costs: Mapping[OffsetRange, int], size: int) -> list[tuple[OffsetRange, int]]:
    """Return all ranges in pieces of at most this cost, as far as their offsets can be divided, each with its cost."""
    return [
        (piece, -(-cost * piece.count // part.count))
        for part, cost in costs.items()
        for piece in _split(part, min(part.count, -(-cost // size)))
    ]


def _split(part: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Return a range in so many pieces of the same size, give or take one."""
    edges = [part.from_offset + part.count * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(*part.place, edges[number], edges[number + 1]) for number in range(pieces)]


def _coalesce(pieces: Iterable[tuple[OffsetRange, int]], size: int) -> list[Task]:
    """Return neighbours put together as long as they cost at most `size` between them."""
    tasks: list[list[OffsetRange]] = []
    room = 0
    for piece, cost in pieces:
        if tasks and cost <= room:
            tasks[-1].append(piece)
            room -= cost
        else:
            tasks.append([piece])
            room = size - cost
    return [tuple(task) for task in tasks]
