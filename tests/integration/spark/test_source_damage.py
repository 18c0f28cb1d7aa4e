"""Damaged, cut and huge messages, by real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import headstream as hs
from tests.support.log.stored_logs import data_file
from tests.support.spark_versions import limited

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("headstream").option("url", url).option("subscribe", "shop/orders").options(**options).load()


def send(url: str, sends: int, count: int, payload: bytes = b"x" * 100) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", if_not_exists=True, limits="wide")
        with log.producer("shop/orders", batch_count=count) as producer:
            for _ in range(sends):
                for _ in range(count):
                    producer.send(payload)
                producer.flush()


def damage(url: str) -> None:
    """Change a bit in the third of five sends."""
    path = data_file(url)
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 1
    path.write_bytes(stored)


def test_damaged_send_is_an_error_with_topic_partition_and_offset(spark: SparkSession, url: str) -> None:
    send(url, 5, 10)
    damage(url)
    with pytest.raises(PySparkException) as raised:
        read(spark, url).count()
    assert "CorruptSendError: the send of offsets 20 to 29 is damaged" in str(raised.value)
    assert "shop/orders partition 1, offset 20" in str(raised.value)


def test_damaged_send_leaves_a_gap_when_loss_is_allowed(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, 5, 10)
    damage(url)
    rest = [*range(20), *range(30, 50)]
    assert sorted(row.offset for row in read(spark, url, failOnDataLoss="false").collect()) == rest
    taken: list[int] = []

    def run(checkpoint: str, **options: str) -> None:
        reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders").options(**options)
        writer = reader.load().writeStream.option("checkpointLocation", str(tmp_path / checkpoint))
        writer = writer.foreachBatch(lambda frame, _: taken.extend(row.offset for row in frame.select("offset").collect()))
        assert writer.trigger(availableNow=True).start().awaitTermination(60)

    run("lenient", failOnDataLoss="false", **limited(25))
    assert sorted(taken) == rest
    with pytest.raises(StreamingQueryException, match="shop/orders partition 1, offset 20"):
        run("strict")
    taken.clear()
    run("strict", failOnDataLoss="false")  # the batch that failed is read again, without what is damaged
    assert sorted(taken) == rest


def test_source_reads_a_message_of_64_megabytes_whole(spark: SparkSession, url: str) -> None:
    payload = bytes(range(256)) * 250_000  # 64 MB
    send(url, 1, 1, payload)
    (row,) = read(spark, url, columns="offset,checksum,payload").selectExpr(
        "offset", "length(payload) AS size", "checksum = crc32(payload) AS is_whole"
    ).collect()  # fmt: skip
    assert (row.offset, row["size"], row.is_whole) == (0, 64_000_000, True)
