"""Streaming reads of a log, by real Spark."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import headstream as hs
from headstream.errors import InvalidOptionError
from tests.support.spark_versions import limited, needs_spark_4_2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Sink:
    """Collects what micro-batches bring, with the batch each row came in."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, int]]] = []

    def take(self, frame: DataFrame, batch_id: int) -> None:
        table = frame.select("partition", "offset").toArrow()
        self.batches.append(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for batch in self.batches for row in batch)


def stream(spark: SparkSession, url: str, sink: Sink, checkpoint: Path, options: dict[str, str]) -> DataStreamWriter:
    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders").options(**options)
    return reader.load().writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))


def run(spark: SparkSession, url: str, checkpoint: Path, **options: str) -> Sink:
    """Read what is there and end."""
    sink = Sink()
    query = stream(spark, url, sink, checkpoint, options).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return sink


def send(url: str, count: int, *, partitions: int = 2, first: int = 0) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=partitions, if_not_exists=True)
        with log.producer("shop/orders") as producer:
            for number in range(first, first + count):
                producer.send(str(number).encode(), partition=1 + number % partitions, headers={"n": number})


def every(count: int, *, start: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in (1, 2) for offset in range(start, count // 2)]


def last_offsets(checkpoint: Path) -> dict[str, Any]:
    newest = max((path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    offsets: dict[str, Any] = json.loads(newest.read_text().splitlines()[-1])
    return offsets


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("stopped")]


@pytest.mark.parametrize("url", ["file", "tcp"], indirect=True)
def test_stream_goes_on_where_it_ended_when_it_is_restarted(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 20)
    assert run(spark, url, tmp_path / "checkpoint").rows == every(20)
    assert run(spark, url, tmp_path / "checkpoint").batches == []
    send(url, 10, first=20)
    assert run(spark, url, tmp_path / "checkpoint").rows == every(30, start=10)
    offsets = last_offsets(tmp_path / "checkpoint")
    assert offsets["shop/orders"] == {"1": 15, "2": 15}
    assert list(offsets) == ["shop/orders", "identity"]


@needs_spark_4_2
def test_stream_takes_no_more_than_it_may_a_batch(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 30)
    sink = run(spark, url, tmp_path / "checkpoint", maxOffsetsPerTrigger="8")
    assert sink.rows == every(30)
    assert [len(batch) for batch in sink.batches] == [8, 8, 8, 6]
    assert all({partition for partition, _ in batch} == {1, 2} for batch in sink.batches)


def test_stream_starts_where_it_is_told(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 20)
    assert run(spark, url, tmp_path / "latest", startingOffsets="latest").rows == []
    chosen = run(spark, url, tmp_path / "chosen", startingOffsets='{"shop/orders": {"1": 8, "2": -1}}')
    assert chosen.rows == [(1, 8), (1, 9)]
    send(url, 2, first=20)
    assert run(spark, url, tmp_path / "latest", startingOffsets="latest").rows == [(1, 10), (2, 10)]


def test_stream_ends_with_what_was_there_when_messages_come_meanwhile(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 20)
    sink = Sink()

    def take(frame: DataFrame, batch_id: int) -> None:
        send(url, 2, first=20 + 2 * batch_id)
        sink.take(frame, batch_id)

    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders")
    frame = reader.options(**limited(10)).load()
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(60)
    assert sink.rows == every(20)


def test_stream_brings_what_is_appended_while_it_runs(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 4)
    sink = Sink()
    query = stream(spark, url, sink, tmp_path / "checkpoint", {}).start()
    with hs.connect(url) as log, log.producer("shop/orders") as producer:
        for number in range(4, 44):
            producer.send(str(number).encode(), partition=1 + number % 2)
            if number % 10 == 0:
                producer.flush()
                query.processAllAvailable()
        producer.flush()
        query.processAllAvailable()
    assert query.lastProgress is not None
    source = json.loads(query.lastProgress.json)["sources"][0]
    query.stop()
    assert sink.rows == every(44)
    assert len(sink.batches) > 1
    assert source["latestOffset"]["shop/orders"] == {"1": 22, "2": 22}


def test_stream_reads_a_segment_that_was_rolled_while_it_runs(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with hs.connect(url, segment_bytes=4096) as log:
        log.create_topic("shop/orders", partitions=2)
        sink = Sink()
        query = stream(spark, url, sink, tmp_path / "checkpoint", {}).start()
        with log.producer("shop/orders", batch_count=5) as producer:
            for number in range(300):
                producer.send(b"x" * 100, partition=1 + number % 2)
                if number % 100 == 50:
                    query.processAllAvailable()
        query.processAllAvailable()
        query.stop()
    assert sink.rows == every(300)
    assert len(list(Path(url.removeprefix("file://")).glob("streams/*/*/1/*.log"))) > 3


def test_stream_notices_a_log_that_was_made_again(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 20)
    run(spark, url, tmp_path / "checkpoint")
    shutil.rmtree(url.removeprefix("file://"))
    send(url, 40)
    with pytest.raises(StreamingQueryException, match="the log was deleted and recreated"):
        run(spark, url, tmp_path / "checkpoint")
    assert run(spark, url, tmp_path / "new").rows == every(40)


def test_stream_notices_a_topic_that_was_made_again(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 20)
    sink = Sink()
    query = stream(spark, url, sink, tmp_path / "checkpoint", {}).start()
    query.processAllAvailable()
    with hs.connect(url) as log:
        log.delete_topic("shop/orders")
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(40):
                producer.send(b"other", partition=1 + number % 2)
    with pytest.raises(StreamingQueryException, match=r"was deleted|there is no topic"):
        query.awaitTermination(60)
    with pytest.raises(StreamingQueryException, match="topic shop/orders was deleted and recreated"):
        run(spark, url, tmp_path / "checkpoint")
    assert sink.rows == every(20)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is only for batch reads"),
        ({"startingOffsets": '{"shop/orders": {"1": 99, "2": 0}}'}, "offsets 99 to 2 cannot all be read"),
        ({"subscribe": "shop/nothing"}, "there is no topic 'shop/nothing'"),
    ],
)
def test_stream_says_what_is_wrong_when_it_cannot_read(
    spark: SparkSession, url: str, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    send(url, 4)
    with pytest.raises(StreamingQueryException, match=said):
        run(spark, url, tmp_path / "checkpoint", **options)


@needs_spark_4_2
@pytest.mark.parametrize(("trigger", "kind"), [("continuous", "a continuous trigger"), ("realTime", "a real-time trigger")])
def test_stream_is_refused_by_name_when_its_trigger_is_not_of_micro_batches(
    spark: SparkSession, url: str, tmp_path: Path, trigger: str, kind: str
) -> None:
    send(url, 1)
    sink = Sink()
    settings: dict[str, Any] = {trigger: "5 seconds"}
    with pytest.raises(InvalidOptionError, match=rf"trigger\({trigger}=\.\.\.\): the headstream source does not support {kind}"):
        stream(spark, url, sink, tmp_path / "c", {}).trigger(**settings).start()
    assert [query.name for query in spark.streams.active] == []
    assert not (tmp_path / "c").exists()


@needs_spark_4_2
def test_stream_writes_each_message_once_to_a_table_when_it_is_stopped_at_any_batch(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    table = str(tmp_path / "table")
    send(url, 0)
    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders")
    frame = reader.option("maxOffsetsPerTrigger", "15").load().selectExpr("partition", "offset", "headers:n::int AS n")
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    for first in (0, 20, 40):
        send(url, 20, first=first)
        query = writer.start(table)
        deadline = time.monotonic() + 240
        while query.lastProgress is None and query.isActive and time.monotonic() < deadline:
            time.sleep(0.02)
        query.stop()
    assert writer.trigger(availableNow=True).start(table).awaitTermination(300)
    written = spark.read.format("delta").load(table)
    assert sorted((row.partition, row.offset) for row in written.collect()) == every(60)
    assert sorted(row.n for row in written.collect()) == list(range(60))


def test_what_spark_tells_workers_is_settled_before_a_query_starts_and_starting_adds_nothing(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """A name that a starting query adds is one that two starting at once can spoil the map with, for good."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    variables = manager.lookupDataSource("headstream").dataSourceCls().envVars()
    for name in list(variables.keySet()):
        if name != "PYTHONPATH":
            variables.remove(name)
    send(url, 20)
    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders")
    frame = reader.load()
    settled = {name: variables[name] for name in list(variables.keySet())}
    assert len(settled) > 1
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert query.exception() is None
    assert {name: variables[name] for name in list(variables.keySet())} == settled
    assert variables.size() == len(settled)
