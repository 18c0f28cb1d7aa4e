"""Merges by deletion vectors beside merges that rewrite files and Spark's MERGE: seconds, bytes written, and reading.

Tables of ten columns and two of bookkeeping, in files of 200,000 rows (5.8 MB); changes of random keys: 80 % updates, 10 %
deletes, 10 % inserts. CPU seconds are those of the process, its threads and the JVM; the bytes written are compared with the
changes themselves as a Parquet file. Results in results/merge_on_read.txt.

    merges    rewrite   files with changed rows are written again, by deltalake
              scan      deletion vectors; each merge reads the key column
              index     deletion vectors; the first merge has built key indexes
              spark     MERGE by Spark with Delta's deletion vectors, the changes in a Parquet file
    many      micro-batches in a row with maintenance, reading before and after
    store     1,000,000 rows in an S3 server that answers each request after 20 ms
    pipeline  `replicate run` from the log to the table, end to end, by each strategy

    python -m bench.merge_on_read [--quick] [--parts merges,many,store,pipeline] [--rows N,N] [--ways index] [--file-rows N]
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cluster_meter import find_processes
from bench.machine import Report
from bench.replicate_messages import Envelopes, fill_table, make_config, make_log, make_sequence, make_table, send, write_merge
from bench.replicate_sizes import NoMappedTables
from headstream.cli.replicate.session import open_session
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.plan import plan_merge
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.storage.places import Place
from headstream.spark import session, stop
from tests.support.replicate.s3_server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS: Final = 200_000
REPEATS: Final = {"rewrite": 3, "spark": 3, "scan": 7, "index": 7}
"""Merges of each size, of which the median counts."""
CHANGES: Final = 20_000
MOST_REWRITTEN: Final = 20_000_000
"""Rows of the largest table that is rewritten: each merge of a larger one takes minutes."""
TYPES: Final = {
    "id": "BIGINT", "customer": "BIGINT", "product": "STRING", "quantity": "INT", "price": "DECIMAL(12,2)", "status": "STRING",
    "city": "STRING", "note": "STRING", "ordered": "DATE", "changed": "TIMESTAMP",
}  # fmt: skip
WAYS: Final = ("rewrite", "scan", "index", "spark")
PARTS: Final = ("merges", "many", "store", "pipeline")
_LATENCY_S: Final = 0.02


class Spent(NamedTuple):
    """What a step took: wall-clock seconds, CPU seconds, bytes written."""

    wall: float
    cpu: float
    written: int


def spend(work: Callable[[], Any], size: Callable[[], int] = int) -> Spent:
    """Do some work; return what it took.

    Args:
        work: What to do.
        size: Returns the bytes stored.
    """
    gc.collect()
    before, children, wall, cpu = size(), _children_seconds(), time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Spent(wall, cpu + _children_seconds() - children, size() - before)


def _children_seconds() -> float:
    return sum(seconds for number, (_, seconds) in find_processes().items() if number != os.getpid())


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
        place: Where it is, or will be.
        work: A directory for the key indexes, and for the changes that Spark reads.
        rows: How many it has.
        way: One of WAYS.
        spark: The session of the way `spark`.
        file_rows: Rows of each file that fill() writes.
    """

    def __init__(
        self, place: Place, work: Path, rows: int, way: str, spark: SparkSession | None = None, file_rows: int = FILE_ROWS
    ) -> None:
        self.place = place
        self.rows = rows
        self._file_rows = file_rows
        self._work = work
        strategy: MergeStrategy = "deletion-vectors" if way in ("scan", "index") else "rewrite"
        settings = MergeSettings(
            key_index=work / "keys" if way == "index" else None, key_index_size=0 if way == "scan" else 2 << 30
        )
        self.engine = DeltaLakeEngine(place, NoMappedTables(), strategy, settings)
        self._spark = spark if way == "spark" else None
        self._rng = np.random.default_rng(rows)
        self._count = 1

    def fill(self) -> None:
        """Write the rows, with keys in no order."""
        self.engine.create({**TYPES, "_hs_sequence": "STRING", "_hs_versions": "STRING"})
        keys = self._rng.permutation(self.rows)
        for number, begin in enumerate(range(0, self.rows, self._file_rows)):
            self.engine.append(make_rows(keys[begin : begin + self._file_rows], 0, self._rng), "fill", number)

    def make_changes(self, changes: int) -> pa.Table:
        """Return the changes of the next merge: rows, and which of them are deleted."""
        self._count += 1
        old = self._rng.choice(self.rows, changes * 9 // 10, replace=False)
        new = self.rows * self._count + np.arange(changes - len(old))
        source = make_rows(np.concatenate([old, new]), self._count * 1_000_000, self._rng)
        flags = pa.array(np.arange(changes) < changes // 10)
        return source.append_column("_hs_delete", flags).append_column("_hs_resolved", pa.repeat(False, changes))

    def merge(self, changes: int) -> tuple[Spent, float]:
        """Merge changes; return what that took, and how many times their own bytes it has written."""
        source = self.make_changes(changes)
        sink = pa.BufferOutputStream()
        pq.write_table(source.select([*TYPES, "_hs_sequence"]), sink, compression="snappy")
        if self._spark is not None:
            pq.write_table(source, self._work / "changes.parquet")
            spent = spend(self._merge_by_spark, self._size)
        else:
            plan = plan_merge(list(TYPES), ["id"])
            spent = spend(lambda: self.engine.merge(plan, source, "bench", self._count), self._size)
        return spent, spent.written / sink.getvalue().size

    def read(self) -> Spent:
        """Read two columns of all rows."""
        return spend(lambda: self.engine.read(["customer", "quantity"], "TRUE"))

    def _merge_by_spark(self) -> None:
        assert self._spark is not None
        self._spark.read.parquet(str(self._work / "changes.parquet")).createOrReplaceTempView("changes")
        assert isinstance(self.place, Path)
        self._spark.sql(write_merge(self.place, "id", [*TYPES, "_hs_sequence"]))

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self.place.rglob("*") if file.is_file()) if isinstance(self.place, Path) else 0


def compare(report: Report, directory: Path, rows: int, sizes: tuple[int, ...], ways: Sequence[str], spark: SparkSession) -> None:
    """Each way gets a copy of one table, and a merge that is not counted."""
    for way in ways if rows <= MOST_REWRITTEN else ("scan", "index"):
        work = directory / way
        shutil.copytree(directory / "filled", work / "table", copy_function=os.link)
        table = Table(work / "table", work, rows, way, spark)
        if way == "spark":
            spark.sql(f"ALTER TABLE delta.`{work / 'table'}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        first, _ = table.merge(1000)
        for changes in sizes:
            found = [table.merge(changes) for _ in range(REPEATS[way])]
            wall, cpu, written = (statistics.median(spent[part] for spent, _ in found) for part in range(3))
            factor = statistics.median(factor for _, factor in found)
            report.line(
                f"{rows:>11,} rows, {changes:>7,} changes, {way:7}: {wall:6.3f} s, {cpu:6.3f} CPU s,"
                f" {changes / wall:>9,.0f} changes/s, {changes / cpu:>9,.0f} per CPU s,"
                f" {written / 1e6:6.1f} MB written, {factor:6.1f} times the changes"
            )
        if way == "index":
            report.line(f"{rows:>11,} rows, the first merge, which builds the indexes: {first.wall:.2f} s, {first.cpu:.2f} CPU s")
        shutil.rmtree(work)


def repeat(report: Report, directory: Path, rows: int, changes: int, batches: int) -> None:
    """Micro-batches in a row, with a fold where one is due, and compaction at the end."""
    work = directory / "many"
    shutil.copytree(directory / "filled", work / "table", copy_function=os.link)
    table = Table(work / "table", work, rows, "index")
    clean = table.read()
    merges: list[Spent] = []
    folds: list[Spent] = []
    for _ in range(batches):
        merges.append(table.merge(changes)[0])
        folds.append(spend(table.engine.fold))
    after = table.read()
    fold = spend(table.engine.compact)
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
    shutil.rmtree(work)


def measure_store(report: Report, directory: Path, rows: int) -> None:
    """Merges into a table in a store: its requests, and the time with and without a latency of each."""
    with S3Server() as store:
        for way in ("rewrite", "index"):
            table = Table(store.place(f"{way}/table"), directory / way, rows, way)
            table.fill()
            table.merge(1000)
            for latency in (0.0, _LATENCY_S):
                store.break_down(delay_s=latency)
                store.requests()
                spent = [table.merge(1000)[0] for _ in range(REPEATS[way])]
                requests = store.requests()
                kinds = ", ".join(
                    f"{sum(kind == method for method, _ in requests) / REPEATS[way]:.0f} {kind}"
                    for kind in ("GET", "HEAD", "PUT", "POST")
                )
                wall = statistics.median(each.wall for each in spent)
                counted = f"{len(requests) / REPEATS[way]:.0f} requests ({kinds})"
                where = f"in a store that answers after {latency * 1e3:2.0f} ms"
                report.line(f"{rows:>11,} rows {where}, 1,000 changes, {way:7}: {wall:6.3f} s, {counted}")
                store.recover()


def measure_pipeline(report: Report, directory: Path, rows: int, spark: SparkSession) -> None:
    """Updates with keys anywhere, from a log to a table by `replicate run`."""
    metadata = make_table(0)
    rates: dict[str, float] = {}
    strategies: dict[MergeStrategy, int] = {"rewrite": 4, "deletion-vectors": 20}
    fill_table(directory / "filled", rows)
    for strategy, batches in strategies.items():
        work = directory / strategy
        url = (work / "log").as_uri()
        make_log(url, [metadata])
        shutil.copytree(directory / "filled", work / "tables/shop/table0", copy_function=os.link)
        writer, keys = Envelopes(metadata), random.Random(rows)
        run = partial(_run_pipeline, spark, work, strategy)
        send(url, (writer.write("UPDATE", keys.randrange(rows), at) for at in range(1000)))
        run()  # opens the table, builds the key indexes
        send(url, (writer.write("UPDATE", keys.randrange(rows), at) for at in range(1000, 1000 + batches * CHANGES)))
        spent = spend(run)
        rates[strategy] = batches * CHANGES / spent.wall
        report.line(
            f"{rows:>11,} rows, replicate run, {batches} micro-batches of {CHANGES:,} changes, {strategy}: {spent.wall:.1f} s,"
            f" {spent.cpu:.1f} CPU s, {rates[strategy]:,.0f} changes/s, its start included"
        )
    report.line(
        f"{rows:>11,} rows, replicate run: deletion vectors are {rates['deletion-vectors'] / rates['rewrite']:.1f} times as fast"
    )


def _run_pipeline(spark: SparkSession, work: Path, strategy: MergeStrategy) -> None:
    rules = TableRules(defaults=TableSettings(merge_strategy=strategy))
    config = make_config(work, max_messages_per_batch=CHANGES, rules=rules, once=True)
    summary = ReplicatePipeline(spark, config).run()
    assert (summary.dead, summary.parked, summary.failing) == (0, 0, {})


@contextmanager
def opened_session() -> Iterator[SparkSession]:
    """Lend a session of two cores."""
    spark = session("bench-merge-on-read", master="local[2]", config={"spark.driver.memory": "4g"})
    try:
        yield spark
    finally:
        stop(spark)


def main() -> None:
    """Run all of it, or some parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, nothing written")
    parser.add_argument("--parts", default=",".join(PARTS), help="which; nothing is written unless it is all of them")
    parser.add_argument("--rows", default="1000000,10000000", help="of the tables; above 20,000,000 by deletion vectors alone")
    parser.add_argument(
        "--ways", default=",".join(WAYS), help="of the part `merges`; nothing is written unless it is all of them"
    )
    parser.add_argument("--file-rows", type=int, default=FILE_ROWS, help="of each file of the tables")
    parser.add_argument("--batches", type=int, default=1000, help="of the part `many`")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    sizes, parts = [int(rows) // scale for rows in arguments.rows.split(",")], arguments.parts.split(",")
    ways = arguments.ways.split(",")
    complete = not arguments.quick and set(parts) == set(PARTS) and set(ways) == set(WAYS)
    with tempfile.TemporaryDirectory(prefix="headstream-bench-") as name, Report("merge_on_read", write=complete) as report:
        with opened_session() as spark:
            for rows in sizes:
                directory = Path(name, str(rows))
                if "merges" in parts or "many" in parts:
                    Table(directory / "filled", directory, rows, "rewrite", file_rows=arguments.file_rows).fill()
                if "merges" in parts:
                    compare(report, directory, rows, (1000, CHANGES, 10 * CHANGES)[: 2 if arguments.quick else 3], ways, spark)
                if "many" in parts and rows <= MOST_REWRITTEN:
                    repeat(report, directory, rows, CHANGES, arguments.batches // scale)
                shutil.rmtree(directory, ignore_errors=True)
        if "pipeline" in parts:
            settings = {"spark.master": "local[2]", "spark.driver.memory": "4g"}
            with open_session("bench-merge-on-read", settings, [], is_brief=True) as spark:
                measure_pipeline(report, Path(name, "pipeline"), max(sizes), spark)
        if "store" in parts:
            measure_store(report, Path(name, "store"), 1_000_000 // scale)


if __name__ == "__main__":
    main()
