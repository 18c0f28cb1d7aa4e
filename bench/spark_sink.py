"""Writing with Spark into our log beside Spark's Kafka sink, the same rows in one run; results in results/spark_sink.txt.

rows       payloads of 100 B and three headers, kept in Spark's memory, so that making them is no part of it
headstream payload alone | by key | three header columns | headers as an array
kafka      value alone | with the headers array, into a broker on this machine
dropped    the same columns into a Python sink that drops them: what Spark itself takes to bring rows to Python, which no
           Python sink can be quicker than
noop       payload alone, not leaving the JVM

python -m bench.spark_sink [--messages 2000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage

import headstream as hs
from bench.machine import Report
from bench.spark_kafka import generate, kafka_writer, measure
from headstream.spark import session, stop
from headstream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PAYLOAD_BYTES = 100
ANCHOR = {"kafka, value alone": False, "kafka, headers array": True}


def rows_of(spark: SparkSession, messages: int) -> DataFrame:
    """Return the rows, in memory."""
    made = generate(spark, messages, PAYLOAD_BYTES)
    typed = ["payload", "headers", "substr(payload, 1, 8) key", "CAST(hash(payload) % 5 AS INT) attempt", "'web' source"]
    rows = made.selectExpr(*typed, "hash(payload) / 8D total").persist()
    rows.count()
    return rows


def writer(rows: DataFrame, url: str, *columns: str, **options: str) -> Callable[[], None]:
    """Return a call that writes some columns into our log."""
    frame = rows.select(*columns).write.format("headstream").mode("append")
    return frame.option("url", url).option("topic", "bench/messages").options(**options).save


class DroppingWriter(DataSourceArrowWriter):
    """Takes every batch, and does nothing with it."""

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Take a task's batches."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class DroppingSink(DataSource):
    """`format("dropping")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what takes the rows."""
        return DroppingWriter()


def dropped(rows: DataFrame, *columns: str) -> Callable[[], None]:
    """Return a call that brings some columns to Python, and no further."""
    return rows.select(*columns).write.format("dropping").mode("append").save


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--draft", action="store_true", help="do not write the result down")
    arguments = parser.parse_args()
    messages = arguments.messages
    spark = session("bench", master="local[2]", config={"spark.driver.memory": "3g"})
    try:
        with (
            Report("spark_sink", write=not arguments.draft) as report,
            KafkaBroker(heap_mb=1024) as broker,
            tempfile.TemporaryDirectory() as scratch,
        ):
            url = (Path(scratch) / "log").as_uri()
            with hs.connect(url) as log:
                log.create_topic("bench/messages", partitions=2)

            def purge() -> None:
                with hs.connect(url) as log:
                    log.purge_topic("bench/messages")

            broker.create_topic("bench.written", 2)
            rows = rows_of(spark, messages)
            ours = {
                "headstream, payload alone": writer(rows, url, "payload"),
                "headstream, by key": writer(rows, url, "payload", "key"),
                "headstream, three header columns": writer(
                    rows, url, "payload", "attempt", "source", "total", headerColumns="attempt, source, total"
                ),
                "headstream, headers array": writer(rows, url, "payload", "headers"),
            }
            anchor = {
                name: kafka_writer(rows.select("payload", "headers"), broker, "bench.written", headers=headers)
                for name, headers in ANCHOR.items()
            }
            spark.dataSource.register(DroppingSink)
            floor = {
                "dropped, payload alone": dropped(rows, "payload"),
                "dropped, three header columns": dropped(rows, "payload", "attempt", "source", "total"),
                "dropped, headers array": dropped(rows, "payload", "headers"),
            }
            noop = {"noop, payload alone": rows.select("payload").write.format("noop").mode("overwrite").save}
            report.line(f"{messages} rows of {PAYLOAD_BYTES} B from memory into 2 partitions, local[2] and broker on one machine")
            seconds = measure({**ours, **anchor, **floor, **noop}, arguments.rounds, purge)
            plain, full = (seconds[name] for name in ANCHOR)
            for name, each in seconds.items():
                beside = plain if "alone" in name or "key" in name else full
                ratio = f"{beside / each:5.2f} x kafka" if name in ours else ""
                report.line(f"  {name:36} {messages / each / 1e6:5.2f} M rows/s  {ratio}".rstrip())
    finally:
        stop(spark)


if __name__ == "__main__":
    main()
