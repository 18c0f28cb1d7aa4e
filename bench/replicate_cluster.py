"""The pipeline on a cluster: the driver's memory, processor time, small changes; results in results/replicate_cluster.txt.

load      inserts of new keys into an empty table, one micro-batch
merge     80 % updates, 10 % inserts, 10 % deletes of the same number of changes, keys anywhere
partial   the same, and the updates carry two of ten columns
large     the same with ten times as many changes
modes     load and merge of tables of type 2, of tables with change tables, and with atomic, in transactions of ten changes
largest   inserts of 1 M rows with 200 columns; inserts of 10 M rows with 20 columns, and as many changes of them; by executors
tables    few changes for each of many tables in every micro-batch: what a table costs after the first one, in a directory and in
          an S3 server of this machine, and the requests to it
small     100 changes for each of 50 tables of 1,000 rows in one micro-batch: by deltalake in the driver, as is the rule, and by
          Spark only

Each line is a process of its own with executors on this machine, local-cluster[N,1,2048], two or the number that the line names.
Ways: `executors` fold and merge, the default; `driver` gets the changes into the driver's Python process, folds them there, and
gives them back to Spark's MERGE, as before executors did it; `by hand` is a foreachBatch job of from_avro, row_number, MERGE.
Memory: by how much the driver's Python process has grown at most, and the peak of what collections leave in the heap of its Java
process (all of that process in parentheses). Processor time is that of all processes.

    python -m bench.replicate_cluster [--quick] [--parts batches,large,modes,largest,tables,small]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyspark

from bench.cluster_meter import Meter
from bench.machine import Report
from bench.replicate_apply import merge_by_hand, run_theirs
from bench.replicate_messages import Envelopes, make_log, make_table, mix, send
from headstream.replicate.apply.on_executors import stored_batch
from headstream.replicate.engines import cluster_engine
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.run.summary import Summary
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.storage.places import Place, parse_place
from headstream.spark import session, stop
from tests.support.replicate.s3_server import S3Server

_ROUNDS: Final = 4
_CHANGES_A_TABLE: Final = 5
_TRANSACTION: Final = 10


def run_job(work: Path, way: str, mode: str, name: str, most: int, executors: int, store: str) -> dict[str, Any]:
    """Run a job over all that is new in the log, in this process."""
    settings = {"spark.driver.memory": "4g", "spark.driver.maxResultSize": "3g", "spark.executor.memory": "2g"}
    spark = session(master=f"local-cluster[{executors},1,2048]", config=settings, with_jars=["s3"] if store else [])
    with Meter(spark) as meter:
        found = run_by_hand(spark, work, name) if way == "by hand" else run_pipeline(spark, work, way, mode, name, most, store)
    stop(spark)
    return found | meter.result()


def run_by_hand(spark: Any, work: Path, name: str) -> dict[str, Any]:
    """Run the hand-written job."""
    table, path = make_table(1), work / name
    if not path.exists():
        columns = ", ".join(f"{column} {kind}" for column, kind in by_hand_columns().items())
        spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    ran = run_theirs(spark, work, name, lambda batch: merge_by_hand(batch, table, path))
    return {"seconds": sum(ran.batches), "rows": 0, "rounds": []}


def by_hand_columns() -> dict[str, str]:
    """Return the columns of the hand-written job's table."""
    from bench.replicate_messages import table_types

    return table_types() | {"_hs_sequence": "STRING"}


def run_pipeline(spark: Any, work: Path, way: str, mode: str, name: str, most: int, store: str) -> dict[str, Any]:
    """Run the pipeline."""
    rounds: list[tuple[float, int]] = []

    def note(summary: Summary) -> None:
        if summary.batches > len(rounds):
            rounds.append((summary.seconds, summary.merges))
        if way == "spark only" and summary.batches:  # from the second micro-batch on
            stored_batch.MAX_SMALL_ROWS = cluster_engine.MAX_DRIVER_TABLE_BYTES = -1  # type: ignore[misc]

    place: Place = parse_place(store) if store else work
    config = ReplicateConfig(
        source=(work / "log").as_uri(),
        topics=("cdc/data",),
        metadata=("cdc/metadata",),
        tables=place / name,
        checkpoint=place / f"{name}-checkpoint",
        max_messages_per_batch=most,
        max_bytes_per_batch=8 << 30,
        rules=TableRules(
            defaults=TableSettings(engine="spark" if way == "driver" else "auto", scd_type=2 if mode == "type 2" else 1)
        ),
        change_tables=place / f"{name}-changes" if mode == "changes" else None,
        atomic=mode == "atomic",
        once=True,
    )
    pipeline = ReplicatePipeline(spark, config, on_progress=note)
    if way == "driver":
        pipeline._store_session = None
    summary = pipeline.run()
    assert (summary.dead, summary.parked, summary.failing) == (0, 0, {}), summary
    return {"seconds": summary.seconds, "rows": summary.rows_in_driver, "rounds": rounds}


def start_job(
    work: Path, way: str, *, mode: str = "", most: int = 100_000_000, executors: int = 2, store: S3Server | None = None
) -> dict[str, Any]:
    """Run a job in a process of its own."""
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
    place = "" if store is None else str(store.place(f"bench/{work.name}"))
    command = [sys.executable, "-m", "bench.replicate_cluster", "--job", str(work), way, mode, str(most), str(executors), place]
    given = {} if store is None else {**store.variables, "AWS_REGION": "us-east-1"}
    with tempfile.TemporaryFile("w+") as errors:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **home, **given}, check=False)
        errors.seek(0)
        assert ran.returncode == 0, errors.read()[-3000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def make_changes(kind: str, count: int, columns: int, *, grouped: bool = False) -> Iterator[bytes]:
    """Yield the messages of one micro-batch, in transactions of _TRANSACTION changes if they are grouped."""
    envelopes = Envelopes(make_table(1, columns=columns), partial=kind == "partial")
    rng = random.Random(kind)
    first = {"load": 0, "merge": 1, "partial": 2}[kind] * count
    for number, operation in enumerate(["INSERT"] * count if kind == "load" else mix(count)):
        key = first + number if operation == "INSERT" else rng.randrange(count)
        event = number % _TRANSACTION + 1
        transaction = ((first + number) // _TRANSACTION, event, event == _TRANSACTION) if grouped else None
        yield envelopes.write(operation, key, first + number, transaction=transaction)


def describe(found: dict[str, Any], count: int) -> str:
    """Return what a job of some changes used."""
    memory = f"Python +{found['grown'] / 1e6:.0f} MB, heap {found['heap'] / 1e6:.0f} MB ({found['java'] / 1e6:.0f} MB)"
    cost = f"{found['processor'] / count * 1e6:.1f} us of processor time a change, {found['seconds']:.1f} s"
    return f"{memory}, {found['rows']:,} rows in the driver; {cost}"


def bench_batches(report: Report, directory: Path, count: int, kinds: dict[str, tuple[str, ...]], *, columns: int = 10) -> None:
    """Micro-batches of one size, each in the ways given."""
    work = directory / f"batches-{count}-{columns}"
    make_log((work / "log").as_uri(), [make_table(1, columns=columns)])
    for kind, ways in kinds.items():
        send((work / "log").as_uri(), make_changes(kind, count, columns))
        for way in ways:
            executors = 1 if way.endswith(", 1") else 2
            found = start_job(work, way.removesuffix(", 1"), executors=executors)
            report.line(f"{kind:7} of {count:>10,} x {columns:3} columns, {way:12}: {describe(found, count)}")
    shutil.rmtree(work)


def bench_modes(report: Report, directory: Path, count: int, modes: tuple[str, ...]) -> None:
    """Micro-batches of one size into tables with further settings, by executors."""
    work = directory / f"modes-{count}"
    make_log((work / "log").as_uri(), [make_table(1)])
    for kind in ("load", "merge"):
        send((work / "log").as_uri(), make_changes(kind, count, 10, grouped=True))
        for mode in modes:
            found = start_job(work, "executors", mode=mode)
            report.line(f"{kind:7} of {count:>10,} x {10:3} columns, {mode:12}: {describe(found, count)}")
    shutil.rmtree(work)


def send_rounds(work: Path, tables: int, rounds: int) -> None:
    """Send inserts for each table, then updates, table by table in each round."""
    writers = [Envelopes(make_table(number)) for number in range(tables)]

    def values() -> Iterator[bytes]:
        for at in range(rounds):
            for change in range(_CHANGES_A_TABLE):
                for writer in writers:
                    yield writer.write("INSERT" if at == 0 else "UPDATE", change, at * _CHANGES_A_TABLE + change)

    send((work / "log").as_uri(), values())


def bench_tables(report: Report, directory: Path, tables: int, way: str, *, in_store: bool, rounds: int = _ROUNDS) -> None:
    """Few changes for each of some tables."""
    work = directory / f"tables-{tables}-{way}-{in_store}"
    make_log((work / "log").as_uri(), [make_table(number) for number in range(tables)])
    send_rounds(work, tables, rounds)
    most = tables * _CHANGES_A_TABLE
    if not in_store:
        found, requests = start_job(work, way, most=most), 0
    else:
        with S3Server() as store:
            found = start_job(work, way, most=most, store=store)
            requests = len(store.requests())
    first, last = found["rounds"][0], found["rounds"][-1]
    merges = last[1] - first[1]
    each = (last[0] - first[0]) / merges * 1e3 if merges else 0.0
    told = f"{tables:5} tables, {way:9}, {'S3 server' if in_store else 'directory'}: first micro-batch {first[0]:.1f} s, then "
    told += f"{each:.0f} ms a merge ({merges:,} merges); Python +{found['grown'] / 1e6:.0f} MB, heap {found['heap'] / 1e6:.0f} MB"
    if requests:
        told += f"; {requests / last[1]:.1f} requests a merge, with the making of the tables and the checkpoint"
    report.line(told)


def bench_small(report: Report, directory: Path, way: str, tables: int = 50, rows: int = 1000, changes: int = 100) -> None:
    """Some changes for each of some small tables, after a first micro-batch with their rows."""
    work = directory / f"small-{way}".replace(" ", "-")
    made = [make_table(number) for number in range(tables)]
    make_log((work / "log").as_uri(), made)
    writers = [Envelopes(table) for table in made]
    send((work / "log").as_uri(), (writer.write("INSERT", key, key) for key in range(rows) for writer in writers))
    updates = ((key * rows // changes, rows + key) for key in range(changes))
    send((work / "log").as_uri(), (writer.write("UPDATE", key, at) for key, at in updates for writer in writers))
    found = start_job(work, way, most=tables * rows)
    (first_s, first_merges), (last_s, last_merges) = found["rounds"][0], found["rounds"][-1]
    merges, taken_s = last_merges - first_merges, last_s - first_s
    report.line(
        f"{tables:5} tables of {rows:,} rows, {way:10}: {changes} changes each in {taken_s:.1f} s, "
        f"{taken_s / merges * 1e3:.0f} ms a merge ({merges} merges); {found['processor']:.0f} s of processor time in all"
    )


def main() -> None:
    """Run all of it, or one job."""
    if "--job" in sys.argv:
        work, way, mode, most, executors, store = sys.argv[sys.argv.index("--job") + 1 :]
        name = f"{way}-{mode}-{executors}".replace(" ", "-")
        print(json.dumps(run_job(Path(work), way, mode, name, int(most), int(executors), store)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller micro-batches, nothing written")
    parser.add_argument("--parts", default="batches,tables,large,modes,largest", help="some of these parts")
    given = parser.parse_args()
    parts, quick = given.parts.split(","), given.quick
    began = time.monotonic()
    everything = ("executors", "driver", "by hand")
    with (
        tempfile.TemporaryDirectory(prefix="headstream-bench-") as name,
        Report("replicate_cluster", write=not quick) as report,
    ):
        directory = Path(name)
        if "batches" in parts:
            small = 20_000 if quick else 200_000
            bench_batches(report, directory, small, {"load": everything, "merge": everything, "partial": everything[:2]})
        if "tables" in parts:
            for tables in (1, 20) if quick else (1, 200, 2000):
                bench_tables(report, directory, tables, "executors", in_store=False)
            for tables in (1,) if quick else (1, 200):
                bench_tables(report, directory, tables, "executors", in_store=True)
            bench_tables(report, directory, 5 if quick else 20, "driver", in_store=False)
        if "small" in parts:
            for way in ("executors", "spark only"):
                bench_small(report, directory, way)
        if "large" in parts:
            large = 100_000 if quick else 2_000_000
            ways = (*everything, "executors, 1")
            kinds = {"load": ways, "merge": ways, "partial": everything[:1]}
            bench_batches(report, directory, large, kinds)
        if "modes" in parts:
            for count in (20_000,) if quick else (200_000, 2_000_000):
                bench_modes(report, directory, count, ("type 2", "changes", "atomic"))
        if "largest" in parts:
            alone = everything[:1]
            bench_batches(report, directory, 1_000 if quick else 1_000_000, {"load": alone}, columns=200)
            bench_batches(report, directory, 10_000 if quick else 10_000_000, {"load": alone, "merge": alone}, columns=20)
        report.line(f"{(time.monotonic() - began) / 60:.0f} minutes in all, other work beside it")


if __name__ == "__main__":
    main()
