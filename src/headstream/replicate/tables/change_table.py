"""The change table of a target: every change that was applied to it, one row each, append-only.

    the target's columns, with the change's values
    _hs_operation STRING | _hs_sequence STRING | _hs_commit_time TIMESTAMP, which the sequence begins with
    _hs_timestamp STRING, as the source wrote it | _hs_stream_position STRING
    _hs_transaction STRING | _hs_event BIGINT, its number in the transaction | _hs_last_event BOOLEAN
    _hs_present, _hs_changed ARRAY<STRING>: the columns that the change carries, and that it changed; null if unknown
    _hs_envelope_headers MAP<STRING,STRING>: the envelope's own headers
    _hs_topic STRING | _hs_partition INT | _hs_offset BIGINT | _hs_logged_time TIMESTAMP: its origin
    _hs_before_<column>: the row before

It is appended to after the merge, under the same unit and version, so changes that the merge rejected are not in it. It has
each message once, even after crashes: the messages of a unit that can repeat (begun before a crash, released after a failure or
from the dead letter) are compared with the coordinates in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import StorageError
from headstream.replicate.apply.engine import TableEngine
from headstream.replicate.apply.scd1 import fit_columns
from headstream.replicate.apply.scd2_rows import commit_times
from headstream.replicate.codec import decode_mask
from headstream.replicate.columns.changes import OPERATIONS, RESERVED_PREFIX
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, Coordinates, coordinates_table, leave_out
from headstream.replicate.schemas.schemas import BEFORE_PREFIX, TableSchema
from headstream.replicate.schemas.spelling import in_table_spelling
from headstream.replicate.storage.places import Place

__all__ = ["ChangeTable"]

_BOOKKEEPING: Final = {
    "_hs_operation": "STRING",
    "_hs_sequence": "STRING",
    "_hs_commit_time": "TIMESTAMP",
    "_hs_timestamp": "STRING",
    "_hs_stream_position": "STRING",
    "_hs_transaction": "STRING",
    "_hs_event": "BIGINT",
    "_hs_last_event": "BOOLEAN",
    "_hs_present": "ARRAY<STRING>",
    "_hs_changed": "ARRAY<STRING>",
    "_hs_envelope_headers": "MAP<STRING,STRING>",
    "_hs_topic": "STRING",
    "_hs_partition": "INT",
    "_hs_offset": "BIGINT",
    "_hs_logged_time": "TIMESTAMP",
}


class ChangeTable:
    """The change table of one target.

    Args:
        path: Its directory or URI; created with its first change.
        open_engine: Opens the Delta table there.
    """

    def __init__(self, path: Place, open_engine: Callable[[Place], TableEngine]) -> None:
        self._path = path
        self._open_engine = open_engine
        self._opened: TableEngine | None = None

    @property
    def path(self) -> Place:
        """Its directory or URI."""
        return self._path

    @property
    def engine(self) -> TableEngine:
        """The engine that reads and writes it."""
        if self._opened is None:
            self._opened = self._open_engine(self._path)
        return self._opened

    def append(
        self,
        changes: pa.Table,
        schema: TableSchema,
        rejected: Iterable[Coordinates],
        app_id: str,
        version: int,
        *,
        repeated: bool = False,
    ) -> None:
        """Append changes in one commit that remembers (app_id, version); nothing if that commit exists.

        Args:
            changes: Decoded changes, with their details.
            schema: The schema they were decoded by.
            rejected: Coordinates of the changes that the merge rejected; they are left out.
            app_id: Name of the unit.
            version: Number of this application, rising.
            repeated: Whether some of the changes can already be in the table, by another unit or structure: those are left out.

        Raises:
            SchemaError: a column's types in table and schema cannot be reconciled.
            StorageError: the table cannot be written.
        """
        changes, schema = in_table_spelling(changes, schema, self.engine.columns)
        wanted = schema.types | {BEFORE_PREFIX + name: kind for name, kind in schema.types.items()}
        if not self.engine.columns:
            self.engine.create({**schema.types, **_BOOKKEEPING, **wanted})
        if self._has(app_id, version):
            return
        fit_columns(self.engine, self._own_columns(), wanted)
        rows = leave_out(changes, CHANGE_COORDINATES, coordinates_table(rejected))
        if repeated and rows.num_rows:
            rows = leave_out(rows, CHANGE_COORDINATES, self._present(rows))
        if rows.num_rows:
            try:
                self.engine.append(self._to_rows(rows, schema), app_id, version)
            except StorageError:
                self._opened = None  # the commit may have succeeded, and the changes must not be repeated
                if not self._has(app_id, version):
                    raise

    def _present(self, changes: pa.Table) -> pa.Table:
        """Return the coordinates already in the table, within the range of those of the changes."""
        bounds = pc.min_max(changes["_hs_offset"]).as_py()
        found = self.engine.read(CHANGE_COORDINATES, f"_hs_offset BETWEEN {bounds['min']} AND {bounds['max']}")
        return found.rename_columns(list(COORDINATE_COLUMNS))

    def _has(self, app_id: str, version: int) -> bool:
        applied = self.engine.last_applied(app_id)
        return applied is not None and applied >= version

    def _own_columns(self) -> dict[str, str]:
        """Return the columns that follow the schema, and their types."""
        columns = self.engine.columns.items()
        return {name: kind for name, kind in columns if not name.startswith(RESERVED_PREFIX) or name.startswith(BEFORE_PREFIX)}

    def _to_rows(self, changes: pa.Table, schema: TableSchema) -> pa.Table:
        own = self._own_columns()
        fitted = in_table_types(changes.select([name for name in changes.schema.names if name in own]), own)
        names = {column.ordinal: column.name for column in schema.metadata.columns}
        found = {name: fitted[name] for name in fitted.schema.names}
        found |= {name: changes[name] for name in _BOOKKEEPING if name in changes.schema.names}
        sequences = changes["_hs_sequence"].combine_chunks()
        found["_hs_operation"] = pa.array(OPERATIONS).take(changes["_hs_operation"].combine_chunks())
        found["_hs_commit_time"] = commit_times(sequences)
        found["_hs_present"] = _columns_of(changes["_hs_columns"], names)
        found["_hs_changed"] = _columns_of(changes["_hs_changed"], names)
        found["_hs_logged_time"] = changes["_hs_logged_us"].cast(pa.timestamp("us", "UTC"))
        types = {name: arrow_type(_BOOKKEEPING.get(name) or own[name]) for name in self.engine.columns}
        arrays = [found[name] if name in found else pa.nulls(changes.num_rows, kind) for name, kind in types.items()]
        return pa.table(arrays, schema=pa.schema([pa.field(name, kind) for name, kind in types.items()]))


def _columns_of(masks: pa.ChunkedArray, names: dict[int, str]) -> pa.Array:
    """Return the names of the columns that masks have; masks repeat, so each is read once."""
    encoded = masks.combine_chunks().dictionary_encode()
    names_of = [[names[o] for o in sorted(decode_mask(mask)) if o in names] for mask in encoded.dictionary.to_pylist()]
    return pa.array(names_of, pa.list_(pa.string())).take(encoded.indices)
