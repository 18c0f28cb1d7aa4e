"""The session of stored micro-batches: what a Python worker holds of them at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from headstream.replicate.apply.stored_batch import open_store_session

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
