"""Merges by deletion vectors beside merges that rewrite files: seconds, bytes written, and reading before and after.

Tables of ten columns and two of bookkeeping, in files of 200,000 rows; changes of keys anywhere: 80 % updates, 10 % deletes, 10 %
inserts. `scan` reads the key column in each merge, `index` has key indexes, which the first merge has built. CPU seconds are
those of the process and all its threads; what is written is compared with the changes themselves as a Parquet file.
Results in results/merge_on_read.txt.

    python -m bench.merge_on_read [--quick]
"""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.machine import Report, run_benchmark
from bench.replicate_messages import make_sequence
from bench.replicate_sizes import NoMappedTables
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.plan import plan_merge
from headstream.replicate.settings.merge_settings import MergeSettings

FILE_ROWS: Final = 200_000
REPEATS: Final = 3
TYPES: Final = {
    "id": "BIGINT", "customer": "BIGINT", "product": "STRING", "quantity": "INT", "price": "DECIMAL(12,2)", "status": "STRING",
    "city": "STRING", "note": "STRING", "ordered": "DATE", "changed": "TIMESTAMP",
}  # fmt: skip
WAYS: Final = ("rewrite", "scan", "index")


class Spent(NamedTuple):
    """What a step took: wall-clock seconds, CPU seconds, bytes written."""

    wall: float
    cpu: float
    written: int


def make_rows(keys: Any, at: int, rng: np.random.Generator) -> pa.Table:
    """Return rows with some keys, written by the change at a place in the order of all."""
    count = len(keys)

    def texts(prefix: str, most: int) -> pa.Array:
        names = pa.array([f"{prefix} {number}" for number in range(most)])
        return names.take(pa.array(rng.integers(0, most, count)))

    times = pa.array(rng.integers(1_700_000_000, 1_760_000_000, count) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    columns = {
        "id": pa.array(keys),
        "customer": pa.array(rng.integers(0, 1_000_000, count)),
        "product": texts("product", 5000),
        "quantity": pa.array(rng.integers(0, 100, count, np.int32)),
        "price": pa.array(rng.integers(0, 100_000, count) / 100).cast(pa.decimal128(12, 2), safe=False),
        "status": texts("status", 5),
        "city": texts("city", 1000),
        "note": texts("as the customer said on the telephone", 20_000),
        "ordered": pa.array(rng.integers(15_000, 20_000, count, np.int32)).cast(pa.date32()),
        "changed": times,
        "_hs_sequence": pa.repeat(make_sequence(at), count),
        "_hs_versions": pa.nulls(count, pa.string()),
    }
    return pa.table(columns)


class Table:
    """A table, and the changes of it.

    Args:
        directory: It is created there.
        rows: How many it has.
    """

    def __init__(self, directory: Path, rows: int, way: str) -> None:
        self.path = directory / "table"
        self.rows = rows
        strategy: Any = "rewrite" if way == "rewrite" else "deletion-vectors"
        settings = MergeSettings(key_index=directory / "keys" if way == "index" else None)
        self.engine = DeltaLakeEngine(self.path, NoMappedTables(), strategy, settings)
        self._rng = np.random.default_rng(rows)
        self._count = 1

    def fill(self) -> None:
        """Write the rows, with keys in no order."""
        self.engine.create({**TYPES, "_hs_sequence": "STRING", "_hs_versions": "STRING"})
        keys = self._rng.permutation(self.rows)
        for number, begin in enumerate(range(0, self.rows, FILE_ROWS)):
            self.engine.append(make_rows(keys[begin : begin + FILE_ROWS], 0, self._rng), "fill", number)

    def make_changes(self, changes: int) -> pa.Table:
        """Return the changes of the next merge: rows, and which of them are deleted."""
        self._count += 1
        old = self._rng.choice(self.rows, changes * 9 // 10, replace=False)
        new = self.rows * self._count + np.arange(changes - len(old))
        source = make_rows(np.concatenate([old, new]), self._count * 1_000_000, self._rng)
        flags = pa.array(np.arange(changes) < changes // 10)
        return source.append_column("_hs_delete", flags).append_column("_hs_resolved", pa.array([False] * changes))

    def merge(self, changes: int) -> tuple[Spent, float]:
        """Merge changes; return what that took, and how many times their own bytes it has written."""
        source = self.make_changes(changes)
        plan = plan_merge(list(TYPES), ["id"])
        sink = pa.BufferOutputStream()
        pq.write_table(source.select([*TYPES, "_hs_sequence"]), sink, compression="snappy")
        spent = self.time(lambda: self.engine.merge(plan, source, "bench", self._count))
        return spent, spent.written / sink.getvalue().size

    def time(self, work: Callable[[], Any]) -> Spent:
        """Do some work on the table."""
        gc.collect()
        before = self._size()
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return Spent(time.perf_counter() - wall, time.process_time() - cpu, self._size() - before)

    def read(self) -> Spent:
        """Read two columns of all rows."""
        return self.time(lambda: self.engine.read(["customer", "quantity"], "TRUE"))

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


def compare(report: Report, directory: Path, rows: int, sizes: tuple[int, ...]) -> None:
    """Each way gets a copy of one table, and a merge that is not counted."""
    Table(directory / "filled", rows, "rewrite").fill()
    for way in WAYS:
        shutil.copytree(directory / "filled" / "table", directory / way / "table")
        table = Table(directory / way, rows, way)
        first, _ = table.merge(1000)
        for changes in sizes:
            found = [table.merge(changes) for _ in range(REPEATS)]
            wall, cpu, written = (statistics.median(spent[part] for spent, _ in found) for part in range(3))
            factor = statistics.median(factor for _, factor in found)
            report.line(
                f"{rows:>10,} rows, {changes:>7,} changes, {way:7}: {wall:6.3f} s, {cpu:6.3f} CPU s,"
                f" {changes / wall:>9,.0f} changes/s, {changes / cpu:>9,.0f} per CPU s,"
                f" {written / 1e6:6.1f} MB written, {factor:6.1f} times the changes"
            )
        if way == "index":
            report.line(f"{rows:>10,} rows, the first merge, which builds the indexes: {first.wall:.2f} s, {first.cpu:.2f} CPU s")
        shutil.rmtree(directory / way)


def repeat(report: Report, directory: Path, rows: int, changes: int, batches: int) -> None:
    """Micro-batches in a row, with a fold where one is due, and compaction at the end."""
    shutil.copytree(directory / "filled" / "table", directory / "many" / "table")
    table = Table(directory / "many", rows, "index")
    clean = table.read()
    merges: list[Spent] = []
    folds: list[Spent] = []
    for _ in range(batches):
        merges.append(table.merge(changes)[0])
        folds.append(table.time(table.engine.fold))
    after = table.read()
    fold = table.time(table.engine.compact)
    last = table.read()
    tenth = max(batches // 10, 1)

    def mean(part: list[Spent]) -> str:
        return f"{statistics.mean(s.wall for s in part):.3f} s, {statistics.mean(s.cpu for s in part):.3f} CPU s"

    report.line(f"{rows:,} rows, {batches} micro-batches of {changes:,} changes, with indexes:")
    report.line(f"    a merge, the first tenth: {mean(merges[1 : tenth + 1])}; the last tenth: {mean(merges[-tenth:])}")
    wall = sum(spent.wall for spent in merges + folds)
    report.line(f"    all merges and folds {wall:.1f} s, {batches * changes / wall:,.0f} changes/s; folds {mean(folds)} each")
    report.line(
        f"    reading before {clean.cpu:.2f} CPU s, after {after.cpu:.2f}, compacted {last.cpu:.2f};"
        f" compaction {fold.cpu:.1f} CPU s"
    )


def main() -> None:
    """Run all of it."""
    with run_benchmark("merge_on_read", __doc__, "a tenth of the rows, nothing written") as (report, directory, quick):
        for rows in (100_000, 1_000_000) if quick else (1_000_000, 10_000_000):
            compare(report, directory / str(rows), rows, (1000, 20_000) if quick else (1000, 20_000, 200_000))
            repeat(report, directory / str(rows), rows, 20_000, 20 if quick else 100)
            shutil.rmtree(directory / str(rows))


if __name__ == "__main__":
    main()
