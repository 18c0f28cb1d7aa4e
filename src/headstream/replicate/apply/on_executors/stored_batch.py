"""The decoded form of a micro-batch, stored on Spark's executors.

decoded frame (DECODED_SCHEMA) -> stored on the executors' disks -> driver: statistics, and all rows except changes
                                                                 -> driver: changes of tables with few changes
                                                                 -> executors: all other changes (spark_changes.py)
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headstream.errors import StorageError
from headstream.replicate.columns.change_statistics import ChangeStatistics
from headstream.replicate.columns.large_values import MAX_UNIT_BYTES
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out, read_ipc

Collect: TypeAlias = Callable[[DataFrame], pa.Table]
"""Returns the rows of a frame."""
_SETTINGS: Final = {
    "spark.sql.inMemoryColumnarStorage.batchSize": "8",  # rows of a stored block in memory: a row can have 32 MB
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",  # rows sent to a Python worker at a time
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
PLACE: Final = "_hs_place"
_BUCKET_ROWS: Final = 100_000
"""Approximate number of changes that a task folds at a time and holds in memory."""
_LEAST_BUCKET_ROWS: Final = 10_000
"""Minimum number of changes for a separate task."""
MAX_SMALL_ROWS: Final = 10_000
_MAX_SMALL_BYTES: Final = 8 << 20
"""Maximum number, and size in memory, of a schema's changes that the driver merges; this is cheaper than two Spark jobs."""
_MAX_FETCHED_BYTES: Final = 64 << 20
"""Maximum size of the changes of all schemas that the driver fetches in a micro-batch, smallest schemas first."""


def open_store_session(spark: SparkSession) -> SparkSession:
    """Return a session for the stored micro-batches of a pipeline, with settings for a small number of large rows."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


class StoredBatch:
    """The decoded form of a micro-batch, stored on the executors' disks until it is closed.

    Args:
        frame: The decoded rows (decoded.DECODED_SCHEMA), with statistics of the changes.

    Attributes:
        left_out: Coordinates of changes to skip (COORDINATE_COLUMNS), or None.
    """

    def __init__(self, session: SparkSession, frame: DataFrame, collect: Collect) -> None:
        self._collect = collect
        self._lock = threading.Lock()
        self._view = f"headstream_{uuid.uuid4().hex}"
        frame.createGlobalTempView(self._view)
        rows = session.table(f"global_temp.{self._view}").withColumn(PLACE, sf.monotonically_increasing_id())
        self._rows = rows.persist(StorageLevel.DISK_ONLY)
        self._parallelism = session.sparkContext.defaultParallelism
        self._at_hand: dict[str, pa.Table] = {}
        self._waiting = 0
        self.left_out: pa.Table | None = None
        self.fetched_rows = 0

    def fetch_others(self, *, waiting: bool) -> pa.Table:
        """Return the rows that are not changes (decoded.DECODED_SCHEMA).

        Raises:
            StorageError: some of the messages now have a schema: an executor was lost, and its replacement found the schema.
        """
        if waiting:
            rows = self._collect(self._rows.where("kind = 'waiting'").drop(PLACE))
            check_count(("messages without a schema",), self._waiting, pc.sum(rows["count"]).as_py() or 0)
            return rows
        content = sf.when(sf.col("kind") == "waiting", sf.lit(b"")).otherwise(sf.col("content"))
        rows = self._collect(self._rows.where("kind <> 'changes'").drop(PLACE).withColumn("content", content))
        is_waiting = pc.equal(rows["kind"], "waiting")
        self._waiting = pc.sum(rows["count"].filter(is_waiting)).as_py() or 0
        return rows.filter(pc.invert(is_waiting))

    def fetch_small(self, statistics: Mapping[str, ChangeStatistics]) -> None:
        """Fetch the changes of schemas with few changes in one job; the driver merges them. See SparkChanges.is_at_hand."""
        left = _MAX_FETCHED_BYTES
        chosen = []
        for schema_id, found in sorted(statistics.items(), key=lambda item: item[1].size_bytes):
            if found.count <= MAX_SMALL_ROWS and found.size_bytes <= min(left, _MAX_SMALL_BYTES):
                chosen.append(schema_id)
                left -= found.size_bytes
        if not chosen:
            return
        rows = self._collect(self._rows.where("kind = 'changes'").where(sf.col("schema_id").isin(*chosen)))
        rows, parts = rows.sort_by(PLACE), dict[str, list[pa.Table]]()
        for schema_id, content in zip(rows["schema_id"], rows["content"], strict=True):
            parts.setdefault(schema_id.as_py(), []).append(read_ipc(content.as_buffer()))
        for schema_id in chosen:
            self._at_hand[schema_id] = found = pa.concat_tables(parts.get(schema_id, ()))
            check_count((schema_id,), statistics[schema_id].count, found.num_rows)

    def has_at_hand(self, schema_ids: Sequence[str]) -> bool:
        """Return whether fetch_small() has fetched the changes of the given schemas."""
        return all(schema_id in self._at_hand for schema_id in schema_ids)

    def at_hand(self, schema_ids: Sequence[str]) -> pa.Table | None:
        """Return the changes of the given schemas; None if fetch_small() has not fetched these changes."""
        if not self.has_at_hand(schema_ids):
            return None
        rows = pa.concat_tables([self._at_hand[schema_id] for schema_id in schema_ids])
        return rows if self.left_out is None else leave_out(rows, CHANGE_COORDINATES, self.left_out)

    def close(self) -> None:
        """Delete the rows from the executors' disks."""
        self._rows.unpersist()
        self._rows.sparkSession.catalog.dropGlobalTempView(self._view)

    def contents(self, schema_ids: Sequence[str]) -> DataFrame:
        """Return the encoded changes of the given schemas with their positions: `_hs_place`, `content`."""
        wanted = self._rows.where("kind = 'changes'").where(sf.col("schema_id").isin(*schema_ids))
        return wanted.select(PLACE, "content")

    def contents_by_schema(self, schema_ids: Sequence[str]) -> DataFrame:
        """Return the encoded changes of the given schemas: `schema_id`, `content`."""
        return self._rows.where("kind = 'changes'").where(sf.col("schema_id").isin(*schema_ids)).select("schema_id", "content")

    def fetch(self, frame: DataFrame) -> list[pa.Table]:
        """Return the tables that rows of `_hs_place` and `content` encode, in the order of `_hs_place`."""
        found = self._collect(frame)
        return [read_ipc(content.as_buffer()) for content in found.sort_by(PLACE)["content"]]

    def in_own_session(self, frame: DataFrame) -> DataFrame:
        """Return a frame of another session as a frame of this batch's session; joins with the batch's rows require this."""
        view = f"headstream_{uuid.uuid4().hex}"
        frame.createGlobalTempView(view)
        try:
            return self._rows.sparkSession.table(f"global_temp.{view}")
        finally:
            self._rows.sparkSession.catalog.dropGlobalTempView(view)

    def note_fetched(self, rows: int) -> None:
        """Count changes that the driver has received; thread-safe, since several threads merge tables."""
        with self._lock:
            self.fetched_rows += rows

    def count_buckets(self, rows: int, size_bytes: int = 0) -> int:
        """Return the number of buckets for a number of changes and their size in memory."""
        least = max(-(-rows // _BUCKET_ROWS), -(-size_bytes // MAX_UNIT_BYTES))
        return max(min(self._parallelism, rows // _LEAST_BUCKET_ROWS), least, 1)


def check_count(schema_ids: Sequence[str], expected: int, found: int) -> None:
    """Check that recomputed changes equal the first result: a micro-batch's offsets are fixed, but its schemas are not."""
    if found != expected:
        what = f"a micro-batch of {expected:,} changes has {found:,} when it is decoded again"
        raise StorageError(what, where=", ".join(schema_ids))
