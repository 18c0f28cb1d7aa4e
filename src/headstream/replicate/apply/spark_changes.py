"""The decoded changes of a micro-batch that stay on Spark's executors: stored there, folded there, merged from there.

    decoded frame (DECODED_SCHEMA) -> stored on the executors' disks -> driver: all but the changes, and the changes' traits
    changes of a table -> split by key (fold.py) -> shuffled -> folded, stored -> driver: reports and deletions
                                                                               -> rows, as the source of Spark's MERGE

A lost part is computed again from the source: the offsets of a micro-batch are planned, so its messages are the same. Changes are
Arrow IPC bytes up to the rows of the merge; Spark sees their bucket and their place in the order of the log.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headstream.errors import StorageError
from headstream.replicate.apply.fold import FoldReport, FoldTask, join_reports
from headstream.replicate.apply.plan import quote_name
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, leave_out, match_rows, read_ipc, write_ipc
from headstream.replicate.columns.traits import ChangeTraits, join_traits

__all__ = ["Collect", "FoldedChanges", "SparkChanges", "StoredBatch", "join_stored", "open_store_session"]

Collect: TypeAlias = Callable[[DataFrame], pa.Table]
"""Returns the rows of a frame."""
_Batches: TypeAlias = Iterator[pa.RecordBatch]

_SETTINGS: Final = {
    "spark.sql.inMemoryColumnarStorage.batchSize": "8",  # rows of a stored block in memory: a row can have 32 MB
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",  # rows sent to a Python worker at a time
}
_PIECE: Final = "bucket INT NOT NULL, place BIGINT NOT NULL, content BINARY NOT NULL"
_PART: Final = "part STRING NOT NULL, content BINARY NOT NULL"
_PLACE: Final = "_hs_place"
_BUCKET_ROWS: Final = 100_000
"""Changes that a task folds at a time, about; it holds them in memory."""
_LEAST_BUCKET_ROWS: Final = 10_000
"""Changes that are worth a task of their own."""
_ROWS_AT_ONCE: Final = 20_000


def open_store_session(spark: SparkSession) -> SparkSession:
    """Return a session for the stored micro-batches of a pipeline, with settings for few and large rows."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


class StoredBatch:
    """The decoded form of a micro-batch, stored on the executors' disks until it is closed.

    Args:
        session: From open_store_session().
        frame: Its columns are those of decode.DECODED_SCHEMA; the changes have traits.
        collect: Gets rows into the driver.

    Attributes:
        left_out: Coordinates of changes that do not count, COORDINATE_COLUMNS; None for none.
        fetched_rows: Number of changes that the driver has received.
    """

    def __init__(self, session: SparkSession, frame: DataFrame, collect: Collect) -> None:
        self._collect = collect
        self._lock = threading.Lock()
        self._view = f"headstream_{uuid.uuid4().hex}"
        frame.createGlobalTempView(self._view)
        rows = session.table(f"global_temp.{self._view}").withColumn(_PLACE, sf.monotonically_increasing_id())
        self._rows = rows.persist(StorageLevel.DISK_ONLY)
        self._parallelism = session.sparkContext.defaultParallelism
        self.left_out: pa.Table | None = None
        self.fetched_rows = 0

    def fetch_others(self, *, waiting: bool) -> pa.Table:
        """Return rows that are not changes, decode.DECODED_SCHEMA.

        Args:
            waiting: Whether to return the messages without a schema, or all others.
        """
        condition = "kind = 'waiting'" if waiting else "kind NOT IN ('changes', 'waiting')"
        return self._collect(self._rows.where(condition).drop(_PLACE))

    def changes(self, schema_id: str, traits: ChangeTraits) -> SparkChanges:
        """Return the changes of a schema.

        Args:
            schema_id: Its id.
            traits: Their traits.
        """
        return SparkChanges(self, (schema_id,), traits)

    def close(self) -> None:
        """Free the disks."""
        self._rows.unpersist()
        self._rows.sparkSession.catalog.dropGlobalTempView(self._view)

    def contents(self, schema_ids: Sequence[str]) -> DataFrame:
        """Return the encoded changes of some schemas, with their place: `_hs_place`, `content`."""
        wanted = self._rows.where("kind = 'changes'").where(sf.col("schema_id").isin(*schema_ids))
        return wanted.select(_PLACE, "content")

    def fetch(self, frame: DataFrame) -> list[pa.Table]:
        """Return the tables that rows of `_hs_place` and `content` encode, in their order."""
        found = self._collect(frame)
        return [read_ipc(content.as_buffer()) for content in found.sort_by(_PLACE)["content"]]

    def note_fetched(self, rows: int) -> None:
        """Count changes that the driver has received; tables are merged by several threads."""
        with self._lock:
            self.fetched_rows += rows

    def count_buckets(self, rows: int) -> int:
        """Return into how many buckets a number of changes is divided."""
        return max(min(self._parallelism, rows // _LEAST_BUCKET_ROWS), -(-rows // _BUCKET_ROWS), 1)


@dataclass(frozen=True, slots=True)
class SparkChanges:
    """The stored changes of some schemas of one structure.

    Args:
        batch: Their micro-batch.
        schema_ids: The schemas.
        traits: Their traits.
    """

    batch: StoredBatch
    schema_ids: tuple[str, ...]
    traits: ChangeTraits

    @property
    def num_rows(self) -> int:
        """Number of changes."""
        return self.traits.count

    def fetch(self) -> pa.Table:
        """Return the changes; all rows pass through the driver then."""
        rows = pa.concat_tables(self.batch.fetch(self.batch.contents(self.schema_ids)))
        self.batch.note_fetched(rows.num_rows)
        return rows if self.batch.left_out is None else leave_out(rows, CHANGE_COORDINATES, self.batch.left_out)

    def leave_out(self, coordinates: pa.Table) -> None:
        """Leave changes out of what is fetched or folded, of all schemas of the micro-batch."""
        self.batch.left_out = coordinates.select(list(COORDINATE_COLUMNS)) if coordinates.num_rows else None

    def coordinates(self, wanted: pa.Table | None = None) -> pa.Table:
        """Return CHANGE_COORDINATES of the changes, or of those that are wanted."""

        def select(batches: _Batches) -> _Batches:
            for batch in batches:
                places, contents = batch.columns
                tables: list[pa.Table] = []
                for content in contents:
                    found = read_ipc(content.as_buffer()).select(list(CHANGE_COORDINATES))
                    if wanted is not None:
                        found = found.take(match_rows(found.rename_columns(list(COORDINATE_COLUMNS)), wanted)[0])
                    tables.append(found)
                yield pa.RecordBatch.from_arrays([places, _contents(tables)], names=[_PLACE, "content"])

        frame = self.batch.contents(self.schema_ids).mapInArrow(select, f"{_PLACE} BIGINT NOT NULL, content BINARY NOT NULL")
        found = pa.concat_tables(self.batch.fetch(frame))
        return found if self.batch.left_out is None else leave_out(found, CHANGE_COORDINATES, self.batch.left_out)

    def fold(self, task: FoldTask) -> FoldedChanges:
        """Fold the changes on the executors.

        Args:
            task: The fold.

        Raises:
            StorageError: the stored changes are not those that were decoded first.
        """
        count = self.batch.count_buckets(self.num_rows)
        packed = pickle.dumps(task)

        def split(batches: _Batches) -> _Batches:
            own: FoldTask = pickle.loads(packed)
            for batch in batches:
                places, contents = batch.columns
                for place, content in zip(places.to_pylist(), contents, strict=True):
                    for bucket, rows in own.split(read_ipc(content.as_buffer()), count):
                        arrays = [pa.array([bucket], pa.int32()), pa.array([place], pa.int64()), _contents([rows])]
                        yield pa.RecordBatch.from_arrays(arrays, names=["bucket", "place", "content"])

        def fold(batches: _Batches) -> _Batches:
            pieces: list[tuple[int, pa.Table]] = []
            for batch in batches:
                _, places, contents = batch.columns
                tables = (read_ipc(content.as_buffer()) for content in contents)
                pieces += zip(places.to_pylist(), tables, strict=True)
            if pieces:
                pieces.sort(key=lambda piece: piece[0])
                own: FoldTask = pickle.loads(packed)
                yield from _fold_parts(own, pa.concat_tables([piece for _, piece in pieces]))

        frame = self.batch.contents(self.schema_ids).mapInArrow(split, _PIECE)
        frame = frame.repartitionById(count, "bucket") if count > 1 else frame.coalesce(1)
        folded = FoldedChanges(frame.mapInArrow(fold, _PART), task)
        if folded.report.changes != self.traits.count:
            folded.close()
            what = f"a micro-batch of {self.traits.count:,} changes has {folded.report.changes:,} when it is decoded again"
            raise StorageError(what, where=", ".join(self.schema_ids))
        return folded


class FoldedChanges:
    """The fold of a table's changes, stored on the executors' disks until it is closed.

    Args:
        frame: The parts of the folds of all buckets.
        task: The fold.

    Attributes:
        report: What the driver learns of it.
    """

    def __init__(self, frame: DataFrame, task: FoldTask) -> None:
        self._task = task
        self._parts = frame.persist(StorageLevel.DISK_ONLY)
        try:
            reports = self._parts.where("part = 'report'").select("content").toArrow()["content"]
            self.report: FoldReport = join_reports([pickle.loads(content.as_buffer()) for content in reports])
        except BaseException:
            self._parts.unpersist()
            raise

    @property
    def task(self) -> FoldTask:
        """The fold."""
        return self._task

    def deletions(self) -> Iterator[pa.Table]:
        """Yield the highest deletion of each key that has one, a part at a time: key columns, `_hs_sequence`."""
        if self.report.has_deletions:
            for row in self._parts.where("part = 'deletions'").select("content").toLocalIterator():
                yield read_ipc(bytes(row.content))

    def rows(self) -> DataFrame:
        """Return the rows of the merge's source."""
        types = ", ".join(f"{quote_name(name)} {kind}" for name, kind in self._task.row_types.items())

        def unpack(batches: _Batches) -> _Batches:
            for batch in batches:
                for content in batch.column(0):
                    yield from read_ipc(content.as_buffer()).to_batches(_ROWS_AT_ONCE)

        return self._parts.where("part = 'rows'").select("content").mapInArrow(unpack, types)

    def close(self) -> None:
        """Free the disks."""
        self._parts.unpersist()


def join_stored(parts: Sequence[SparkChanges]) -> SparkChanges:
    """Return the changes of several schemas of one structure and one micro-batch."""
    schema_ids = tuple(schema_id for part in parts for schema_id in part.schema_ids)
    return SparkChanges(parts[0].batch, schema_ids, join_traits([part.traits for part in parts]))


def _fold_parts(task: FoldTask, changes: pa.Table) -> _Batches:
    """Yield the parts of the fold of a bucket."""
    folded = task.fold(changes)
    parts = [("report", pickle.dumps(folded.report))]
    if folded.rows is not None:
        starts = range(0, folded.rows.num_rows, _ROWS_AT_ONCE)
        parts += [("rows", _write(folded.rows.slice(start, _ROWS_AT_ONCE))) for start in starts]
    if folded.deletions is not None and folded.deletions.num_rows:
        parts.append(("deletions", _write(folded.deletions)))
    for name, content in parts:
        arrays = [pa.array([name], pa.string()), pa.array([content], pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, names=["part", "content"])


def _contents(tables: list[pa.Table]) -> pa.Array:
    return pa.array([_write(table) for table in tables], pa.binary())


def _write(table: pa.Table) -> bytes:
    batches = table.combine_chunks().to_batches()
    return write_ipc(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema))
