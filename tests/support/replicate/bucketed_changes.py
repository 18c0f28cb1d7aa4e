"""Changes that stay where they were decoded, in this process: split, shuffled and merged by bucket as Spark's executors do it.

What is left out is Spark: the tasks, the functions that they run, and what is sent between them are the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.on_executors.change_rows import ChangeRows
from headstream.replicate.apply.on_executors.fold import FoldReport, FoldTask, join_reports
from headstream.replicate.apply.on_executors.keyed_task import KeyedTask, KeyStatistics, join_key_statistics
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges
from headstream.replicate.columns.change_statistics import ChangeStatistics
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.columns.key_buckets import divide
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, leave_out, match_rows, read_ipc, write_ipc
from headstream.replicate.decoding.decoded import DECODED_SCHEMA, Decoded
from headstream.replicate.decoding.transaction_events import EVENTS_SCHEMA, SeenEvents, change_events, divide_events, join_seen
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.storage.places import Place
from tests.support.replicate.load_delivery import HistoryWork
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.plain_engine import NoMappedTables, merging_of_tests

_BLOB_ROWS = 7
_BUCKETS = 3


class FrameEngine(DeltaLakeEngine):
    """deltalake's engine that takes frames, which are tables here."""

    @property
    def takes_frames(self) -> bool:
        return True

    def frame(self, columns: Sequence[str], where: str) -> Any:
        return self.read(columns, where)


def open_frame_engine(path: Place, kind: str = "auto", strategy: str = "rewrite") -> DeltaLakeEngine:
    """Open a table whose column names need no mapping."""
    assert kind != "spark"
    return FrameEngine(path, NoMappedTables(), *merging_of_tests(path))


@dataclass
class Blobs:
    """The changes of a micro-batch as encoded pieces, in the order of the log."""

    changes: dict[str, list[bytes]] = field(default_factory=dict)
    left_out: pa.Table | None = None
    fetched_rows: int = 0
    merged: list[str] = field(default_factory=list)

    def has_at_hand(self, schema_ids: Sequence[str]) -> bool:
        return False

    def note_fetched(self, rows: int) -> None:
        self.fetched_rows += rows

    def read(self, schema_ids: Sequence[str]) -> list[pa.Table]:
        return [read_ipc(content) for schema_id in schema_ids for content in self.changes[schema_id]]


class BucketedChanges(SparkChanges):
    """SparkChanges without Spark."""

    @property
    def blobs(self) -> Blobs:
        batch: Any = self.batch
        assert isinstance(batch, Blobs)
        return batch

    def fetch(self) -> pa.Table:
        rows = pa.concat_tables(self.blobs.read(self.schema_ids))
        self.blobs.note_fetched(rows.num_rows)
        return rows if self.blobs.left_out is None else leave_out(rows, CHANGE_COORDINATES, self.blobs.left_out)

    def coordinates(self, wanted: pa.Table | None = None) -> pa.Table:
        found = pa.concat_tables(self.blobs.read(self.schema_ids)).select(list(CHANGE_COORDINATES))
        if self.blobs.left_out is not None:
            found = leave_out(found, CHANGE_COORDINATES, self.blobs.left_out)
        return found if wanted is None else found.take(match_rows(found.rename_columns(list(COORDINATE_COLUMNS)), wanted)[0])

    def divide_events(self, lineages: Any, others: pa.Table) -> SeenEvents:
        found = [others]
        for schema_id in self.schema_ids:
            for blob in self._own_blobs([schema_id]):
                events, unnumbered = change_events(blob, lineages[schema_id])
                found.append(pa.Table.from_batches([events.filter(events.column("key").is_valid())], EVENTS_SCHEMA))
                if unnumbered:
                    found.append(pa.Table.from_pylist([{"event": unnumbered}], EVENTS_SCHEMA))
        seen = pa.concat_tables(found)
        buckets = [divide_events(part) for _, part in divide(seen, [pc.fill_null(seen["key"], "")], _BUCKETS)]
        return join_seen(_sent(buckets))

    def find(self, find: Any) -> dict[str, pa.Table]:
        found = {
            schema_id: pa.concat_tables([_sent(find)(schema_id, blob) for blob in self._own_blobs([schema_id])])
            for schema_id in self.schema_ids
        }
        return {schema_id: rows for schema_id, rows in found.items() if rows.num_rows}

    def _own_blobs(self, schema_ids: Sequence[str]) -> list[pa.Table]:
        found, left_out = self.blobs.read(schema_ids), self.blobs.left_out
        return found if left_out is None else [leave_out(blob, CHANGE_COORDINATES, left_out) for blob in found]

    def offset_ends(self) -> tuple[int, int]:
        ends = pc.min_max(pa.concat_tables(self.blobs.read(self.schema_ids))["_hs_offset"]).as_py()
        return ends["min"], ends["max"]

    def change_rows(self, task: ChangeRows, present: Any = None, *, by: Sequence[str] = ()) -> Any:
        made = []
        for changes in self._own_blobs(self.schema_ids):
            if present is not None:
                there = present.select(list(CHANGE_COORDINATES)).rename_columns(list(COORDINATE_COLUMNS))
                changes = leave_out(changes, CHANGE_COORDINATES, there)
            made.append(_sent(task).rows(changes))
        return pa.concat_tables(made)

    def fold(self, task: FoldTask) -> Any:
        def fold(bucket: pa.Table, stored: pa.Table | None) -> tuple[FoldReport, dict[str, pa.Table | None]]:
            folded = _sent(task).fold(bucket)
            return folded.report, {"rows": folded.rows, "deletions": folded.deletions}

        self.blobs.merged.append("fold")
        return Merged(task, *_by_bucket(_split(task, self.blobs.read(self.schema_ids)), {}, fold))

    def key_statistics(self, task: KeyedTask) -> KeyStatistics:
        return join_key_statistics([_sent(_sent(task).key_statistics(blob)) for blob in self.blobs.read(self.schema_ids)])

    def join(self, task: KeyedTask, stored: Any) -> Any:
        def join(bucket: pa.Table, rows: pa.Table | None) -> tuple[FoldReport, dict[str, pa.Table | None]]:
            joined = _sent(task).join(bucket, rows)
            return joined.report, {"rows": joined.rows, "deletions": joined.deletions, "left": joined.left}

        self.blobs.merged.append("join")
        kept = {} if stored is None else {bucket: [rows] for bucket, rows in task.split_stored(stored, _BUCKETS)}
        return Merged(task, *_by_bucket(_split(task, self.blobs.read(self.schema_ids)), kept, join))


class Merged:
    """The result of a fold or a join of all buckets."""

    def __init__(self, task: FoldTask | KeyedTask, report: FoldReport, parts: dict[str, list[pa.Table]]) -> None:
        self.task = task
        self.report = report
        self._parts = parts

    def deletions(self) -> Iterator[pa.Table]:
        yield from self._parts.get("deletions", ())

    def left(self) -> pa.Table | None:
        found = self._parts.get("left")
        return pa.concat_tables(found) if found else None

    def rows(self, own: pa.Table | None = None) -> pa.Table:
        schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in self.task.row_types.items()])
        parts = [*self._parts.get("rows", ()), *([] if own is None else [own])]
        return pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])

    def close(self) -> None: ...


class Bucketed(Work):
    """A pipeline's work whose micro-batches keep their changes where they were decoded."""

    blobs: Blobs
    merged: list[str]
    rows_in_driver: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.merged, self.rows_in_driver = [], 0
        super().__init__(*arguments, **({"open_engine": open_frame_engine} | options))

    def process(self, raw: pa.Table, batch_id: int) -> None:
        parts = [self.decoder.decode(batch) for batch in raw.combine_chunks().to_batches(_BLOB_ROWS)]
        rows = pa.Table.from_batches([part.to_batch(with_statistics=True) for part in parts], DECODED_SCHEMA)
        self.blobs = Blobs()
        for part in parts:
            for schema_id, batches in part.changes.items():
                self.blobs.changes.setdefault(schema_id, []).extend(write_ipc(batch) for batch in batches)
        decoded = Decoded.from_table(rows.filter(pc.not_equal(rows["kind"], "changes")), self._open)
        try:
            self.processor.process(decoded, lambda wanted: raw, batch_id, self.read_until_us(raw, batch_id))
        finally:
            self.merged += self.blobs.merged
            self.rows_in_driver += self.blobs.fetched_rows

    def _open(self, schema_id: str, statistics: ChangeStatistics) -> BucketedChanges:
        batch: Any = self.blobs
        return BucketedChanges(batch, (schema_id,), statistics)


class BucketedWork(Bucketed, HistoryWork):
    """The same for the messages of a history."""


def _split(task: FoldTask | KeyedTask, blobs: list[pa.Table]) -> dict[int, list[pa.Table]]:
    pieces: dict[int, list[pa.Table]] = {}
    for blob in blobs:
        for bucket, rows in _sent(task).split(blob, _BUCKETS):
            pieces.setdefault(bucket, []).append(rows)
    return pieces


def _by_bucket(
    pieces: dict[int, list[pa.Table]],
    stored: dict[int, list[pa.Table]],
    make: Callable[[pa.Table, pa.Table | None], tuple[FoldReport, dict[str, pa.Table | None]]],
) -> tuple[FoldReport, dict[str, list[pa.Table]]]:
    reports, found = [], dict[str, list[pa.Table]]()
    for bucket, tables in pieces.items():
        kept = stored.get(bucket)
        report, made = make(pa.concat_tables(tables), None if kept is None else pa.concat_tables(kept))
        reports.append(_sent(report))
        for name, table in made.items():
            if table is not None and table.num_rows:
                found.setdefault(name, []).append(table)
    return join_reports(reports), found


def _sent(value: Any) -> Any:
    """What arrives of a value in another process."""
    return pickle.loads(pickle.dumps(value))
