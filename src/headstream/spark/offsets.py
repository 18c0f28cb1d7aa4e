"""Pure planning: offsets, ranges and limits -> what each task reads. No I/O, no clock, no Spark.

A streaming query's checkpoint holds offsets as JSON that a person can read and mend; `identity` tells when a log or a
topic of that name was deleted and made again, so that its old offsets mean nothing:

    {"shop/orders": {"1": 123, "2": 118},                          where to read on: one past the last one read
     "identity": {"log": "3b1f...", "shop/orders": "1/4"}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.errors import InvalidOptionError, LogError, OffsetOutOfRangeError

__all__ = [
    "EARLIEST",
    "LARGE_RANGE",
    "LATEST",
    "SMALL_RANGE",
    "Available",
    "OffsetRange",
    "Offsets",
    "Place",
    "StartingPoint",
    "Task",
    "admit",
    "plan_ranges",
    "plan_tasks",
    "resolve",
]

SMALL_RANGE: Final = 10_000
"""Messages that are not worth a task of their own: they fit one Arrow batch."""
LARGE_RANGE: Final = 500_000
"""Messages that one task reads at most: about half a second's work, so that one big partition keeps every core busy."""

EARLIEST: Final = -2
LATEST: Final = -1
"""What stands for the first offset that is there, and for one past the last, in offsets by partition."""

_IDENTITY: Final = "identity"  # not a topic: it has no slash


class Place(NamedTuple):
    """A partition of a topic.

    Args:
        topic: `stream/topic`.
        partition: Its number.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}"


class Available(NamedTuple):
    """What a partition holds: offsets from the first to before the end."""

    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Messages of one partition, half-open."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def count(self) -> int:
        """How many offsets it spans."""
        return self.until_offset - self.from_offset

    @property
    def place(self) -> Place:
        """The partition."""
        return Place(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.place}, offsets {self.from_offset} to {self.until_offset}"


Task: TypeAlias = tuple[OffsetRange, ...]
"""What one Spark task reads, in this order."""
StartingPoint: TypeAlias = Literal["earliest", "latest"] | Mapping[Place, int]
"""An option's meaning; in the mapping -2 is the earliest and -1 the latest."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far each partition has been read.

    Args:
        positions: One past the last offset read.
        log: The log's identity.
        topics: Topic -> what tells it from an earlier one of the same name.
    """

    positions: Mapping[Place, int]
    log: str
    topics: Mapping[str, str]

    def encode(self) -> dict[str, Any]:
        """Return it as JSON's values; equal offsets give equal text, member by member."""
        value: dict[str, Any] = {}
        for place in sorted(self.positions):
            value.setdefault(place.topic, {})[str(place.partition)] = self.positions[place]
        value[_IDENTITY] = {"log": self.log, **{topic: self.topics[topic] for topic in sorted(self.topics)}}
        return value

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> Offsets:
        """Return what encode() has written, or a person has mended.

        Raises:
            InvalidOptionError: it is not of that form.
        """
        try:
            identity = dict(value[_IDENTITY])
            log = str(identity.pop("log"))
            positions = {
                Place(topic, int(number)): int(position)
                for topic, partitions in value.items()
                if topic != _IDENTITY
                for number, position in partitions.items()
            }
        except (KeyError, ValueError, TypeError, AttributeError):
            raise InvalidOptionError(
                f"the checkpoint's offsets cannot be read: {value}",
                advice='They look like {"shop/orders": {"1": 123}, "identity": {"log": "...", "shop/orders": "1/1"}}',
            ) from None
        return cls(positions, log, {topic: str(number) for topic, number in identity.items()})

    def check_same_log(self, now: Offsets) -> None:
        """Check that what these offsets were counted in is what is there now.

        Args:
            now: The offsets as they would be written now.

        Raises:
            LogError: the log, or a topic, has been deleted and made again since.
        """
        changed = [topic for topic, number in self.topics.items() if now.topics.get(topic, number) != number]
        if self.log == now.log and not changed:
            return
        what = "the log" if self.log != now.log else f"topic {changed[0]}"
        raise LogError(
            f"{what} has been deleted and made again since this query last read it; its offsets now count other messages",
            where=f"log {now.log}, was {self.log}",
            advice="Start the query with a new checkpointLocation; it then reads from startingOffsets",
        )


def resolve(point: StartingPoint, available: Mapping[Place, Available], option: str) -> dict[Place, int]:
    """Return the offset that an option means in each partition.

    Args:
        point: The option.
        available: What each partition holds now.
        option: The option's name, for errors.

    Raises:
        InvalidOptionError: the option leaves a partition out, or names one that is not there.
    """
    if isinstance(point, str):
        return {place: holds.first_offset if point == "earliest" else holds.end_offset for place, holds in available.items()}
    for place in point:
        if place not in available:
            raise InvalidOptionError(
                f"{option} names {place}, which is not read or does not exist",
                advice=f"Partitions that are read: {', '.join(map(str, sorted(available)))}",
            )
    missing = [str(place) for place in sorted(available) if place not in point]
    if missing:
        raise InvalidOptionError(
            f"{option} leaves out {', '.join(missing)}",
            advice="Name every partition; -2 is its earliest, -1 its latest offset",
        )
    meaning = {EARLIEST: 0, LATEST: 1}
    return {place: holds[meaning[value]] if (value := point[place]) < 0 else value for place, holds in available.items()}


def plan_ranges(
    start: Mapping[Place, int], end: Mapping[Place, int], available: Mapping[Place, Available], *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """Return the ranges that lie between two offsets, in order, without empty ones.

    A partition that `start` does not know begins at 0: it came while the query ran, and nothing of it has been read.

    Args:
        start: Where each partition begins.
        end: Where each partition ends; only these are read.
        available: What each partition holds now.
        fail_on_data_loss: Whether offsets that are not there (any more) are an error, or passed over.

    Raises:
        OffsetOutOfRangeError: they are, and it is.
    """
    found = []
    for place in sorted(end):
        wanted = OffsetRange(*place, start.get(place, 0), end[place])
        if wanted.count == 0:
            continue
        first, last = available.get(place, Available(0, 0))
        if fail_on_data_loss and (wanted.from_offset < first or max(wanted.from_offset, wanted.until_offset) > last):
            there = f"{first} to {last} are there" if place in available else "this partition is not read any more"
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


def admit(start: Mapping[Place, int], latest: Mapping[Place, int], limit: int | None) -> dict[Place, int]:
    """Return where a micro-batch ends that takes at most `limit` messages, each partition in proportion to what waits there.

    Whatever waits in a partition moves on: with room for all, each gets at least one; with less room than partitions, the
    partitions take turns.

    Args:
        start: Where each partition begins; one that is missing begins at 0.
        latest: Where each partition ends now. One that ends before its start (its log has lost messages) goes back.
        limit: Messages, 1 or more; None is no limit.
    """
    end = dict(latest)
    waiting = {place: latest[place] - start.get(place, 0) for place in sorted(latest) if latest[place] > start.get(place, 0)}
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


def plan_tasks(ranges: Sequence[OffsetRange], min_partitions: int | None = None) -> list[Task]:
    """Return what each task reads: big ranges split, small ones put together.

    Args:
        ranges: What is to be read, in order.
        min_partitions: How many tasks there are at least, as far as there are messages for them; None is as few as are good.
    """
    total = sum(part.count for part in ranges)
    if not total:
        return []
    if min_partitions is None:
        pieces = [piece for part in ranges for piece in _split(part, -(-part.count // LARGE_RANGE))]
        return _coalesce(pieces, SMALL_RANGE)
    # The biggest size that gives enough tasks; what is smaller is put together only as far as enough remain.
    size = min(LARGE_RANGE, max(1, total // min_partitions))
    pieces = [piece for part in ranges for piece in _split(part, -(-part.count // size))]
    tasks = _coalesce(pieces, min(SMALL_RANGE, size))
    return tasks if len(tasks) >= min_partitions else [(piece,) for piece in pieces]


def _split(part: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Return a range in so many pieces of the same size, give or take one."""
    edges = [part.from_offset + part.count * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(*part.place, edges[number], edges[number + 1]) for number in range(pieces)]


def _coalesce(pieces: Iterable[OffsetRange], size: int) -> list[Task]:
    """Return neighbours put together as long as they have at most `size` messages between them."""
    tasks: list[list[OffsetRange]] = []
    room = 0
    for piece in pieces:
        if tasks and piece.count <= room:
            tasks[-1].append(piece)
            room -= piece.count
        else:
            tasks.append([piece])
            room = size - piece.count
    return [tuple(task) for task in tasks]
