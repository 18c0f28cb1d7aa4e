"""A trickle of changes, from the source's commit to the committed table; results in results/replicate_trickle.txt.

1,000 changes a second over 10 tables of 10,000 rows, sent one by one by a process of its own, the pipeline running beside it
(local[2]). Each change brings the time of its commit along; it is in its table when the commit of the table's log is written.
The first ten seconds are not counted. Beside it a hand-written job over such messages: foreachBatch, from_avro, a MERGE a
table.

    python -m bench.replicate_trickle [--quick]
"""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from deltalake import DeltaTable

from bench.machine import Report, run_benchmark
from bench.replicate_apply import merge_by_hand
from bench.replicate_messages import Envelopes, fill_table, make_config, make_log, make_table
from headstream.connect import connect
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.spark import session, stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES: Final = 10
ROWS: Final = 10_000
PER_SECOND: Final = 1000
_WARM_UP_SECONDS: Final = 10
_TICK_SECONDS: Final = 0.01


def send_trickle(url: str, seconds: float) -> None:
    """Send changes as they are committed: an update of a row each, in which the text `name <us>` says when."""
    writers = [Envelopes(make_table(number)) for number in range(TABLES)]
    rng = random.Random(1)
    sent, wanted = 0, int(seconds * PER_SECOND)
    with connect(url) as log, log.producer("cdc/data", linger_ms=5) as producer:
        began = time.time()
        while sent < wanted:
            while sent < min(wanted, (time.time() - began) * PER_SECOND):
                now_us = time.time_ns() // 1000
                moment = datetime.fromtimestamp(now_us // 1_000_000, UTC)
                sequence = f"{moment:%Y%m%d%H%M%S}{now_us % 1_000_000 // 10_000:02d}{sent:019d}"
                key = rng.randrange(ROWS)
                producer.send(writers[sent % TABLES].write("UPDATE", key, now_us, sequence=sequence), key=b"%d" % key)
                sent += 1
            time.sleep(_TICK_SECONDS)


def read_lags(path: Path, since_us: int) -> list[float]:
    """Return how long after its commit each change was in the table, seconds, by the table's own versions.

    A change that a later one of the same micro-batch replaced is not seen: that one was newer.
    """
    lags: list[float] = []
    newest_us = since_us
    for version in range(1, DeltaTable(str(path)).version() + 1):
        written_us = (path / f"_delta_log/{version:020d}.json").stat().st_mtime_ns // 1000
        names = DeltaTable(str(path), version=version).to_pyarrow_table(columns=["c2"])["c2"].combine_chunks()
        times = np.array([int(name[5:]) for name in names.to_pylist()])
        fresh = times[times > newest_us]
        if fresh.size:
            lags += ((written_us - fresh) / 1e6).tolist()
            newest_us = int(fresh.max())
    return lags


def run_trickle(work: Path, seconds: float) -> tuple[multiprocessing.Process, int]:
    """Start sending; return the process, and from when on changes count."""
    context = multiprocessing.get_context("spawn")
    sender = context.Process(target=send_trickle, args=((work / "log").as_uri(), seconds + _WARM_UP_SECONDS))
    sender.start()
    return sender, time.time_ns() // 1000 + _WARM_UP_SECONDS * 1_000_000  # type: ignore[return-value]


def prepare(work: Path) -> list[Path]:
    """Make a log and filled tables; return where the tables are."""
    tables = [make_table(number) for number in range(TABLES)]
    make_log((work / "log").as_uri(), tables)
    paths = [work / "tables/shop" / table.lineage.table for table in tables]
    for path in paths:
        fill_table(path, ROWS)
    return paths


def bench_ours(report: Report, spark: SparkSession, work: Path, seconds: float) -> list[float]:
    """The pipeline."""
    paths = prepare(work)
    pipeline = ReplicatePipeline(spark, make_config(work))
    run = threading.Thread(target=pipeline.run)
    run.start()
    send_trickle((work / "log").as_uri(), 0.1)
    wait_for_changes(pipeline, PER_SECOND // 10)  # Spark has started, the tables are open
    sender, since_us = run_trickle(work, seconds)
    sender.join()
    assert sender.exitcode == 0
    wait_for_changes(pipeline, PER_SECOND // 10 + int((seconds + _WARM_UP_SECONDS) * PER_SECOND))
    batches = pipeline.status()["run"]["batches"]
    pipeline.stop()
    run.join()
    lags = [lag for path in paths for lag in read_lags(path, since_us)]
    told(report, "headstream", lags, f"{batches} micro-batches")
    return lags


def wait_for_changes(pipeline: ReplicatePipeline, count: int) -> None:
    """Wait until the pipeline has applied so many changes."""
    until = time.monotonic() + 300
    while (pipeline.status()["run"] or {}).get("changes", 0) < count:
        assert time.monotonic() < until, "the pipeline does not keep up"
        time.sleep(0.1)


def bench_theirs(report: Report, spark: SparkSession, work: Path, seconds: float) -> list[float]:
    """The hand-written job."""
    paths = prepare(work)
    tables = [make_table(number) for number in range(TABLES)]

    def apply(batch: DataFrame, number: int) -> None:
        batch.persist()
        for table, path in zip(tables, paths, strict=True):
            merge_by_hand(batch, table, path)
        batch.unpersist()

    stream = spark.readStream.format("headstream").option("url", (work / "log").as_uri()).option("subscribe", "cdc/data")
    writer = stream.option("startingOffsets", "earliest").option("headers", "none").load().writeStream.foreachBatch(apply)
    query = writer.option("checkpointLocation", str(work / "c")).start()
    send_trickle((work / "log").as_uri(), 0.1)
    query.processAllAvailable()
    sender, since_us = run_trickle(work, seconds)
    sender.join()
    query.processAllAvailable()
    query.stop()
    lags = [lag for path in paths for lag in read_lags(path, since_us)]
    told(report, "hand-written", lags, "a MERGE a table")
    return lags


def told(report: Report, name: str, lags: list[float], how: str) -> None:
    """Report one side."""
    half, most, worst = np.quantile(lags, [0.5, 0.95, 1.0])
    report.line(
        f"trickle, {PER_SECOND:,} changes/s over {TABLES} tables, {name:12} ({how}): "
        f"p50 {half:.2f} s, p95 {most:.2f} s, worst {worst:.2f} s of {len(lags):,} changes"
    )


def main() -> None:
    """Run all of it."""
    with run_benchmark("replicate_trickle", __doc__, "a few seconds, nothing written") as (report, directory, quick):
        spark = session("bench-replicate", master="local[2]", config={"spark.driver.memory": "2g"})
        try:
            ours = bench_ours(report, spark, directory / "ours", 10 if quick else 40)
            theirs = bench_theirs(report, spark, directory / "theirs", 5 if quick else 20)
            report.line(f"trickle, p95: hand-written / headstream {np.quantile(theirs, 0.95) / np.quantile(ours, 0.95):.1f} x")
        finally:
            stop(spark)


if __name__ == "__main__":
    main()
