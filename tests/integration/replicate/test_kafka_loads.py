"""Full loads over a real Kafka broker: what a reload replaces follows from the times of its records, of both kinds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.tables.tables import table_path
from headstream.testing import KafkaBroker
from tests.support.replicate.pipeline_work import SECOND_US
from tests.unit.replicate.run.test_load_waits import Logged, two_partitions

pytestmark = pytest.mark.spark

_PAUSE_S = 1.5
"""What the broker's clock has to show between two loads whose gap is one second."""


def _produce(broker: KafkaBroker, topic: str, messages: list[Logged]) -> None:
    """Write messages with their times; a time that is more than a second after the one before is waited for.

    What is sent to one partition is stored before what follows in another, so that the broker's own times have that order too.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    last = messages[0]
    for one in messages:
        is_later = one.logged_us - last.logged_us > SECOND_US
        if is_later or one.partition != last.partition:
            assert producer.flush(30) == 0
        if is_later:
            time.sleep(_PAUSE_S)
        producer.produce(topic, one.value, partition=one.partition - 1, timestamp=one.logged_us // 1000)
        last = one
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("kind", "most"),
    [("CreateTime", 23), *(pytest.param("LogAppendTime", most, marks=pytest.mark.nightly) for most in (23, 200_000))],
)
def test_reload_replaces_the_same_rows_over_kafka_when_the_topic_is_cut_into_micro_batches(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, kind: str, most: int
) -> None:
    messages, expected = two_partitions()
    topic = f"cdc.loads-{kind}-{most}"
    kafka_broker.create_topic(topic, 2, {"message.timestamp.type": kind, "retention.ms": "-1"})
    _produce(kafka_broker, topic, messages)
    config = ReplicateConfig(
        source=kafka_broker.url,
        topics=(topic.replace(".", "/", 1),),
        tables=tmp_path / "tables",
        checkpoint=tmp_path / "checkpoint",
        once=True,
        load_gap_us=SECOND_US,
        max_messages_per_batch=most,
    )
    summary = ReplicatePipeline(spark, config).run()
    rows = DeltaTable(str(table_path(tmp_path / "tables", "shop", "kit"))).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == expected
    assert summary.messages == len(messages)
    assert summary.batches >= len(messages) // most
