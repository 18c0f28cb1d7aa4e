"""The change table of a target, an append-only table with one row per change that was applied to the target.

    the target's columns, with the change's values
    _hs_operation STRING | _hs_sequence STRING | _hs_commit_time TIMESTAMP, from the start of the sequence
    _hs_timestamp STRING, as in the message | _hs_stream_position STRING
    _hs_transaction STRING | _hs_event BIGINT, number in the transaction | _hs_last_event BOOLEAN
    _hs_present, _hs_changed ARRAY<STRING>: the carried columns, and the changed columns; null if unknown
    _hs_envelope_headers MAP<STRING,STRING>: the headers of the envelope
    _hs_topic STRING | _hs_partition INT | _hs_offset BIGINT | _hs_logged_time TIMESTAMP: coordinates in the source
    _hs_before_<column>: values before the change

Changes are appended after the merge, with the same unit and version, so the table does not contain changes that the merge has
rejected. The table has each message once, even after crashes: if the messages of a unit can repeat (after a crash, a failure or
a redrive), they are compared with the coordinates and log times in the table. Executors write their own changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headstream.errors import StorageError
from headstream.replicate.apply.on_executors.change_rows import CHANGE_BOOKKEEPING, ChangeRows
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges
from headstream.replicate.apply.type1.merge import fit_columns
from headstream.replicate.columns.changes import RESERVED_PREFIX
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, Coordinates, coordinates_table, match_rows
from headstream.replicate.engines.engine import TableEngine
from headstream.replicate.schemas.schemas import BEFORE_PREFIX, TableSchema
from headstream.replicate.schemas.spelling import in_table_spelling
from headstream.replicate.storage.places import Place

_ORIGIN: Final = (*CHANGE_COORDINATES, "_hs_logged_time")
"""The columns that identify a message."""


class ChangeTable:
    """The change table of one target, created with the first change."""

    def __init__(self, path: Place, open_engine: Callable[[Place], TableEngine]) -> None:
        self._path = path
        self._open_engine = open_engine
        self._opened: TableEngine | None = None

    @property
    def path(self) -> Place:
        """The table's directory or URI."""
        return self._path

    @property
    def engine(self) -> TableEngine:
        """The engine that reads and writes the table."""
        if self._opened is None:
            self._opened = self._open_engine(self._path)
        return self._opened

    def append(
        self,
        changes: pa.Table | SparkChanges,
        schema: TableSchema,
        rejected: Iterable[Coordinates],
        app_id: str,
        version: int,
        *,
        repeated: bool = False,
    ) -> None:
        """Append changes in one commit that records (app_id, version). If the commit exists, do nothing.

        Args:
            rejected: Coordinates of the changes that the merge has rejected, which are not appended.
            repeated: Whether changes may already be in the table, from another unit or structure; such changes are not appended.
        """
        names, schema = in_table_spelling(schema.changes.empty_table(), schema, self.engine.columns)
        wanted = schema.types | {BEFORE_PREFIX + name: kind for name, kind in schema.types.items()}
        if not self.engine.columns:
            self.engine.create({**schema.types, **CHANGE_BOOKKEEPING, **wanted}, mapped=schema.settings.column_names == "mapped")
        if self._has(app_id, version):
            return
        fit_columns(self.engine, self._own_columns(), wanted)
        left_out = coordinates_table(rejected)
        task = ChangeRows(
            tuple(names.schema.names),
            {column.ordinal: column.name for column in schema.metadata.columns},
            {
                name: CHANGE_BOOKKEEPING.get(name, kind) for name, kind in self.engine.columns.items()
            },  # the engine's types lack elements
            self._own_columns(),
            left_out if left_out.num_rows else None,
            schema.metadata.lineage.qualified_name,
        )
        rows = (
            self._local_rows(changes, task, repeated) if isinstance(changes, pa.Table) else self._frame(changes, task, repeated)
        )
        if rows is None:
            return
        try:
            self.engine.append(rows, app_id, version)
        except StorageError:
            self._opened = None  # the commit may have succeeded, and the changes must not be repeated
            if not self._has(app_id, version):
                raise

    def _local_rows(self, changes: pa.Table, task: ChangeRows, repeated: bool) -> pa.Table | None:
        """Return the rows for changes in the driver; None if there are none."""
        if repeated and changes.num_rows:
            ends = pc.min_max(changes["_hs_offset"]).as_py()
            found = self.engine.read(_ORIGIN, _between(ends["min"], ends["max"]))
            present = _dated(found, found["_hs_logged_time"].cast(pa.int64())).rename_columns(list(COORDINATE_COLUMNS))
            matched, _ = match_rows(_dated(changes, changes["_hs_logged_us"]).rename_columns(list(COORDINATE_COLUMNS)), present)
            changes = changes.filter(pc.invert(pc.is_in(pa.array(range(changes.num_rows), pa.int64()), matched)))
        rows = task.rows(changes)
        return rows if rows.num_rows else None

    def _frame(self, changes: SparkChanges, task: ChangeRows, repeated: bool) -> DataFrame | pa.Table | None:
        """Return the rows for changes on executors, fetched to the driver if the table's engine requires this, or None."""
        if changes.is_at_hand or not self.engine.takes_frames:
            return self._local_rows(changes.fetch(), task, repeated)
        if not repeated:
            return changes.change_rows(task)
        ends = changes.offset_ends()
        return changes.change_rows(task, self.engine.frame(_ORIGIN, _between(*ends)), by=_ORIGIN)

    def _has(self, app_id: str, version: int) -> bool:
        applied = self.engine.last_applied(app_id)
        return applied is not None and applied >= version

    def _own_columns(self) -> dict[str, str]:
        """Return the columns from the schema, and their types."""
        columns = self.engine.columns.items()
        return {name: kind for name, kind in columns if not name.startswith(RESERVED_PREFIX) or name.startswith(BEFORE_PREFIX)}


def _dated(rows: pa.Table, logged_us: pa.ChunkedArray) -> pa.Table:
    """Return coordinates with the log time added to the topic: a recreated topic has other messages at the same offsets."""
    topics = pc.binary_join_element_wise(rows["_hs_topic"], pc.fill_null(logged_us, 0).cast(pa.string()), "@")
    return rows.select(list(CHANGE_COORDINATES)).set_column(0, CHANGE_COORDINATES[0], topics)


def _between(first: int, last: int) -> str:
    return f"_hs_offset BETWEEN {first} AND {last}"
