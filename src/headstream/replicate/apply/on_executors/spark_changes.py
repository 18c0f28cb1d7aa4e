"""The decoded changes of a micro-batch on Spark's executors, where the changes are folded or joined to stored rows, and merged.

    changes of a table -> split by key (fold.py) -> shuffled -> folded, stored -> driver: reports and deletions
                                                                               -> rows, as the source of Spark's MERGE
    if complete images are not enough:
    changes of a table -> statistics (keyed_task.py)                           -> driver: key ranges, key updates
    changes and their stored rows -> split by key -> shuffled -> joined, stored -> driver: reports, changes left to the driver

Spark recomputes a lost part from the source; the offsets of a micro-batch are fixed, so its messages are the same. Changes
stay Arrow IPC bytes until they become rows of the merge; Spark knows only their bucket and position in the log.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headstream.errors import StorageError
from headstream.replicate.apply.on_executors.change_rows import ChangeRows
from headstream.replicate.apply.on_executors.executor_rows import ROWS_AT_ONCE, FoldedChanges, JoinedChanges, types_sql
from headstream.replicate.apply.on_executors.fold import FoldReport, FoldTask
from headstream.replicate.apply.on_executors.keyed_task import KeyedTask, KeyStatistics, join_key_statistics
from headstream.replicate.apply.on_executors.stored_batch import PLACE, StoredBatch, check_count
from headstream.replicate.apply.on_executors.waiting_changes import (
    LoadsFrom,
    OfTransactions,
    divide_stored_events,
    find_stored_changes,
)
from headstream.replicate.codec import Lineage
from headstream.replicate.columns.change_statistics import ChangeStatistics, join_statistics
from headstream.replicate.columns.raw import (
    CHANGE_COORDINATES,
    COORDINATE_COLUMNS,
    join_coordinates,
    leave_out,
    match_rows,
    read_ipc,
    write_ipc,
)
from headstream.replicate.columns.task_errors import naming_messages
from headstream.replicate.decoding.transaction_events import SeenEvents
from headstream.replicate.engines.plan import quote_name

_Batches: TypeAlias = Iterator[pa.RecordBatch]
_Parts: TypeAlias = tuple[FoldReport, Mapping[str, pa.Table | None]]
"""The report of a bucket, and its tables by part name."""

_PIECE: Final = "bucket INT NOT NULL, place BIGINT NOT NULL, content BINARY NOT NULL"
_PART: Final = "part STRING NOT NULL, content BINARY NOT NULL"
_STORED: Final = -1
"""The position of stored rows, before all changes of the log."""
_Task = TypeVar("_Task", FoldTask, KeyedTask)


@dataclass(frozen=True, slots=True)
class SparkChanges:
    """The stored changes of schemas with the same structure."""

    batch: StoredBatch
    schema_ids: tuple[str, ...]
    statistics: ChangeStatistics

    @property
    def num_rows(self) -> int:
        """Number of changes."""
        return self.statistics.count

    @property
    def is_at_hand(self) -> bool:
        """Whether the changes are few and already in the driver."""
        return self.batch.has_at_hand(self.schema_ids)

    def fetch(self) -> pa.Table:
        """Return the changes to the driver; raise StorageError if recomputed changes differ from the first result."""
        found = self.batch.at_hand(self.schema_ids)
        if found is not None:
            self.batch.note_fetched(found.num_rows)
            return found
        rows = pa.concat_tables(self.batch.fetch(self.batch.contents(self.schema_ids)))
        check_count(self.schema_ids, self.statistics.count, rows.num_rows)
        self.batch.note_fetched(rows.num_rows)
        return rows if self.batch.left_out is None else leave_out(rows, CHANGE_COORDINATES, self.batch.left_out)

    def leave_out(self, coordinates: pa.Table) -> None:
        """Exclude additional changes, of any schema of the micro-batch, from fetches and merges."""
        self.batch.left_out = join_coordinates([self.batch.left_out, coordinates])

    def coordinates(self, wanted: pa.Table | None = None) -> pa.Table:
        """Return CHANGE_COORDINATES of the wanted changes, by default of all changes."""
        at_hand = self.batch.at_hand(self.schema_ids)
        if at_hand is not None:
            return at_hand.select(list(CHANGE_COORDINATES))

        def select(batches: _Batches) -> _Batches:
            for batch in batches:
                places, contents = batch.columns
                tables: list[pa.Table] = []
                for content in contents:
                    found = read_ipc(content.as_buffer()).select(list(CHANGE_COORDINATES))
                    if wanted is not None:
                        found = found.take(match_rows(found.rename_columns(list(COORDINATE_COLUMNS)), wanted)[0])
                    tables.append(found)
                yield pa.RecordBatch.from_arrays([places, _contents(tables)], names=[PLACE, "content"])

        frame = self.batch.contents(self.schema_ids).mapInArrow(select, f"{PLACE} BIGINT NOT NULL, content BINARY NOT NULL")
        found = pa.concat_tables(self.batch.fetch(frame))
        return found if self.batch.left_out is None else leave_out(found, CHANGE_COORDINATES, self.batch.left_out)

    def divide_events(self, lineages: Mapping[str, Lineage], others: pa.Table) -> SeenEvents:
        """Return the transaction events of the changes and of other messages; see divide_stored_events()."""
        return divide_stored_events(self.batch, self.schema_ids, self.num_rows, lineages, others)

    def find(self, find: LoadsFrom | OfTransactions) -> dict[str, pa.Table]:
        """Return the coordinates of the changes that `find` selects, by schema id; see find_stored_changes()."""
        return find_stored_changes(self.batch, self.schema_ids, find)

    def offset_ends(self) -> tuple[int, int]:
        """Return the lowest and the highest offset of the changes."""

        def find(batches: _Batches) -> _Batches:
            for batch in batches:
                for content in batch.column(0):
                    yield pa.RecordBatch.from_arrays(
                        [read_ipc(content.as_buffer())["_hs_offset"].combine_chunks()], names=["offset"]
                    )

        offsets = self.batch.contents(self.schema_ids).select("content").mapInArrow(find, "offset BIGINT")
        ends = offsets.agg(sf.min("offset"), sf.max("offset")).collect()[0]
        return ends[0], ends[1]

    def change_rows(self, task: ChangeRows, present: DataFrame | None = None, *, by: Sequence[str] = ()) -> DataFrame:
        """Return the rows of the changes for a change table, without rows whose columns `by` equal a row in `present`."""
        packed = pickle.dumps((task, self.batch.left_out))

        def make(batches: _Batches) -> _Batches:
            own, left_out = pickle.loads(packed)
            for batch in batches:
                for content in batch.column(0):
                    changes = read_ipc(content.as_buffer())
                    with naming_messages(f"making rows of the change table of {own.table}", changes):
                        if left_out is not None:
                            changes = leave_out(changes, CHANGE_COORDINATES, left_out)
                        rows = own.rows(changes).to_batches(ROWS_AT_ONCE) if changes.num_rows else []
                    yield from rows

        made = self.batch.contents(self.schema_ids).select("content").mapInArrow(make, types_sql(task.columns))
        if present is None:
            return made
        return made.join(self.batch.in_own_session(present), list(by), "left_anti")

    def fold(self, task: FoldTask) -> FoldedChanges:
        """Fold the changes on the executors; raise StorageError if recomputed changes differ from the first result."""
        count = self.batch.count_buckets(self.num_rows, self.statistics.size_bytes)
        pieces = self.batch.contents(self.schema_ids).mapInArrow(_splitting(task, count), _PIECE)

        def fold(own: FoldTask, changes: pa.Table | None, stored: pa.Table | None) -> _Parts:
            assert changes is not None, "a bucket has changes"
            folded = own.fold(changes)
            return folded.report, {"rows": folded.rows, "deletions": folded.deletions}

        pieces = pieces.repartitionById(count, "bucket") if count > 1 else pieces.coalesce(1)
        return self._checked(FoldedChanges(_by_bucket(pieces, task, "folding", fold), task))

    def key_statistics(self, task: KeyedTask) -> KeyStatistics:
        """Return the statistics that the driver needs before the join."""
        packed = pickle.dumps(task)

        def key_statistics(batches: _Batches) -> _Batches:
            own: KeyedTask = pickle.loads(packed)
            found: list[KeyStatistics] = []
            for batch in batches:
                for content in batch.column(0):
                    changes = read_ipc(content.as_buffer())
                    with naming_messages(f"reading the keys of {own.table}", changes):
                        found.append(own.key_statistics(changes))
            if found:
                arrays = [
                    pa.array(["key_statistics"], pa.string()),
                    pa.array([pickle.dumps(join_key_statistics(found))], pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=["part", "content"])

        contents = self.batch.contents(self.schema_ids).select("content")
        found = contents.mapInArrow(key_statistics, _PART).select("content").toArrow()["content"]
        return join_key_statistics(pickle.loads(content.as_buffer()) for content in found)

    def join(self, task: KeyedTask, stored: DataFrame | None) -> JoinedChanges:
        """Join the changes on executors to the `stored` rows (KeyedTask.stored_types) in their key range, if there are any."""
        count = self.batch.count_buckets(self.num_rows, self.statistics.size_bytes)
        pieces = self.batch.contents(self.schema_ids).mapInArrow(_splitting(task, count), _PIECE)

        def join(own: KeyedTask, changes: pa.Table | None, stored: pa.Table | None) -> _Parts:
            if changes is None:
                return FoldReport(), {}
            joined = own.join(changes, stored)
            return joined.report, {"rows": joined.rows, "deletions": joined.deletions, "left": joined.left}

        if stored is not None:
            pieces = pieces.union(self._stored_pieces(task, stored, count))
        # Also for one bucket: without a shuffle, the task of that bucket would read the entire table.
        pieces = pieces.repartitionById(count, "bucket") if count > 1 or stored is not None else pieces.coalesce(1)
        return self._checked(JoinedChanges(_by_bucket(pieces, task, "joining", join), task))

    def _stored_pieces(self, task: KeyedTask, stored: DataFrame, count: int) -> DataFrame:
        """Return the stored rows that have a key of the changes, divided by bucket."""
        packed = pickle.dumps(task)

        def list_keys(batches: _Batches) -> _Batches:
            own: KeyedTask = pickle.loads(packed)
            for batch in batches:
                for content in batch.column(0):
                    changes = read_ipc(content.as_buffer())
                    with naming_messages(f"reading keys of {own.table}", changes):
                        keys = own.keys_of(changes).group_by(own.keys).aggregate([]).combine_chunks().to_batches()
                    yield from keys

        def split_stored(batches: _Batches) -> _Batches:
            own: KeyedTask = pickle.loads(packed)
            for batch in batches:
                with naming_messages(f"reading stored rows of {own.table}"):
                    divided = own.split_stored(pa.Table.from_batches([batch]), count)
                    pieces = [_piece(bucket, _STORED, rows) for bucket, rows in divided]
                yield from pieces

        keys = self.batch.contents(self.schema_ids).select("content").mapInArrow(list_keys, types_sql(task.key_types))
        rows = self.batch.in_own_session(stored).join(keys, task.keys, "left_semi").select(*map(quote_name, task.stored_types))
        return rows.mapInArrow(split_stored, _PIECE)

    def _checked(self, found: _Result) -> _Result:
        try:
            check_count(self.schema_ids, self.statistics.count, found.report.changes)
        except StorageError:
            found.close()
            raise
        return found


_Result = TypeVar("_Result", FoldedChanges, JoinedChanges)


def join_stored(parts: Sequence[SparkChanges]) -> SparkChanges:
    """Return the joint changes of several schemas with the same structure, of one micro-batch."""
    schema_ids = tuple(schema_id for part in parts for schema_id in part.schema_ids)
    return replace(parts[0], schema_ids=schema_ids, statistics=join_statistics([part.statistics for part in parts]))


def _splitting(task: FoldTask | KeyedTask, count: int) -> Callable[[_Batches], _Batches]:
    """Return the function that divides stored changes into buckets."""
    packed = pickle.dumps(task)

    def split(batches: _Batches) -> _Batches:
        own: FoldTask | KeyedTask = pickle.loads(packed)
        for batch in batches:
            places, contents = batch.columns
            for place, content in zip(places.to_pylist(), contents, strict=True):
                changes = read_ipc(content.as_buffer())
                with naming_messages(f"splitting changes of {own.table}", changes):
                    pieces = [_piece(bucket, place, rows) for bucket, rows in own.split(changes, count)]
                yield from pieces

    return split


def _by_bucket(
    pieces: DataFrame, task: _Task, step: str, make: Callable[[_Task, pa.Table | None, pa.Table | None], _Parts]
) -> DataFrame:
    """Return the parts that `make` returns for each bucket. Each partition has exactly the pieces (_PIECE) of one bucket."""
    packed = pickle.dumps(task)

    def run(batches: _Batches) -> _Batches:
        found: list[tuple[int, int, pa.Table]] = []
        for batch in batches:
            buckets, places, contents = batch.columns
            tables = (read_ipc(content.as_buffer()) for content in contents)
            found += zip(buckets.to_pylist(), places.to_pylist(), tables, strict=True)
        if found:
            found.sort(key=lambda piece: piece[1])
            changes = [piece for _, place, piece in found if place != _STORED]
            stored = [piece for _, place, piece in found if place == _STORED]
            own = pickle.loads(packed)
            with naming_messages(f"{step} changes of {own.table}, bucket {found[0][0]}", *changes):
                report, made = make(
                    own, pa.concat_tables(changes) if changes else None, pa.concat_tables(stored) if stored else None
                )
            yield from _encoded(report, made)

    return pieces.mapInArrow(run, _PART)


def _encoded(report: FoldReport, tables: Mapping[str, pa.Table | None]) -> _Batches:
    """Yield the parts of a bucket (_PART)."""
    parts = [("report", pickle.dumps(report))]
    for name, table in tables.items():
        if table is not None and table.num_rows:
            starts = range(0, table.num_rows, ROWS_AT_ONCE)
            parts += [(name, _write(table.slice(start, ROWS_AT_ONCE))) for start in starts]
    for name, content in parts:
        arrays = [pa.array([name], pa.string()), pa.array([content], pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, names=["part", "content"])


def _piece(bucket: int, place: int, rows: pa.Table) -> pa.RecordBatch:
    arrays = [pa.array([bucket], pa.int32()), pa.array([place], pa.int64()), _contents([rows])]
    return pa.RecordBatch.from_arrays(arrays, names=["bucket", "place", "content"])


def _contents(tables: list[pa.Table]) -> pa.Array:
    return pa.array([_write(table) for table in tables], pa.binary())


def _write(table: pa.Table) -> bytes:
    batches = table.combine_chunks().to_batches()
    return write_ipc(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema))
