"""Histories delivered to a pipeline: partitions read at unequal speed, micro-batches cut anywhere, kills and repeats."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.tables.tables import table_path
from tests.support.replicate.load_histories import LOAD_GAP_US, History, LogMessage
from tests.support.replicate.pipeline_work import Work

TOPIC = "cdc/data"
_MOST_SWEEPS = 50
"""After the last message: each gives back what waits, and a table that fails is tried again in each."""

Part = list[LogMessage]


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to read a log: its micro-batches, and how they were drawn."""

    style: str
    batches: list[Part]


def cut_history(history: History, seed: int, *, style: str | None = None) -> Cut:
    """Return the micro-batches of one way to read a history's log.

    Styles: everything at once; all partitions up to the same time; one partition to its end before the others; any speeds.
    Within a partition the order is the log's. The style is drawn where it is not given, but not the first one.
    """
    random = Random(seed)
    parts = [part for part in history.partitions if part]
    style = style or random.choice(["even", "ahead", "random", "random", "random"])
    if style == "once":
        return Cut(style, [_interleave(parts, random)])
    if style == "even":
        times = sorted(message.logged_us for part in parts for message in part)
        cuts = sorted(random.sample(times, min(len(times), random.randint(1, 8))))
        bounds = [-1, *cuts, times[-1]]
        spans = itertools.pairwise(bounds)
        return Cut(
            style,
            [_interleave([[m for m in part if low < m.logged_us <= high] for part in parts], random) for low, high in spans],
        )
    batches = []
    places = [0] * len(parts)
    if style == "ahead":
        first = random.randrange(len(parts))
        batches = [[*batch] for batch in _pieces(parts[first], random)]
        places[first] = len(parts[first])
    while any(place < len(part) for place, part in zip(places, parts, strict=True)):
        taken = []
        for number, part in enumerate(parts):
            count = random.choice([0, 0, 1, 3, 10, 30, len(part)])
            taken.append(part[places[number] : places[number] + count])
            places[number] += len(taken[-1])
        batches.append(_interleave(taken, random))
    return Cut(style, [batch for batch in batches if batch])


def _pieces(part: Part, random: Random) -> Iterator[Part]:
    place = 0
    while place < len(part):
        size = random.choice([1, 5, 20, len(part)])
        yield part[place : place + size]
        place += size


def _interleave(parts: Iterable[Part], random: Random) -> Part:
    left = [list(part) for part in parts if part]
    found = []
    while left:
        part = random.choice(left)
        found.append(part.pop(0))
        if not part:
            left.remove(part)
    return found


class HistoryWork(Work):
    """A pipeline's work on the messages of a history."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._read_until_us: dict[int, int] = {}
        super().__init__(directory, load_gap_us=LOAD_GAP_US, **options)

    def read_until_us(self, raw: pa.Table, batch_id: int) -> int:
        """The log time before which all partitions are read with a micro-batch."""
        return self._read_until_us[batch_id]

    def follow(self, cut: Cut) -> None:
        """Know how far each micro-batch of a cut reads the log."""
        unread = sorted((message.logged_us, number) for number, batch in enumerate(cut.batches) for message in batch)
        ends_us = unread[-1][0] + 1 if unread else 0
        places = range(len(cut.batches))
        self._read_until_us = {one: next((us for us, number in unread if number > one), ends_us) for one in places}

    def raw_of(self, messages: Part) -> pa.Table:
        """Messages as the pipeline gets them."""
        rows = [
            {"topic": TOPIC, "partition": one.partition, "offset": one.offset, "timestamp_us": one.logged_us}
            | {"key": one.key, "headers": None, "payload": one.value, "schema_id": None, "reason": None}
            for one in messages
        ]
        return pa.Table.from_pylist(rows, schema=RAW_SCHEMA)

    def table(self, name: str) -> list[dict[str, Any]]:
        """Every row of a table, bookkeeping included; none where the table is not there."""
        path = table_path(self.config.tables, "shop", name)
        if not DeltaTable.is_deltatable(str(path)):
            return []
        return self.rows("shop", name)

    def changes(self, name: str) -> list[dict[str, Any]]:
        """Every row of a change table; none where the table is not there."""
        assert self.config.change_tables is not None
        path = table_path(self.config.change_tables, "shop", name)
        return self.rows("shop", name, self.config.change_tables) if DeltaTable.is_deltatable(str(path)) else []


def deliver(
    work: HistoryWork, cut: Cut, *, disturb: Callable[[pa.Table, int], bool] | None = None, ends_runs: bool = False
) -> None:
    """Let a pipeline read a history, and end its run.

    Args:
        work: The pipeline.
        cut: The micro-batches.
        disturb: Called with each micro-batch and its number before it is processed, which it may do in part; returns
            whether it has begun it.
        ends_runs: Whether a run ends with each micro-batch, so that rows of loads wait for no schema after it. All partitions
            must have been read up to the same time then: a cut of the style `even`.
    """
    work.follow(cut)
    for batch_id, batch in enumerate(cut.batches):
        raw = work.raw_of(batch)
        begun = disturb(raw, batch_id) if disturb is not None else False
        for _ in range(1 + begun):
            work.process(raw, batch_id)
        work.processor.sweep()
        if ends_runs:
            _end_run(work)
            work.restart()
    _end_run(work)


def _end_run(work: HistoryWork) -> None:
    for _ in range(_MOST_SWEEPS):
        if not work.processor.sweep(last=True):
            return
    raise AssertionError(f"a run does not end: {work.processor.health.failing}")
