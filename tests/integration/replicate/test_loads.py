"""Full loads in a real query: what a reload replaces does not depend on how its log is cut into micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.log.opening import open_directory
from headstream.model.identifiers import TopicName
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.tables.tables import table_path
from tests.support.log.logs import batch
from tests.support.replicate.pipeline_work import SECOND_US
from tests.unit.replicate.run.test_load_waits import Logged, two_partitions

pytestmark = pytest.mark.spark


def write_log(directory: Path, messages: list[Logged]) -> None:
    now_us = 0
    broker = Broker(open_directory(str(directory)), clock_us=lambda: now_us)
    with Client(broker) as client:
        client.create_topic("cdc/data", partitions=2)
        for one in messages:
            now_us = one.logged_us
            broker.messages.send(TopicName.parse("cdc/data"), one.partition, batch(one.value))


@pytest.mark.parametrize("most", [97, *(pytest.param(most, marks=pytest.mark.nightly) for most in (200_000, 11))])
def test_reload_replaces_the_same_rows_when_the_log_is_cut_into_micro_batches(
    spark: SparkSession, tmp_path: Path, most: int
) -> None:
    messages, expected = two_partitions()
    write_log(tmp_path / "log", messages)
    config = ReplicateConfig(
        source=f"file://{tmp_path / 'log'}",
        topics=("cdc/data",),
        tables=tmp_path / "tables",
        checkpoint=tmp_path / "checkpoint",
        once=True,
        load_gap_us=SECOND_US,
        max_messages_per_batch=most,
    )
    summary = ReplicatePipeline(spark, config).run()
    rows = DeltaTable(str(table_path(tmp_path / "tables", "shop", "kit"))).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == expected
    assert summary.released == 0, "all partitions are read up to one time: no row of a load had to wait"
    assert summary.batches >= len(messages) // most
