"""The option `where` over a server, by real Spark: the same rows and offsets as behind a directory, and only they travel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs
from headstream.testing.local_server import LocalServer
from tests.campaigns.broken_links import BrokenLinks
from tests.support.spark_versions import needs_spark_4_2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNT = 20_000
WHERE = "n IN (5, 7999, 8000, 19999)"
MATCHING = [5, 7999, 8000, 19_999]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """A server with messages of a kilobyte in two partitions; the header n counts them."""
    with LocalServer(tmp_path / "log", segment_bytes=4 << 20) as running, hs.connect(running.url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(COUNT):
                producer.send(b"x" * 1000, headers={"n": number}, partition=1 + number % 2)
        yield running


@pytest.fixture
def links(server: LocalServer) -> Iterator[BrokenLinks]:
    """A proxy in front of the server, which counts what travels."""
    with BrokenLinks(server.tcp_address[1], 0, break_chance=0, longest_delay_s=0) as running:
        yield running


def through(server: LocalServer, links: BrokenLinks) -> str:
    return server.url.replace(f":{server.tcp_address[1]}", f":{links.port}")


def stream(spark: SparkSession, url: str, checkpoint: Path, **options: str) -> tuple[list[int], list[Any]]:
    """Read what is there in micro-batches, and return the numbers of the messages and where each micro-batch ended."""
    numbers: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        numbers.extend(row[0] for row in frame.selectExpr("variant_get(headers, '$.n', 'int')").collect())

    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders").options(**options)
    writer = reader.load().writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return sorted(numbers), [progress["sources"][0]["endOffset"] for progress in query.recentProgress]


def test_a_batch_gets_what_matches_and_nothing_else_travels(spark: SparkSession, server: LocalServer, links: BrokenLinks) -> None:
    frame = spark.read.format("headstream").option("subscribe", "shop/orders").option("where", WHERE).load(through(server, links))
    assert sorted(row[0] for row in frame.selectExpr("variant_get(headers, '$.n', 'int')").collect()) == MATCHING
    assert links.forwarded_bytes < COUNT * 1000 // 100
    assert frame.filter("partition = 1").count() == 1


@needs_spark_4_2
def test_micro_batches_end_where_they_end_without_a_filter(
    spark: SparkSession, server: LocalServer, links: BrokenLinks, tmp_path: Path
) -> None:
    limit = {"maxOffsetsPerTrigger": "3000"}
    found, ends = stream(spark, through(server, links), tmp_path / "filtered", where=WHERE, **limit)
    travelled = links.forwarded_bytes
    everything, ends_of_all = stream(spark, through(server, links), tmp_path / "all", **limit)
    assert (found, everything) == (MATCHING, list(range(COUNT)))
    assert ends == ends_of_all
    assert len(ends) == 7
    assert travelled < COUNT * 1000 // 50 < links.forwarded_bytes - travelled
    again = stream(spark, (tmp_path / "log").as_uri(), tmp_path / "filtered", where=WHERE, **limit)
    assert again[0] == []  # a directory goes on at the server's checkpoint
