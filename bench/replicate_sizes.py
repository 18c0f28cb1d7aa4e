"""What a merge costs by the size of its table and by the deletions remembered; results in results/replicate_sizes.txt.

size        batches of 10,000 changes (80 % updates, 10 % inserts, 10 % deletes) into tables of 0.1 to 10 million rows: updates
            of neighbouring rows, inserts at the end | the same spread over ten places | keys anywhere
remedy      keys anywhere again: more changes a merge | a table divided by a column of its key that rises with time
tombstones  the same batches into one table, with none to millions of deletions remembered: changes in order | one in a
            hundred of them late

The merge alone, from decoded changes, by the engine for one machine; medians of five.

    python -m bench.replicate_sizes [--quick]
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from bench.machine import Report, run_benchmark
from bench.replicate_messages import change_batch, fill_table, make_sequence, make_table, mix, table_types
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.codec import ColumnMetadata, TableMetadata
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.storage.places import Place

CHANGES: Final = 10_000
_TABLE: Final = make_table(0)


class NoMappedTables:
    """The columns here have plain names."""

    def create(self, path: Place, columns: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        """Not called."""
        raise AssertionError(path)

    add_columns = widen = create

    def map_columns(self, path: Place) -> None:
        """Not called."""
        raise AssertionError(path)

    def compact(self, path: Place, cluster_by: Sequence[str] = ()) -> None:
        """Not called."""
        raise AssertionError(path)


def open_table(path: Path, keys: Sequence[str] = ("c0",)) -> Scd1Table:
    """Return a table that is there, and its deletions beside it."""
    tombstones = Tombstones(path.with_name(f"{path.name}-tombstones"), list(keys))
    table = Scd1Table(DeltaLakeEngine(path, NoMappedTables()), list(keys), tombstones)
    table.prepare(table_types())
    return table


class Changes:
    """Batches of changes, each newer than the one before.

    Args:
        rows: How many rows the table has.
        spread: `beside`, `ten` or `anywhere`.
    """

    def __init__(self, rows: int, spread: str) -> None:
        self._rows = rows
        self._spread = spread
        self._rng = random.Random(1)
        self._made = 0

    def next(self, count: int = CHANGES) -> pa.Table:
        """Return the next batch."""
        kinds = mix(count)
        old = iter(self._old_keys(count))
        first = self._rows + self._made
        keys = [first + n if kind == "INSERT" else next(old) for n, kind in enumerate(kinds)]
        self._made += count
        return change_batch(kinds, keys, self._made)

    def _old_keys(self, count: int) -> list[int]:
        if self._spread == "anywhere":
            return self._rng.sample(range(self._rows), count)
        places = 10 if self._spread == "ten" else 1
        each = count // places
        starts = [
            self._rng.randrange(place * self._rows // places, (place + 1) * self._rows // places - each)
            for place in range(places)
        ]
        return [start + n for start in starts for n in range(each)]


def merge_seconds(table: Scd1Table, batches: list[pa.Table], metadata: TableMetadata = _TABLE) -> float:
    """Return the median time of merging batches, after one that is not counted."""
    times: list[float] = []
    unit = f"bench/{time.monotonic_ns()}"  # of its own: what a table has applied it passes over
    for batch in batches:
        began = time.perf_counter()
        table.merge(table.collapse(batch, metadata), unit, len(times))
        times.append(time.perf_counter() - began)
    return median(times[1:])


def bench_size(report: Report, directory: Path, sizes: list[int], rounds: int) -> None:
    """The same batches into tables of rising size."""
    for spread, told in (("beside", "beside each other"), ("ten", "in ten places"), ("anywhere", "anywhere")):
        costs = []
        for rows in sizes:
            path = directory / f"{spread}{rows}"
            fill_table(path, rows)
            changes = Changes(rows, spread)
            costs.append(merge_seconds(open_table(path), [changes.next() for _ in range(rounds + 1)]))
            shutil.rmtree(path)
        curve = ", ".join(f"{rows / 1e6:g} M rows {cost:.2f} s" for rows, cost in zip(sizes, costs, strict=True))
        report.line(f"size, {CHANGES:,} changes, keys {told:17}: {curve}; {costs[-1] / costs[0]:.1f} x")


def bench_remedy(report: Report, directory: Path, rows: int, rounds: int) -> None:
    """What helps where keys lie anywhere."""
    path = directory / "random"
    fill_table(path, rows)
    table, changes = open_table(path), Changes(rows, "anywhere")
    rates = []
    for count in (CHANGES, 10 * CHANGES, 50 * CHANGES):
        seconds = merge_seconds(table, [changes.next(count) for _ in range(3)])
        rates.append(f"{count:,} a merge {count / seconds / 1e3:.0f}")
    report.line(f"remedy, keys anywhere in {rows:,} rows, more changes a merge, thousand changes/s: {', '.join(rates)}")
    shutil.rmtree(path)
    costs = []
    for divided in (False, True):
        path = directory / f"divided{divided}"
        _fill_by_day(path, rows, divided=divided)
        table = open_table(path, ["c0", "c4"])
        batches = [_changes_of_newest_days(rows, number) for number in range(rounds + 1)]
        costs.append(merge_seconds(table, batches, _with_day_in_key()))
        shutil.rmtree(path)
    report.line(
        f"remedy, keys anywhere in the newest 3 of 100 days, {rows:,} rows: not divided {costs[0]:.2f} s, "
        f"divided by the day (partition_by), which is part of the key {costs[1]:.2f} s, {costs[0] / costs[1]:.1f} x"
    )


def _with_day_in_key() -> TableMetadata:
    columns = tuple(
        ColumnMetadata(c.name, c.ordinal, c.type, c.length, c.precision, c.scale, {"c0": 1, "c4": 2}.get(c.name, 0))
        for c in _TABLE.columns
    )
    return TableMetadata(_TABLE.schema_id, _TABLE.lineage, columns, _TABLE.data_schema)


def _fill_by_day(path: Path, rows: int, *, divided: bool) -> None:
    """Make a table whose key is a number that lies anywhere and a day: row n is of day n % 100."""
    fill_table(path, rows)
    stored = DeltaTable(str(path)).to_pyarrow_table()
    place = stored.schema.get_field_index("c4")
    days = pc.cast(pc.subtract(stored["c0"], pc.multiply(pc.divide(stored["c0"], 100), 100)), pa.int32()).cast(pa.date32())
    stored = stored.set_column(place, "c4", days).sort_by([("c4", "ascending")] if divided else [("c2", "ascending")])
    shutil.rmtree(path)
    step = -(-rows // 100) * 10
    for first in range(0, rows, step):
        write_deltalake(str(path), stored.slice(first, step), mode="append", partition_by=["c4"] if divided else None)


def _changes_of_newest_days(rows: int, number: int) -> pa.Table:
    rng = random.Random(number)
    keys = [rng.randrange(rows // 100) * 100 + 97 + rng.randrange(3) for _ in range(CHANGES)]
    batch = change_batch(["UPDATE"] * len(keys), keys, (number + 1) * CHANGES)
    days = pa.array(np.array(keys, np.int32) % 100).cast(pa.date32())
    batch = batch.set_column(batch.schema.get_field_index("c4"), "c4", days)
    return batch.append_column("_hs_old.c4", pa.nulls(batch.num_rows, pa.date32()))


def bench_tombstones(report: Report, directory: Path, kept: list[int], rounds: int) -> None:
    """The same batches beside more and more deletions."""
    rows = 1_000_000
    lines: dict[bool, list[str]] = {False: [], True: []}
    for count in kept:
        for late in (False, True):
            path = directory / f"buried{count}{late}"
            fill_table(path, rows)
            _bury(path, rows, count)
            changes = Changes(rows, "beside")
            changes.next(3 * CHANGES)  # so that there is something that a change can be older than
            batches = [changes.next() for _ in range(rounds + 1)]
            table = open_table(path)
            seconds = merge_seconds(table, [_some_late(batch) for batch in batches] if late else batches)
            lines[late].append(f"{count:,} kept {seconds:.2f} s")
            for made in (path, path.with_name(f"{path.name}-tombstones")):
                shutil.rmtree(made)
    report.line(f"tombstones, {CHANGES:,} changes into {rows:,} rows, in order: {', '.join(lines[False])}")
    report.line(f"tombstones, {CHANGES:,} changes into {rows:,} rows, 1 % late: {', '.join(lines[True])}")


def _bury(path: Path, rows: int, count: int) -> None:
    """Remember deletions of rows that the table has no more, as a run of many batches left them."""
    place = path.with_name(f"{path.name}-tombstones")
    for first in range(0, count, 100_000):
        keys = np.arange(first, min(first + 100_000, count))
        sequences = [f"{make_sequence(0)[:20]}{key:015d}" for key in keys.tolist()]
        some = pa.table({"c0": pa.array(-1 - keys), "_hs_sequence": pa.array(sequences)})
        write_deltalake(str(place), some, mode="append")


def _some_late(batch: pa.Table) -> pa.Table:
    """Return a batch in which one change in a hundred is old, as if a partition had been read behind the others."""
    place = batch.schema.get_field_index("_hs_sequence")
    late = pa.array(np.arange(batch.num_rows) % 100 == 55)
    return batch.set_column(place, "_hs_sequence", pc.if_else(late, make_sequence(1), batch["_hs_sequence"]))


def main() -> None:
    """Run all of it."""
    with run_benchmark("replicate_sizes", __doc__, "smaller tables, nothing written") as (report, directory, quick):
        bench_size(report, directory, [100_000, 400_000] if quick else [100_000, 1_000_000, 10_000_000], 2 if quick else 5)
        bench_remedy(report, directory, 500_000 if quick else 2_000_000, 2 if quick else 5)
        bench_tombstones(report, directory, [0, 100_000] if quick else [0, 100_000, 1_000_000, 5_000_000], 2 if quick else 5)


if __name__ == "__main__":
    main()
