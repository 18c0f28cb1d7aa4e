"""A micro-batch of ten rows: our source and our sink, each alone beside Spark's rate source and `noop`, and both together.

    rate -> noop             the anchor: what Spark itself costs
    source -> noop           a log in a directory, and behind a server: what reading adds
    rate -> sink             what writing adds: a commit that outlives a power cut
    source -> sink           a stream that copies

Queries run in turn, several times, each going on from its checkpoint; of each run the first batches do not count. Shown
are medians, and where the time goes by Spark's own account; results in results/spark_micro_batch.txt.

    python -m bench.spark_micro_batch [--rounds 3] [--batches 80]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import headstream as hs
from bench.machine import Report
from bench.spark_source import TOPIC, make_log
from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.spark import session, stop
from tests.support.server.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ROWS: Final = 10
_COPY: Final = "bench/copy"
_UNCOUNTED: Final = 20
"""Batches at the beginning of a run that do not count: processes start, code is compiled."""
_PARTS: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


def rate(spark: SparkSession) -> DataFrame:
    """Return Spark's own source of so many rows a batch, as payloads."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS).option("numPartitions", 1).load()
    return rows.selectExpr("CAST(value AS STRING) AS payload")


def source(spark: SparkSession, url: str) -> DataFrame:
    """Return our source with so many rows a batch."""
    frame = spark.readStream.format("headstream").options(url=url, subscribe=TOPIC, headers="binary")
    return frame.option("maxOffsetsPerTrigger", _ROWS).load().select("key", "headers", "payload")


def sink(frame: DataFrame, url: str) -> DataStreamWriter:
    """Return what writes into our log."""
    return frame.writeStream.format("headstream").options(url=url, topic=_COPY)


def run(writer: DataStreamWriter, checkpoint: Path, batches: int) -> list[dict[str, int]]:
    """Let a query run for so many batches more, and return what each that counts has taken, by part, milliseconds."""
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        first = None
        while first is None or (progress := query.lastProgress) is None or progress.batchId < first + batches:
            if (failure := query.exception()) is not None:
                raise failure
            time.sleep(0.05)
            if first is None and query.lastProgress is not None:
                first = query.lastProgress.batchId
        return [dict(each.durationMs) for each in query.recentProgress if each.batchId >= first + _UNCOUNTED]
    finally:
        query.stop()


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=80)
    parser.add_argument("--draft", action="store_true", help="do not write the result down")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, Report("spark_micro_batch", write=not given.draft) as report:
        directory, served = Path(work) / "log", Path(work) / "served"
        for each in (directory, served):
            make_log(each, 200_000, 100)
            with hs.connect(each.as_uri()) as log:
                log.create_topic(_COPY, partitions=2)
        with ServerProcess(served) as server:
            host, port = server.tcp
            file, tcp = directory.as_uri(), f"headstream://{DEFAULT_USERNAME}:{DEFAULT_PASSWORD}@{host}:{port}"
            spark = session("bench", master="local[2]", config={"spark.driver.memory": "2g"})
            queries = {
                "rate -> noop": rate(spark).writeStream.format("noop"),
                "file -> noop": source(spark, file).writeStream.format("noop"),
                "tcp -> noop": source(spark, tcp).writeStream.format("noop"),
                "rate -> file": sink(rate(spark), file),
                "rate -> tcp": sink(rate(spark), tcp),
                "file -> file": sink(source(spark, file), file),
                "tcp -> tcp": sink(source(spark, tcp), tcp),
            }
            taken: dict[str, list[dict[str, int]]] = {name: [] for name in queries}
            for _ in range(given.rounds):
                for name, writer in queries.items():
                    taken[name] += run(writer, Path(work) / name.replace(" ", ""), given.batches)
            stop(spark)
        report.line(f"a micro-batch of {_ROWS} rows, 2 partitions, local[2] and server on one machine; milliseconds, medians")
        for name, batches in taken.items():
            total = statistics.median(each["triggerExecution"] for each in batches)
            best = statistics.quantiles([each["triggerExecution"] for each in batches], n=10)[0]
            parts = ", ".join(f"{part} {statistics.median(each.get(part, 0) for each in batches):.0f}" for part in _PARTS)
            report.line(f"  {name:14} {total:4.0f}   one in ten within {best:3.0f}   ({parts})")


if __name__ == "__main__":
    main()
