"""What a stream takes and when: limits, partitions and topics that come and go, lag; and bounds of batch reads by time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import headstream as hs
from headstream.spark.lag import LagListener, PartitionLag
from tests.support.spark_versions import needs_spark_4_2
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Sink:
    """Collects what micro-batches bring, with the batch each row came in."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, int, int]]] = []

    def take(self, frame: DataFrame, batch_id: int) -> None:
        table = frame.select("topic", "partition", "offset").toArrow()
        self.batches.append(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return sorted(row for batch in self.batches for row in batch)


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("stopped")]


def stream(spark: SparkSession, url: str, sink: Sink, checkpoint: Path, **options: str) -> DataStreamWriter:
    options = {"subscribe": "shop/orders"} | options if not {"subscribePattern", "assign"} & set(options) else options
    reader = spark.readStream.format("headstream").option("url", url).options(**options)
    return reader.load().writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))


def run(spark: SparkSession, url: str, checkpoint: Path, **options: str) -> Sink:
    sink = Sink()
    query = stream(spark, url, sink, checkpoint, **options).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    return sink


def send(
    url: str, topic: str = "shop/orders", *, sends: int = 1, count: int = 10, partition: int = 1, partitions: int = 1
) -> None:
    """Make so many sends of so many messages each."""
    with hs.connect(url) as log:
        log.create_topic(topic, partitions=partitions, if_not_exists=True)
        with log.producer(topic) as producer:
            for _ in range(sends):
                for _ in range(count):
                    producer.send(b"x" * 100, partition=partition)
                producer.flush()


@needs_spark_4_2
def test_stream_takes_about_as_many_bytes_a_batch_as_it_may(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, sends=6)
    sink = run(spark, url, tmp_path / "checkpoint", maxBytesPerTrigger="3000")  # a send has 10 * 145 bytes
    assert [len(batch) for batch in sink.batches] == [20, 20, 20]
    assert sink.rows == [("orders", 1, offset) for offset in range(60)]
    both = run(spark, url, tmp_path / "both", maxBytesPerTrigger="3000", maxOffsetsPerTrigger="15")
    assert [len(batch) for batch in both.batches] == [15, 15, 15, 15]


@needs_spark_4_2
def test_stream_waits_for_enough_but_not_for_longer_than_it_may(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url)
    sink = Sink()
    query = stream(spark, url, sink, tmp_path / "a", minOffsetsPerTrigger="15", maxTriggerDelay="1h").start()
    wait_until(lambda: len(sink.batches) == 1)  # the first does not wait
    send(url)
    query.processAllAvailable()
    assert len(sink.batches) == 1
    send(url)
    wait_until(lambda: len(sink.batches) == 2)
    query.stop()
    assert [len(batch) for batch in sink.batches] == [10, 20]
    quick = Sink()
    query = stream(spark, url, quick, tmp_path / "b", minOffsetsPerTrigger="1000", maxTriggerDelay="300ms").start()
    wait_until(lambda: len(quick.batches) == 1)
    send(url)
    wait_until(lambda: len(quick.batches) == 2)
    query.stop()
    assert [len(batch) for batch in quick.batches] == [30, 10]


@needs_spark_4_2
def test_stream_does_not_wait_for_more_when_it_is_to_end(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url)
    options = {"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "8", "maxTriggerDelay": "1h"}
    assert [len(batch) for batch in run(spark, url, tmp_path / "checkpoint", **options).batches] == [8, 2]


@pytest.mark.parametrize("url", ["file", "tcp"], indirect=True)
def test_stream_picks_up_new_partitions_and_new_topics_of_its_pattern(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url)
    send(url, "shop/unrelated")
    sink = Sink()
    query = stream(spark, url, sink, tmp_path / "checkpoint", subscribePattern="shop/(orders|returns).*").start()
    query.processAllAvailable()
    with hs.connect(url) as log:
        log.create_partitions("shop/orders", 1)
    send(url, partition=2)
    send(url, "shop/returns2", count=3)
    query.processAllAvailable()
    query.stop()
    expected = [("orders", partition, offset) for partition in (1, 2) for offset in range(10)]
    assert sink.rows == expected + [("returns2", 1, offset) for offset in range(3)]
    assert run(spark, url, tmp_path / "checkpoint", subscribePattern="shop/(orders|returns).*").batches == []


def test_stream_reads_the_partitions_that_it_is_assigned(spark: SparkSession, url: str, tmp_path: Path) -> None:
    for partition in (1, 2, 3):
        send(url, count=2, partition=partition, partitions=3)
    sink = run(spark, url, tmp_path / "checkpoint", assign='{"shop/orders": [3, 1]}')
    assert sink.rows == [("orders", partition, offset) for partition in (1, 3) for offset in range(2)]
    with pytest.raises(StreamingQueryException, match="assign names partition 4 of shop/orders, which has 3"):
        run(spark, url, tmp_path / "other", assign='{"shop/orders": [4]}')


def test_stream_notices_a_partition_that_was_deleted_or_made_again(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, partition=1, partitions=1)
    with hs.connect(url) as log:
        log.create_partitions("shop/orders", 1)
    send(url, partition=2)
    for name in ("fail", "go on"):
        run(spark, url, tmp_path / name)
    with hs.connect(url) as log:
        log.delete_partitions("shop/orders", 1)
    send(url)
    with pytest.raises(StreamingQueryException, match=r"read up to offset 10 was deleted.*shop/orders partition 2"):
        run(spark, url, tmp_path / "fail")
    assert run(spark, url, tmp_path / "go on", failOnDataLoss="false").rows == [("orders", 1, offset) for offset in range(10, 20)]
    run(spark, url, tmp_path / "again")
    with hs.connect(url) as log:
        log.create_partitions("shop/orders", 1)
    run(spark, url, tmp_path / "again")
    with hs.connect(url) as log:
        log.delete_partitions("shop/orders", 1)
        log.create_partitions("shop/orders", 1)
    send(url, partition=2, count=40)
    with pytest.raises(StreamingQueryException, match="partition 2 was deleted and recreated"):
        run(spark, url, tmp_path / "again")


@needs_spark_4_2
def test_lag_is_in_the_progress_and_in_the_listeners_metrics(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, sends=3)
    seen: list[list[PartitionLag]] = []
    listener = LagListener(lambda lags: seen.append(list(lags)))
    spark.streams.addListener(listener)
    try:
        writer = stream(spark, url, Sink(), tmp_path / "checkpoint", maxOffsetsPerTrigger="10")
        query = writer.queryName("lagging").trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        wait_until(lambda: len(seen) == 3)
    finally:
        spark.streams.removeListener(listener)
    assert [lag.lag for lags in seen for lag in lags] == [20, 10, 0]
    assert seen[0] == [PartitionLag("lagging", "shop/orders", 1, 10, 30)]
    progress = [json.loads(each.json)["sources"][0] for each in query.recentProgress]
    assert [each["latestOffset"]["shop/orders"] for each in progress] == [{"1": 30}] * 3
    assert [each["endOffset"]["shop/orders"] for each in progress] == [{"1": 10}, {"1": 20}, {"1": 30}]


def test_batch_reads_from_one_time_to_another(spark: SparkSession, url: str) -> None:
    send(url, sends=3, count=2)
    with hs.connect(url) as log:
        times = [(message.timestamp or 0) // 1000 for message in log.poll("shop/orders", 1, start="first", count=10)]

    def offsets(**options: str) -> list[int]:
        frame = spark.read.format("headstream").options(url=url, subscribe="shop/orders", **options).load()
        return sorted(row.offset for row in frame.collect())

    middle = times[2]
    assert offsets(startingTimestamp="0", endingTimestamp=str(times[0])) == []
    assert offsets(endingTimestamp=str(times[5] + 1000)) == list(range(6))
    assert offsets(startingTimestamp=str(middle)) == [offset for offset, at in enumerate(times) if at >= middle]
    by_place = json.dumps({"shop/orders": {"1": times[5] + 1000}})
    assert offsets(startingOffsetsByTimestamp=by_place, startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(Exception, match="startingOffsetsByTimestamp: shop/orders partition 1 has no message with a time of"):
        offsets(startingOffsetsByTimestamp=by_place)
