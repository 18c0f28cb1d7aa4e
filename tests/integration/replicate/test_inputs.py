"""Messages from Kafka, and from a DataFrame that somebody else made, through the whole pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream.connect import connect
from headstream.errors import InvalidOptionError
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.tables.tables import table_path
from headstream.testing import KafkaBroker, SourceDatabase, digest_rows
from headstream.testing.shop_tables import SHOP_TABLES

pytestmark = pytest.mark.spark

PLAIN_TABLES = (SHOP_TABLES[0], SHOP_TABLES[2], SHOP_TABLES[-1])


def make_config(directory: Path, **options: Any) -> ReplicateConfig:
    return ReplicateConfig(
        tables=directory / "tables", checkpoint=directory / "checkpoint", once=True, max_dead_rate=1.0, **options
    )


def assert_equal(directory: Path, source: SourceDatabase) -> None:
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        rows = DeltaTable(str(table_path(directory / "tables", schema, table))).to_pyarrow_table().to_pylist()
        assert digest_rows(rows, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}"


def test_pipeline_reads_topics_of_kafka(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    source = SourceDatabase(21, tables=PLAIN_TABLES, rows=8, transactions=10)
    kafka_broker.create_topic("replicate-in", partitions=2)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for message in source.capture():
        producer.produce("replicate-in", message.value, message.key, headers=[("table", message.table.encode())])
    producer.produce("replicate-in", b"not a message", headers=[("why", b"broken")])
    assert producer.flush(30) == 0
    summary = ReplicatePipeline(spark, make_config(tmp_path, source=kafka_broker.url, topics=("replicate-in",))).run()
    assert_equal(tmp_path, source)
    assert summary.dead == 1
    with connect(f"file://{tmp_path / 'checkpoint' / 'log'}") as log:
        (dead,) = log.poll(DEAD_LETTER_TOPIC, 1, start="first", count=10)
    assert (dead.payload, dead.headers["why"].as_raw()) == (b"not a message", b"broken")
    assert dead.headers["hs.origin.topic"] == "replicate-in"


def test_pipeline_reads_a_streaming_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    source = SourceDatabase(22, tables=PLAIN_TABLES, rows=8, transactions=10)
    rows = [(m.key, m.value, [("table", b"x")], "any", 0, at) for at, m in enumerate(source.capture())]
    schema = (
        "key BINARY, value BINARY, headers ARRAY<STRUCT<key STRING, value BINARY>>, topic STRING, partition INT, offset BIGINT"
    )
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    config = make_config(tmp_path, source=None, topics=("any",))
    summary = ReplicatePipeline(spark, config, source=frame).run()
    assert_equal(tmp_path, source)
    assert (summary.messages, summary.dead) == (len(rows), 0)


@pytest.mark.parametrize(("select", "what"), [(["topic", "value"], "'partition'"), (["topic", "partition", "offset"], "'value'")])
def test_pipeline_names_the_column_that_a_dataframe_lacks(
    spark: SparkSession, tmp_path: Path, select: list[str], what: str
) -> None:
    schema = "value BINARY, topic STRING, partition INT, offset BIGINT"
    (tmp_path / "in").mkdir()
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in")).select(*select)
    with pytest.raises(InvalidOptionError, match=what):
        ReplicatePipeline(spark, make_config(tmp_path, source=None, topics=("any",)), source=frame).run()


def test_pipeline_refuses_a_dataframe_that_is_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="not a stream"):
        ReplicatePipeline(spark, make_config(tmp_path, source=None, topics=("any",)), source=spark.range(1)).run()
