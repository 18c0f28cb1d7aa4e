"""Reading and writing a log behind a server (TCP) beside the same log as files, and beside Spark's Kafka source, local[2].

reader     what an executor does, without Spark, one task after the other: fetched or read from files, to Arrow
source     spark.read.format("headstream") into `noop`; with --kafka Spark's Kafka source reads the same messages
sink       the rows of one topic into another: staged at the server, or in files

The server runs in a process of its own, on the same machine: it shares the two cores with Spark.

    python -m bench.spark_tcp [--messages 2000000] [--rounds 4] [--kafka]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import headstream as hs
from bench.machine import Report
from bench.spark_kafka import anchor_frames, filled_broker
from bench.spark_source import TOPIC, make_log, measure, to_noop
from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.spark import session, stop
from headstream.spark.source.options import parse_options
from headstream.spark.source.reader import read_task
from headstream.spark.source.source import HeadstreamReader
from tests.support.server.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHAPES: Final = {
    "payload only": {"headers": "none", "columns": "payload"},
    "all columns, headers=binary": {"headers": "binary"},
    "all columns, headers=variant": {"headers": "variant"},
}
_COPY: Final = "bench/copy"


def bench_reader(report: Report, urls: dict[str, str], messages: int, rounds: int) -> None:
    def run(url: str, given: dict[str, str]) -> Callable[[], None]:
        parsed = parse_options({"url": url, "subscribe": TOPIC, **given})
        tasks = [partition.value for partition in HeadstreamReader(parsed).partitions()]

        def read() -> None:
            assert sum(batch.num_rows for task in tasks for batch in read_task(task)) == messages

        return read

    runs = {f"{name}, {shape}": run(url, given) for shape, given in _SHAPES.items() for name, url in urls.items()}
    for name, (seconds, _) in measure(runs, rounds).items():
        report.line(f"  reader, {name:40} {messages / seconds / 1e6:5.2f} M rows/s")


def bench_source(report: Report, spark: SparkSession, urls: dict[str, str], messages: int, rounds: int, *, kafka: bool) -> None:
    def measured(frames: dict[str, Callable[[], None]]) -> None:
        for name, (clock, _) in measure(frames, rounds).items():
            report.line(f"  source, {name:40} {messages / clock / 1e6:5.2f} M rows/s")

    runs = {
        f"{name}, {shape}": to_noop(spark.read.format("headstream").options(url=url, subscribe=TOPIC, **given).load())
        for shape, given in _SHAPES.items()
        for name, url in urls.items()
    }
    if not kafka:
        measured(runs)
        return
    with filled_broker(spark, messages, 100) as broker:
        measured(runs | {name: to_noop(frame) for name, frame in anchor_frames(spark, broker).items()})


def bench_sink(report: Report, spark: SparkSession, urls: dict[str, str], messages: int, rounds: int) -> None:
    rows = spark.read.format("headstream").options(url=urls["file"], subscribe=TOPIC, headers="binary").load()
    rows = rows.select("key", "headers", "payload").cache()
    assert rows.count() == messages

    def write(url: str) -> Callable[[], None]:
        return lambda: rows.write.format("headstream").mode("append").options(url=url, topic=_COPY).save()

    for name, (clock, _) in measure({name: write(url) for name, url in urls.items()}, rounds).items():
        report.line(f"  sink, {name:42} {messages / clock / 1e6:5.2f} M rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--parts", default="reader,source,sink")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    parts: list[str] = given.parts.split(",")
    with tempfile.TemporaryDirectory() as work, Report("spark_tcp", write=given.write) as report:
        directory = Path(work) / "log"
        make_log(directory, given.messages, 100)
        with hs.connect(directory.as_uri()) as log:
            log.create_topic(_COPY, partitions=2)
        with ServerProcess(directory) as server:
            host, port = server.tcp
            tcp = f"headstream://{DEFAULT_USERNAME}:{DEFAULT_PASSWORD}@{host}:{port}"
            urls = {"file": directory.as_uri(), "tcp": tcp}
            report.line(f"{given.messages:,} messages of 100 B, three headers, 2 partitions")
            if "reader" in parts:
                bench_reader(report, urls, given.messages, given.rounds)
            spark = session("bench", master="local[2]", config={"spark.driver.memory": "2g"})
            if "source" in parts:
                bench_source(report, spark, urls, given.messages, given.rounds, kafka=given.kafka)
            if "sink" in parts:
                bench_sink(report, spark, urls, given.messages, given.rounds)
            stop(spark)


if __name__ == "__main__":
    main()
