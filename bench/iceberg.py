"""What an Iceberg table beside a Delta table costs: a commit by its files, after many commits, and merges with and without it.

Commits go to a catalog in SQLite, all files to the local disk. The files of the first part are named by Delta's log alone,
without contents: a mirror reads no data file. CPU seconds are those of the process and all its threads.

Spark 4.1 with Iceberg 1.12 gets the same rows and changes, as Parquet files, and merges them by the same guard into a table of
its own, in one session (local[2], 4 GiB), after a merge that is not counted; CPU seconds are those of its two processes. It is
left out if tools/install_nightly_tools.sh has not installed it. Results in results/iceberg.txt.

    python -m bench.iceberg [--quick]
"""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from deltalake import write_deltalake

from bench.machine import Report, run_benchmark
from bench.merge_on_read import TYPES, Spent, Table, make_rows, spend
from headstream.replicate.engines.plan import plan_merge
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.iceberg.mirror import TableMirror
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from tests.support.replicate.iceberg_readers import SparkReader, is_installed

WEEK_US: Final = 7 * 86_400_000_000
_PUBLISHED: Final = ("OLake, PostgreSQL to Iceberg, 41,390 rows/s of changes (its README)",)
"""Rates that others have published, of whole pipelines on other machines."""


def open_mirror(directory: Path, table: str = "t") -> TableMirror:
    """Return a mirror of a table in a directory, with a catalog in SQLite there."""
    settings = IcebergSettings(catalog={"type": "sql", "uri": f"sqlite:///{directory / 'catalog.db'}"})
    return TableMirror(
        open_catalog(settings, directory), directory / table, ("bench", "t"), most_snapshots=settings.snapshots, kept_us=WEEK_US
    )


def measured(step: Callable[[], Any]) -> Spent:
    """Return what a step took."""
    began, cpu = time.perf_counter(), time.process_time()
    step()
    return Spent(time.perf_counter() - began, time.process_time() - cpu, 0)


def add_files(table: Path, count: int) -> None:
    """Commit files to a Delta table's log, with the statistics of its first file."""
    log = table / "_delta_log"
    version = max(int(path.stem) for path in log.glob("*.json")) + 1
    first = next(
        action["add"] for line in (log / f"{0:020d}.json").read_text().splitlines() if "add" in (action := json.loads(line))
    )
    lines = [json.dumps({"add": {**first, "path": f"part-{version}-{number}.parquet"}}) for number in range(count)]
    (log / f"{version:020d}.json").write_text("\n".join([*lines, ""]))


def remove_file(table: Path, number: int, version: int) -> None:
    """Commit the removal of a file that add_files() has added."""
    log = table / "_delta_log"
    version_now = max(int(path.stem) for path in log.glob("*.json")) + 1
    removed = {"path": f"part-{version}-{number}.parquet", "deletionTimestamp": 0, "dataChange": True}
    (log / f"{version_now:020d}.json").write_text(json.dumps({"remove": removed}) + "\n")


def bench_files(report: Report, directory: Path, counts: list[int]) -> None:
    """Measure commits of many files, and of one file in a table of many."""
    for count in counts:
        work = directory / f"files-{count}"
        work.mkdir()
        write_deltalake(work / "t", make_rows(np.arange(10), 1, np.random.default_rng(1)))
        mirror = open_mirror(work)
        mirror.sync()
        add_files(work / "t", count)
        many = measured(mirror.sync)
        add_files(work / "t", 1)
        one = measured(mirror.sync)
        remove_file(work / "t", 0, 1)
        gone = measured(mirror.sync)
        again = measured(open_mirror(work).sync)
        report.line(
            f"{count:>6,} files in one commit: {many.wall:6.3f} s, {many.cpu:6.3f} CPU s; then one more: {one.wall:.3f} s, "
            f"{one.cpu:.3f} CPU s; one less: {gone.wall:.3f} s, {gone.cpu:.3f} CPU s; nothing new: {again.wall:.3f} s"
        )
        shutil.rmtree(work)


def bench_commits(report: Report, directory: Path, commits: int) -> None:
    """Measure commits of one file each, one after the other."""
    work = directory / "commits"
    work.mkdir()
    write_deltalake(work / "t", make_rows(np.arange(10), 1, np.random.default_rng(1)))
    mirror = open_mirror(work)
    mirror.sync()
    found = []
    for _ in range(commits):
        add_files(work / "t", 1)
        found.append(measured(mirror.sync))
    tenth = commits // 10
    for name, part in (("first", found[:tenth]), ("last", found[-tenth:])):
        wall, cpu = (sum(values) / tenth for values in zip(*[(each.wall, each.cpu) for each in part], strict=True))
        report.line(f"{commits:,} commits of one file, the {name} {tenth}: {wall:.4f} s, {cpu:.4f} CPU s each")
    files = list((work / "t" / "_iceberg").iterdir())
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    report.line(f"    Iceberg's own files then, of the last hour: {len(files):,}, {megabytes:.1f} MB; snapshots kept: 100")
    shutil.rmtree(work)


def bench_merges(report: Report, directory: Path, rows: int, changes: int, batches: int) -> None:
    """Measure micro-batches merged by deletion vectors into Delta, each with a commit to Iceberg after it."""
    work = directory / "merges"
    table = Table(work / "table", work, rows, "index")
    table.fill()
    mirror = open_mirror(work, "table")
    table.merge(changes)
    mirror.sync()
    merges, commits = [], []
    for _ in range(batches):
        merges.append(table.merge(changes)[0])
        table.engine.fold()
        commits.append(measured(mirror.sync))
    alone, cpu = sum(spent.wall for spent in merges), sum(spent.cpu for spent in merges)
    more, more_cpu = sum(spent.wall for spent in commits), sum(spent.cpu for spent in commits)
    report.line(
        f"{rows:,} rows, {batches} micro-batches of {changes:,} changes: Delta alone {alone:.1f} s, {cpu:.1f} CPU s, "
        f"{changes * batches / alone:,.0f} changes/s, {changes * batches / cpu:,.0f} per CPU s"
    )
    report.line(
        f"    and Iceberg, one after the other: {alone + more:.1f} s, {cpu + more_cpu:.1f} CPU s, "
        f"{changes * batches / (alone + more):,.0f} changes/s, {changes * batches / (cpu + more_cpu):,.0f} per CPU s; "
        f"a commit {more / batches:.3f} s, {more_cpu / batches:.3f} CPU s"
    )
    shutil.rmtree(work)


def bench_spark(report: Report, directory: Path, rows: int, changes: int, batches: int) -> None:
    """Measure Spark's MERGE of the same changes into Iceberg tables, by rewritten files and by position deletes."""
    work = directory / "spark"
    table = Table(work / "table", work, rows, "index")
    table.fill()
    columns = [*TYPES, "_hs_sequence"]
    names = {"copy-on-write": "lake.bench.rewritten", "merge-on-read": "lake.bench.deleted"}
    settings = {"type": "hadoop", "warehouse": str(work / "warehouse")}
    memory = {"spark.driver.memory": "4g", **{f"spark.sql.catalog.lake.{name}": value for name, value in settings.items()}}
    with SparkReader(work, **memory) as spark:
        spark.query("CREATE NAMESPACE lake.bench")
        for mode, name in names.items():
            modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
            spark.query(
                f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ('format-version' = '2', {modes}) AS "
                f"SELECT {', '.join(columns)} FROM parquet.`{table.place}/*.parquet`"
            )
        found: dict[str, list[Spent]] = {mode: [] for mode in names}
        for number in range(batches + 1):
            file = work / f"changes-{number}.parquet"
            source = table.make_changes(changes)
            pq.write_table(source, file)
            table.engine.merge(plan_merge(list(TYPES), ["id"]), source, "bench", number + 2)
            for mode, name in names.items():
                spent = spend(functools.partial(spark.query, _merge(name, file, columns)))
                found[mode] += [spent] if number else []
        expected = table.engine.read(["customer"], "TRUE")["customer"].to_pylist()
        for mode, name in names.items():
            assert spark.query(f"SELECT count(*) AS a, sum(customer) AS b FROM {name}")[1] == (
                len(expected),
                sum(expected),
            )
            wall, cpu = sum(spent.wall for spent in found[mode]), sum(spent.cpu for spent in found[mode])
            report.line(
                f"    Spark 4.1.4, MERGE into Iceberg 1.12, {mode}, {batches} of {changes:,}: {wall:.1f} s, {cpu:.1f} CPU s, "
                f"{changes * batches / wall:,.0f} changes/s, {changes * batches / cpu:,.0f} per CPU s"
            )
    shutil.rmtree(work)


def _merge(name: str, file: Path, columns: list[str]) -> str:
    updates = ", ".join(f"t.{column} = s.{column}" for column in columns)
    is_newer, values = "s._hs_sequence > t._hs_sequence", ", ".join(f"s.{column}" for column in columns)
    return (
        f"MERGE INTO {name} t USING (SELECT * FROM parquet.`{file}`) s ON t.id = s.id "
        f"WHEN MATCHED AND {is_newer} AND s._hs_delete THEN DELETE WHEN MATCHED AND {is_newer} THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED AND NOT s._hs_delete THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )


def main() -> None:
    """Run all of it."""
    with run_benchmark("iceberg", __doc__, "fewer files and commits") as (report, directory, is_quick):
        bench_files(report, directory, [1, 100] if is_quick else [1, 100, 10_000])
        bench_commits(report, directory, 50 if is_quick else 1000)
        rows = 200_000 if is_quick else 2_000_000
        for changes, batches in ((20_000, 5), (100_000, 2)) if is_quick else ((20_000, 30), (200_000, 5)):
            bench_merges(report, directory, rows, changes, batches)
            if is_installed("spark"):
                bench_spark(report, directory, rows, changes, min(batches, 5))
        for line in _PUBLISHED:
            report.line(f"published, not measured here: {line}")


if __name__ == "__main__":
    main()
