"""The data source beside Spark's Kafka source and beside Parquet, into `noop`, in one run; results in results/spark_source.txt.

reader     what an executor does, without Spark: segment bytes to Arrow, one core
anchor     what Spark's Kafka source reads of a broker on this machine, and what the source reads that says the same
source     spark.read.format("headstream") by shape of headers, local[2]
parquet    the same rows and columns from Parquet files, and two columns of them
cpu        rows a second of processor time, JVM and workers together: what other work on the machine disturbs less
session    from nothing to the first row of the source, seconds

    python -m bench.spark_source [--messages 2000000] [--rounds 4]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import headstream as hs
from bench.machine import Report
from bench.spark_kafka import anchor_frames, filled_broker
from headstream.core.codec.binary import encode_sent
from headstream.log.opening import close_log, open_directory
from headstream.spark import session, stop
from headstream.spark.source.options import HeaderShape, parse_options
from headstream.spark.source.reader import read_task
from headstream.spark.source.source import HeadstreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "bench/messages"
BATCH: Final = 1000
SHAPES: Final[tuple[HeaderShape, ...]] = ("none", "binary", "variant", "array", "map")
DECLARED: Final = "attempt INT"
ANCHORED: Final[dict[str, tuple[tuple[str, dict[str, str]], ...]]] = {
    "kafka, value only": (("payload only", {"headers": "none", "columns": "payload"}),),
    "kafka, headers array": tuple(
        (f"headers={shape}", {"headers": shape, "columns": "payload,headers"}) for shape in ("variant", "map", "array", "binary")
    ),
    "kafka, one typed header": (
        ("one declared header", {"headers": "none", "columns": "payload", "headerColumns": DECLARED}),
        ("headers:attempt::int", {"headers": "variant", "columns": "payload,headers"}),
    ),
}
"""What the source reads beside each frame of the anchor."""


def make_log(directory: Path, messages: int, payload_bytes: int, partitions: int = 2) -> None:
    """Append batches of messages with three headers each; payloads are random, so that nothing compresses away."""
    generator = random.Random(7)
    batches = [
        encode_sent(
            hs.Message(
                payload=generator.randbytes(payload_bytes),
                headers=hs.Headers({"attempt": hs.uint8(number % 5), "source": "web", "total": number / 8}),
            )
            for number in range(BATCH)
        )
        for _ in range(20)
    ]
    with hs.connect(directory.as_uri()) as client:
        client.create_topic(TOPIC, partitions=partitions)
        log = open_directory(str(directory))
        topic = log.snapshot()["bench"].topics["messages"]
        for number in range(messages // BATCH):
            seed = generator.randbytes(16)
            log.append(topic, 1 + number % partitions, batches[number % 20], time.time_ns() // 1000, seed)
        close_log(log)


def options(directory: Path, shape: HeaderShape) -> dict[str, str]:
    return {"url": directory.as_uri(), "subscribe": TOPIC, "headers": shape}


def cpu_seconds() -> float:
    """Return what this process and all below it (the JVM, its Python workers) have used of the processors so far."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        used[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with those that have ended

    def is_ours(number: int) -> bool:
        while number > 1 and number != os.getpid():
            number = parents.get(number, 0)
        return number == os.getpid()

    return sum(seconds for number, seconds in used.items() if is_ours(number))


def measure(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, tuple[float, float]]:
    """Run each in turn, so many rounds, and return the seconds of each: the least by the clock, the median of the processors.

    One round before does not count. The least, because what else runs on the machine only ever adds; the median, because
    a worker that ends takes its seconds along.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for round_number in range(rounds + 1):
        for name, run in runs.items():
            began, used = time.perf_counter(), cpu_seconds()
            run()
            if round_number:
                times[name].append((time.perf_counter() - began, cpu_seconds() - used))
    return {
        name: (min(clock for clock, _ in pairs), statistics.median(used for _, used in pairs)) for name, pairs in times.items()
    }


def bench_reader(report: Report, directory: Path, messages: int, rounds: int) -> None:
    def run(shape: HeaderShape, **more: str) -> Callable[[], None]:
        parsed = parse_options(options(directory, shape) | more)
        tasks = [partition.value for partition in HeadstreamReader(parsed).partitions()]

        def read() -> None:
            count = sum(batch.num_rows for task in tasks for batch in read_task(task))
            assert count == messages

        return read

    runs = {f"headers={shape}": run(shape) for shape in SHAPES}
    runs[f"headerColumns={DECLARED}"] = run("none", headerColumns=DECLARED)
    runs["columns=payload"] = run("none", columns="payload")
    for name, (seconds, _) in measure(runs, rounds).items():
        report.line(f"  reader, one core, {name:28} {messages / seconds / 1e6:5.2f} M rows/s")


def to_noop(frame: DataFrame) -> Callable[[], None]:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def bench_anchor(report: Report, spark: SparkSession, directory: Path, messages: int, rounds: int) -> None:
    """Read the same messages from a broker with Spark's Kafka source, and from the log; the broker runs meanwhile."""
    with filled_broker(spark, messages, 100) as broker:
        frames = anchor_frames(spark, broker)
        for anchor, ours in ANCHORED.items():
            for name, given in ours:
                frame = spark.read.format("headstream").options(**options(directory, "variant") | given).load()
                if name.startswith("headers:"):
                    frame = frame.selectExpr("payload", name)
                frames[f"{anchor} | {name}"] = frame
        taken = measure({name: to_noop(frame) for name, frame in frames.items()}, rounds)
    for anchor, ours in ANCHORED.items():
        clock, cpu = taken[anchor]
        lines = {anchor: taken[anchor]} | {f"  headstream, {name}": taken[f"{anchor} | {name}"] for name, _ in ours}
        for line, (clock_here, cpu_here) in lines.items():
            report.line(
                f"  {line:40} {messages / clock_here / 1e6:5.2f} M rows/s {clock / clock_here:5.2f}"
                f"    {messages / cpu_here / 1e6:5.2f} M rows a CPU second {cpu / cpu_here:5.2f}"
            )


def bench_source(report: Report, spark: SparkSession, directory: Path, messages: int, rounds: int) -> None:
    frames: dict[str, DataFrame] = {}
    for shape in SHAPES:
        frames[f"headstream, headers={shape}"] = spark.read.format("headstream").options(**options(directory, shape)).load()
    for name, given in (
        ("payload", {"headers": "none"}),
        ("offset,payload", {"headers": "none"}),
        ("offset,payload,headers", {}),
    ):
        reader = spark.read.format("headstream").options(**options(directory, "variant") | given)
        frames[f"headstream, columns={name}"] = reader.option("columns", name).load()
    variant = frames["headstream, columns=offset,payload,headers"]
    frames["headstream, the same with headers:attempt::int"] = variant.selectExpr("offset", "payload", "headers:attempt::int")
    parquet = str(directory.parent / f"{directory.name}.parquet")
    frames["headstream, headers=none"].write.option("compression", "none").parquet(parquet)
    frames["parquet, the same columns"] = spark.read.parquet(parquet)
    frames["parquet, offset and payload"] = spark.read.parquet(parquet).select("offset", "payload")
    taken = measure({name: to_noop(frame) for name, frame in frames.items()}, rounds)
    clock_anchor, cpu_anchor = taken["parquet, the same columns"]
    for name, (clock, cpu) in taken.items():
        report.line(
            f"  {name:46} {messages / clock / 1e6:5.2f} M rows/s {clock_anchor / clock:5.2f}"
            f"    {messages / cpu / 1e6:5.2f} M rows a CPU second {cpu_anchor / cpu:5.2f}"
        )


START: Final = """
import sys, time
began = time.perf_counter()
from headstream.spark import session, stop
spark = session(master="local[2]", quick_start=sys.argv[2] == "quick")
started = time.perf_counter()
frame = spark.read.format("headstream").option("url", sys.argv[1]).option("subscribe", "bench/messages").load()
frame.limit(1).collect()
print(started - began, time.perf_counter() - started)
stop(spark)
"""


def bench_session(report: Report, directory: Path) -> None:
    for name in ("throughput", "quick"):
        command = [sys.executable, "-c", START, directory.as_uri(), name]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        start, first = map(float, ran.stdout.split())
        report.line(f"  session, made for {name:11} {start:4.1f} s to start, {first:4.1f} s to the first row of the source")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--parts", default="reader,anchor,source,session")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    parts: list[str] = arguments.parts.split(",")
    with tempfile.TemporaryDirectory() as work, Report("spark_source", write=arguments.write) as report:
        small, big = Path(work) / "small", Path(work) / "big"
        make_log(small, arguments.messages, 100)
        sizes: list[tuple[Any, ...]] = [(small, arguments.messages, "100 B")]
        if "source" in parts:
            make_log(big, arguments.messages // 10, 1000)
            sizes.append((big, arguments.messages // 10, "1 KB"))
        if "session" in parts:
            bench_session(report, small)
        if "reader" in parts:
            for directory, messages, size in sizes:
                report.line(f"{messages:,} messages of {size}, three headers, 2 partitions")
                bench_reader(report, directory, messages, arguments.rounds)
        spark = session("bench", master="local[2]", config={"spark.driver.memory": "2g"})
        if "anchor" in parts:
            report.line(f"{arguments.messages:,} messages of 100 B into noop, local[2]; Spark's Kafka source is 1")
            bench_anchor(report, spark, small, arguments.messages, arguments.rounds)
        if "source" in parts:
            for directory, messages, size in sizes:
                report.line(f"{messages:,} messages of {size} into noop, local[2]; Parquet with the same columns is 1")
                bench_source(report, spark, directory, messages, arguments.rounds)
        stop(spark)


if __name__ == "__main__":
    main()
