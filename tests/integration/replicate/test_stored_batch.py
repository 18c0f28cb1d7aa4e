"""Stored micro-batches: what a Python worker holds of them at a time, and what happens when they are lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from headstream.errors import StorageError
from headstream.replicate.apply.on_executors.stored_batch import StoredBatch, open_store_session
from headstream.replicate.decoding.decoded import DECODED_SCHEMA, DECODED_SPARK_SCHEMA
from headstream.replicate.engines.mapped import open_session

pytestmark = pytest.mark.spark

ROW_BYTES = 4 << 20
MOST_BYTES = 36 << 20
"""32 MiB, and the row with which they are full."""


def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([batch.nbytes])], names=["size_bytes"])


def test_a_worker_gets_stored_rows_by_their_bytes(spark: SparkSession) -> None:
    rows = open_store_session(spark).range(0, 24, 1, 1).selectExpr(f"CAST(repeat('x', {ROW_BYTES}) AS BINARY) AS content")
    stored = rows.persist(StorageLevel.DISK_ONLY)
    try:
        found = [row.size_bytes for row in stored.mapInArrow(sizes, "size_bytes BIGINT").collect()]
    finally:
        stored.unpersist()
    assert sum(found) >= 24 * ROW_BYTES
    assert max(found) <= MOST_BYTES


def test_settings_of_a_cluster_that_would_change_rows_do_not_reach_the_sessions_of_a_pipeline(spark: SparkSession) -> None:
    """With an accepted staleness, Delta gives rows to join changes to that lack the last merges of deltalake."""
    assert open_session(spark).conf.get("spark.databricks.delta.stalenessLimit") == "0"
    for session in (open_session(spark), open_store_session(spark)):
        assert session.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "false"
        values = session.sql("SELECT 'a' AS text, X'01' AS bytes").toArrow().schema
        assert [field.type for field in values] == [pa.string(), pa.binary()]


def test_messages_without_a_schema_are_not_lost_when_an_executor_is_lost_and_the_next_one_finds_the_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The driver knows of no changes of that schema, so it would neither merge nor park them."""
    registry = tmp_path / "schema"

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kind = "changes" if registry.exists() else "waiting"
            row = {"kind": kind, "schema_id": None, "count": batch.num_rows, "content": b"messages"}
            yield pa.RecordBatch.from_pylist([row], schema=DECODED_SCHEMA)

    frame = spark.range(0, 6, 1, 2).mapInArrow(decode, DECODED_SPARK_SCHEMA)
    stored = StoredBatch(open_store_session(spark), frame, DataFrame.toArrow)
    try:
        assert stored.fetch_others(waiting=False).num_rows == 0
        found = stored.fetch_others(waiting=True)
        assert [found[name].to_pylist() for name in ("count", "content")] == [[3, 3], [b"messages"] * 2]
        for blocks in spark.sparkContext._jsc.getPersistentRDDs().values():
            blocks.unpersist(True)
        registry.touch()
        with pytest.raises(StorageError, match=r"6 changes has 0 when it is decoded again.*messages without a schema"):
            stored.fetch_others(waiting=True)
    finally:
        stored.close()
