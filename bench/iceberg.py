"""What an Iceberg table beside a Delta table costs: a commit by its files, after many commits, and merges with and without it.

Commits go to a catalog in SQLite, all files to the local disk. The files of the first part are named by Delta's log alone,
without contents: a mirror reads no data file. CPU seconds are those of the process and all its threads.
Results in results/iceberg.txt.

    python -m bench.iceberg [--quick]
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from deltalake import write_deltalake

from bench.machine import Report, run_benchmark
from bench.merge_on_read import Spent, Table, make_rows
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.iceberg.mirror import TableMirror
from headstream.replicate.settings.iceberg_settings import IcebergSettings

WEEK_US: Final = 7 * 86_400_000_000


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
    table = Table(work, rows, "index")
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
        f"{changes * batches / alone:,.0f} changes/s"
    )
    report.line(
        f"    and Iceberg, one after the other: {alone + more:.1f} s, {cpu + more_cpu:.1f} CPU s, "
        f"{changes * batches / (alone + more):,.0f} changes/s; a commit {more / batches:.3f} s, {more_cpu / batches:.3f} CPU s"
    )
    shutil.rmtree(work)


if __name__ == "__main__":
    with run_benchmark("iceberg", __doc__, "fewer files and commits") as (report, directory, is_quick):
        bench_files(report, directory, [1, 100] if is_quick else [1, 100, 10_000])
        bench_commits(report, directory, 50 if is_quick else 1000)
        bench_merges(report, directory, 200_000 if is_quick else 2_000_000, 20_000, 5 if is_quick else 30)
