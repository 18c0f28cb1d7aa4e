"""Topics that were created again, and messages that were deleted before they were read: what is said, and the way on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import QueryBuilder
from pyspark.sql import SparkSession

from headstream.connect import connect
from headstream.errors import ReplicateError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.tables.tables import table_path
from headstream.testing import KafkaBroker
from tests.support.replicate.replicate_messages import make_change, make_table

pytestmark = pytest.mark.spark

KIT, LATE = make_table(), make_table(schema_id="F" * 32, table="late")


def change(number: int, key: int, operation: str = "INSERT", table: Any = KIT) -> bytes:
    return data_message(table, make_change(number, operation, data={"id": key, "name": f"n{number}"}))


def make_config(directory: Path, source: str, **options: Any) -> ReplicateConfig:
    topics = options.pop("topics", ("cdc/data", "cdc/other"))
    own: dict[str, Any] = {"tables": directory / "tables", "checkpoint": directory / "checkpoint", "once": True}
    return ReplicateConfig(source=source, topics=topics, **own, **options)


def names(directory: Path, table: str = "kit") -> dict[int, str]:
    target = open_table(table_path(directory / "tables", "shop", table))
    assert target is not None
    rows = QueryBuilder().register("t", target).execute("SELECT id, name FROM t")
    return {row["id"]: row["name"] for row in pa.table(rows).to_pylist()}


FIRST = [metadata_message(KIT), change(1, 1), change(2, 2), change(5, 2, "DELETE"), change(3, 7, table=LATE)]
"""What is read before: row 2 is deleted, and a row waits for its schema."""
SECOND = [change(4, 2, "UPDATE"), change(6, 3), metadata_message(LATE)]
"""What the new topic has: a change that is older than the deletion, a new row, and the missing schema."""


def send(log: Any, topic: str, values: Sequence[bytes]) -> None:
    with log.producer(topic) as producer:
        for value in values:
            producer.send(value)


@pytest.mark.parametrize("how", ["topic", *(pytest.param(how, marks=pytest.mark.nightly) for how in ("purged", "log"))])
def test_pipeline_keeps_its_memory_when_a_topic_of_a_log_was_created_again(spark: SparkSession, tmp_path: Path, how: str) -> None:
    url = f"file://{tmp_path / 'log'}"
    with connect(url) as log:
        for topic in ("cdc/data", "cdc/other"):
            log.create_topic(topic, partitions=1)
        send(log, "cdc/data", FIRST)
        send(log, "cdc/other", [change(7, 10)])
    ReplicatePipeline(spark, make_config(tmp_path, url)).run()
    assert names(tmp_path) == {1: "n1", 10: "n7"}
    if how == "log":
        (tmp_path / "log").rename(tmp_path / "old")
    with connect(url) as log:
        if how == "purged":
            log.purge_topic("cdc/data")
        elif how == "topic":
            log.delete_topic("cdc/data")
        for topic in ("cdc/data", "cdc/other") if how == "log" else ("cdc/data",) if how == "topic" else ():
            log.create_topic(topic, partitions=1)
        send(log, "cdc/data", SECOND)
        send(log, "cdc/other", [change(8, 11)])
    with pytest.raises(ReplicateError, match=r"(?s)deleted.*--accept-recreated") as caught:
        ReplicatePipeline(spark, make_config(tmp_path, url)).run()
    assert "checkpointLocation" not in str(caught.value)
    summary = ReplicatePipeline(spark, make_config(tmp_path, url, accept_recreated=True)).run()
    expected = {1: "n1", 10: "n7", 11: "n8", 3: "n6"}
    assert names(tmp_path) == expected, "the deletion of row 2 is remembered"
    assert names(tmp_path, "late") == {7: "n3"}, "what waited is applied"
    assert summary.messages == len(SECOND) + 1, "other topics go on where they were"
    with connect(url) as log:
        send(log, "cdc/data", [change(9, 12)])
    assert ReplicatePipeline(spark, make_config(tmp_path, url)).run().messages == 1
    assert names(tmp_path) == expected | {12: "n9"}


def test_pipeline_keeps_its_memory_when_a_topic_of_kafka_was_created_again_or_lost_messages(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    admin, producer = AdminClient(settings), Producer(settings)

    def produce(topic: str, values: Sequence[bytes]) -> None:
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0

    def config(**options: Any) -> ReplicateConfig:
        return make_config(tmp_path, kafka_broker.url, topics=("again", "other"), **options)

    for topic in ("again", "other"):
        kafka_broker.create_topic(topic)
    produce("again", FIRST)
    produce("other", [change(7, 10)])
    ReplicatePipeline(spark, config()).run()
    for future in admin.delete_topics(["again"]).values():
        future.result(30)
    kafka_broker.create_topic("again")
    produce("again", SECOND)
    produce("other", [change(8, 11), change(9, 12)])
    with pytest.raises(ReplicateError, match=r"(?s)topic again was deleted and recreated.*--accept-recreated"):
        ReplicatePipeline(spark, config()).run()
    summary = ReplicatePipeline(spark, config(accept_recreated=True)).run()
    expected = {1: "n1", 10: "n7", 11: "n8", 12: "n9", 3: "n6"}
    assert names(tmp_path) == expected
    assert names(tmp_path, "late") == {7: "n3"}
    assert summary.messages == len(SECOND) + 2
    produce("other", [change(20, 20), change(21, 21), change(22, 22)])
    for future in admin.delete_records([TopicPartition("other", 0, 5)]).values():
        future.result(30)
    with pytest.raises(ReplicateError, match=r"(?s)messages were deleted before they were read.*--accept-loss") as caught:
        ReplicatePipeline(spark, config()).run()
    assert "getResult" not in str(caught.value)
    ReplicatePipeline(spark, config(accept_loss=True)).run()
    assert names(tmp_path) == expected | {22: "n22"}
