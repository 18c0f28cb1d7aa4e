"""The server's listener for Kafka's clients, by Spark's own Kafka source and sink, unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from tests.support.server.kafka_listeners import kafka_listener

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ROWS = 500


def test_sparks_own_kafka_source_and_sink_work_when_they_are_given_the_listener(spark: SparkSession, tmp_path: Path) -> None:
    with kafka_listener() as listener:
        listener.broker.topics.create(NewTopic(TopicName("shop", "orders"), 2, Limits.WIDE))
        options = {"kafka.bootstrap.servers": listener.bootstrap_servers}
        options |= {f"kafka.{name}": value for name, _, value in (line.partition("=") for line in listener.java().splitlines())}
        headers = "array(struct('a' AS key, CAST('1' AS BINARY) AS value)) AS headers"
        rows = spark.range(_ROWS).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS key", "CAST(id AS STRING) AS value", headers)
        rows.write.format("kafka").options(**options, topic="shop.orders").save()
        reader = spark.read.format("kafka").options(**options, subscribe="shop.orders", includeHeaders="true")
        read = reader.load().selectExpr("CAST(value AS STRING)", "headers[0].key", "CAST(headers[0].value AS STRING)").collect()
        assert sorted(tuple(row) for row in read) == sorted((str(number), "a", "1") for number in range(_ROWS))
        stream = spark.readStream.format("kafka").options(**options, subscribe="shop.orders", startingOffsets="earliest").load()
        copied = stream.selectExpr("key", "value").writeStream.format("kafka").options(**options, topic="shop.copied")
        listener.broker.topics.create(NewTopic(TopicName("shop", "copied"), 1, Limits.WIDE))
        query = copied.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert listener.broker.topics.get(TopicName("shop", "copied")).messages_count == _ROWS
