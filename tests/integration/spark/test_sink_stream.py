"""Writing streams into a log: each batch once, whatever comes again, fails or is killed; the lock held by this process."""

from __future__ import annotations

import random
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import QueryTerminatedEvent

import headstream as hs
from headstream.log.segments.layout import INBOX_NAME, STAGED_NAME
from headstream.spark.connection.spark_versions import HAS_LIMITS
from headstream.spark.lag import LagListener
from headstream.testing.local_server import LocalServer
from tests.support.killed_jobs import Job
from tests.support.spark_versions import limited, needs_spark_4_2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def send(log: hs.Client, count: int, first: int = 0) -> None:
    with log.producer("shop/orders") as producer:
        for number in range(first, first + count):
            producer.send(b"%d" % number, key=b"%d" % (number % 17), headers={"n": hs.uint8(number % 256)})


def payloads(log: hs.Client, topic: str) -> list[int]:
    return [
        int(message.payload or b"")
        for partition in log.topic(topic).partitions
        for message in log.poll(topic, partition.number, start="first", count=1_000_000)
    ]


def read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders")
    return reader.option("headers", "array").options(**options).load()


def run(frame: DataFrame, url: str, checkpoint: Path, **options: str) -> None:
    writer = frame.writeStream.format("headstream").option("url", url).option("topic", "shop/copy").options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()


class _Written(LagListener):
    """Keeps the metrics of a query until it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()
        self.text = ""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.text = self.metrics_text()
        self.ended.set()


def leftovers(directory: Path) -> list[Path]:
    return [path for name in (STAGED_NAME, INBOX_NAME) for path in (directory / name).rglob("*") if path.is_file()]


@pytest.mark.parametrize("url", [pytest.param("file", marks=pytest.mark.nightly), "tcp"], indirect=True)
def test_a_batch_that_comes_again_changes_nothing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with hs.connect(url) as log:  # the writer, as in a notebook that has made the topics
        log.create_topic("shop/orders", partitions=2)
        log.create_topic("shop/copy", partitions=3)
        send(log, 1000)
        frame = read(spark, url, **limited(300)).select("key", "payload", "headers", "id")
        checkpoint = tmp_path / "checkpoint"
        listener = _Written()
        spark.streams.addListener(listener)
        run(frame, url, checkpoint)
        assert sorted(payloads(log, "shop/copy")) == list(range(1000))
        assert listener.ended.wait(120)
        spark.streams.removeListener(listener)
        assert re.search(r"^headstream_sink_rows_total\{.*\} 1000\.0$", listener.text, re.MULTILINE)
        commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        commits[-1].unlink()  # as when the driver dies between the log's commit and Spark's
        (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
        send(log, 500, 1000)
        for _ in range(1 if HAS_LIMITS else 2):  # before 4.2 a run has one micro-batch, first the repeated one
            run(frame.repartition(3), url, checkpoint)  # in another order, and in other tasks
        assert sorted(payloads(log, "shop/copy")) == list(range(1500))
        run(frame, url, tmp_path / "another checkpoint")  # another query: it is all new
        assert sorted(payloads(log, "shop/copy")) == sorted([*range(1500), *range(1500)])
        assert leftovers(tmp_path / "log") == []
    originals = Counter(message.id for message in _messages(url, "shop/orders"))
    assert Counter(message.id for message in _messages(url, "shop/copy")) == originals + originals


def _messages(url: str, topic: str) -> list[hs.Message]:
    with hs.connect(url) as log:
        return [
            message
            for partition in log.topic(topic).partitions
            for message in log.poll(topic, partition.number, start="first", count=1_000_000)
        ]


@pytest.mark.parametrize("url", ["file", pytest.param("tcp", marks=pytest.mark.nightly)], indirect=True)
def test_a_batch_that_fails_leaves_nothing_and_comes_again(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        log.create_topic("shop/copy")
        send(log, 100)
        frame = read(spark, url).selectExpr("payload", "IF(CAST(payload AS STRING) = '77', NULL, payload) p")
        with pytest.raises(PySparkException, match="without payload is outside the iggy limits"):
            run(frame.selectExpr("p AS payload"), url, tmp_path / "checkpoint")
        assert payloads(log, "shop/copy") == []
        run(frame.selectExpr("p AS payload"), url, tmp_path / "checkpoint", badRowsPath=str(tmp_path / "bad"))
        assert sorted(payloads(log, "shop/copy")) == [number for number in range(100) if number != 77]
        assert leftovers(tmp_path / "log") == []  # also of tasks that still ran when the first try was given up
        assert spark.read.parquet(str(tmp_path / "bad")).count() == 1


def test_a_stream_refuses_what_is_for_batches(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        log.create_topic("shop/copy")
    frame = read(spark, url).select("payload")
    with pytest.raises(PySparkException, match="txnAppId and txnVersion are supported only in batch writes"):
        run(frame, url, tmp_path / "checkpoint", txnAppId="a", txnVersion="1")
    counts = frame.groupBy("payload").count().drop("count")
    writer = counts.writeStream.format("headstream").option("url", url).option("topic", "shop/copy").outputMode("complete")
    query = writer.option("checkpointLocation", str(tmp_path / "other")).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match="a log is append-only"):
        query.awaitTermination(300)


JOB = """
import random, sys
from headstream.spark import session
url, server, directory, seed = sys.argv[1:]

def disorder(batches):
    from pyspark import TaskContext
    rng = random.Random()
    for batch in batches:
        rows = list(range(batch.num_rows))
        rng.shuffle(rows)
        yield batch.take(rows)
    if rng.random() < 0.15 and TaskContext.get().attemptNumber() < 3:
        raise RuntimeError("a task that fails after its last row")

spark = session(master="local[2,4]", quick_start=True, config={"spark.ui.enabled": "false"})
frame = (spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders")
    .option("headers", "array").option("maxOffsetsPerTrigger", "225").load().select("key", "payload", "headers", "id"))
mixed = frame.mapInArrow(disorder, frame.schema)
served = (spark.readStream.format("headstream").option("url", server)
    .option("subscribe", "shop/orders").option("headers", "array").option("maxOffsetsPerTrigger", "225").load()
    .select("key", "payload", "headers", "id").mapInArrow(disorder, frame.schema))
queries = [
    mixed.writeStream.format("headstream").option("url", url).option("topic", "shop/copy")
        .option("checkpointLocation", directory + "/to-log").trigger(availableNow=True).start(),
    served.writeStream.format("headstream").option("url", server).option("topic", "shop/served")
        .option("checkpointLocation", directory + "/to-server").trigger(availableNow=True).start(),
    mixed.select("payload").writeStream.format("delta").option("checkpointLocation", directory + "/to-delta")
        .trigger(availableNow=True).start(directory + "/table"),
]
for query in queries:
    query.awaitTermination()
"""


def start(url: str, server: str, directory: Path, seed: int) -> Job:
    return Job([sys.executable, "-c", JOB, url, server, str(directory), str(seed)], directory)


def count_batches(directory: Path) -> int:
    return sum(1 for name in ("to-log", "to-server", "to-delta") for _ in (directory / name / "commits").glob("[0-9]*"))


def run_killed(tmp_path: Path, seed: int, kills: int, first: int = 3000) -> None:
    """Kill a job that streams from a log into a log and a table, JVM and all, and let it end at last.

    It reads and writes the log's directory, and does the same through the server that has it: both at once.
    """
    url, rng = (tmp_path / "log").as_uri(), random.Random(seed)
    with LocalServer(tmp_path / "log") as server, hs.connect(server.url) as log:  # it keeps the writer's lock throughout
        for topic in ("shop/orders", "shop/copy", "shop/served"):
            log.create_topic(topic, partitions=3)
        send(log, first)
        for _ in range(kills):
            job = start(url, server.url, tmp_path, seed)
            job.kill_at_work(lambda: count_batches(tmp_path), rng.randint(1, 12), rng.random() * 0.3)
        send(log, 100, first)
        start(url, server.url, tmp_path, seed).finish()
        for topic in ("shop/copy", "shop/served"):
            assert sorted(payloads(log, topic)) == list(range(first + 100)), f"seed {seed}, {topic}"
    table = DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert sorted(int(value) for value in table["payload"].to_pylist()) == list(range(first + 100)), f"seed {seed}"


@needs_spark_4_2
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kills", "first"), [(1, 450), pytest.param(2, 3000, marks=pytest.mark.nightly)])
def test_a_stream_that_is_killed_loses_and_repeats_nothing(tmp_path: Path, kills: int, first: int) -> None:
    run_killed(tmp_path, seed=1, kills=kills, first=first)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_stream_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    run_killed(tmp_path, seed=seed, kills=5, first=6000)  # more than five times twelve batches
