"""Rows as they are now (SCD type 1): one change a key into a table, guarded by the change sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.spark.replicate.apply.engine import Counts, TableEngine
from headstream.spark.replicate.apply.evolution import plan_evolution
from headstream.spark.replicate.apply.key_ranges import key_ranges, ranges_sql
from headstream.spark.replicate.apply.moves import Moves
from headstream.spark.replicate.apply.plan import MergePlan, plan_merge, quote_text
from headstream.spark.replicate.apply.soft import DELETED, soften
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.changes import CHANGE_KEY, RESERVED_PREFIX, Collapsed
from headstream.spark.replicate.conversion import arrow_type
from headstream.spark.replicate.folding import Key
from headstream.spark.replicate.versions import LOAD_MARK, LOAD_TIME_CHARACTERS, VERSION_CHARACTERS

__all__ = ["Scd1Table", "fit_columns", "in_table_types"]

_BOOKKEEPING: Final = {"_hs_sequence": "STRING", "_hs_versions": "STRING"}


class Scd1Table:
    """One target table.

    Args:
        engine: What reads and writes it.
        keys: Its primary key.
        tombstones: Where its deletions are remembered.
        soft: Whether deleted rows stay, marked.
        partition_by: Columns that its files are partitioned by, when it is made.
    """

    def __init__(
        self,
        engine: TableEngine,
        keys: list[str],
        tombstones: Tombstones,
        *,
        soft: bool = False,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.keys = keys
        self._partition_by = partition_by
        self._engine = engine
        self._tombstones = tombstones
        self._moves = Moves(tombstones.path, keys)
        self._soft = soft
        self._versioned = bool(engine.columns) and engine.count_values("_hs_versions") != 0

    @property
    def path(self) -> Path:
        """Its directory."""
        return self._engine.path

    @property
    def columns(self) -> dict[str, str]:
        """The table's own columns and their Spark types, in its order; empty before it is made."""
        return {name: kind for name, kind in self._engine.columns.items() if not name.startswith(RESERVED_PREFIX)}

    @property
    def engine(self) -> TableEngine:
        """What reads and writes it."""
        return self._engine

    def prepare(self, schema: Mapping[str, str]) -> None:
        """Make the table, or make its columns fit a schema.

        Args:
            schema: Column names and Spark types that changes come in.

        Raises:
            SchemaError: a column's types in table and schema cannot be reconciled.
            StorageError: the table cannot be written.
        """
        if not self._engine.columns:
            own_key = {CHANGE_KEY: "STRING"} if self.keys == [CHANGE_KEY] else {}
            soft = {DELETED: "BOOLEAN"} if self._soft else {}
            self._engine.create({**schema, **own_key, **_BOOKKEEPING, **soft}, self._partition_by)
            return
        if self._soft and DELETED not in self._engine.columns:
            self._engine.add_columns({DELETED: "BOOLEAN"})
        fit_columns(self._engine, self.columns, schema)

    def merge(self, collapsed: Collapsed, app_id: str, version: int) -> Counts:
        """Merge one-change-a-key rows in one commit that remembers (app_id, version); nothing where it is there already.

        Raises:
            StorageError: the table cannot be written.
        """
        applied = self._engine.last_applied(app_id)
        is_new = applied is None or applied < version
        if not is_new and not self._moves:
            return Counts()
        # First: of these changes' own deletions none is of a key that another of them has, so that nothing need be looked up.
        changes, buried = self._tombstones.divide(collapsed.changes)
        if is_new:
            self._remember(collapsed)
        counts = self._merge(changes, collapsed.partial, app_id, version) if is_new else Counts()
        return counts + self._forward(buried, f"{app_id}/moved", version)

    def _remember(self, collapsed: Collapsed) -> None:
        """Remember deletions and where rows went, before they are merged."""
        if not self._soft or collapsed.moves:
            self._tombstones.record(collapsed.changes)
        self._moves.record(collapsed.moves, collapsed.changes.schema)

    def _merge(self, changes: pa.Table, partial: bool, app_id: str, version: int) -> Counts:
        changes = in_table_types(_without_absent(changes, list(self.columns), self.keys), self.columns)
        self._versioned = self._versioned or partial
        plan = self._plan(changes)
        if self._soft:
            plan = soften(plan)
        elif not pc.any(changes["_hs_delete"]).as_py():
            plan = replace(plan, delete_when=None)
        return self._engine.merge(plan, changes, app_id, version)

    def _forward(self, buried: pa.Table, app_id: str, version: int) -> Counts:
        """Merge what late changes of keys that rows have left say of those rows, where they are now."""
        if not self._moves or not buried.num_rows:
            return Counts()
        applied = self._engine.last_applied(app_id)
        changes, _ = self._tombstones.divide(self._moves.follow(buried, list(self.columns)))
        if not changes.num_rows or (applied is not None and applied >= version):
            return Counts()
        changes = in_table_types(changes, self.columns)
        self._versioned = True
        plan = replace(self._plan(changes), delete_when=None, insert_when="false")  # the row is there, or was deleted since
        return self._engine.merge(plan, changes, app_id, version)

    def _plan(self, changes: pa.Table) -> MergePlan:
        return plan_merge(
            list(self.columns),
            [name for name in changes.schema.names if not name.startswith(RESERVED_PREFIX)],
            self.keys,
            versioned=self._versioned,
            loads=_has_loads(changes),
            where=ranges_sql(key_ranges(changes, self.keys), "t."),
        )

    def find_rows(self, keys: Iterable[Key]) -> dict[Key, dict[str, Any]]:
        """Read the rows of some keys, bookkeeping included.

        Raises:
            StorageError: the table cannot be read.
        """
        wanted = set(keys)
        if not self._engine.columns or not wanted:
            return {}
        columns = self._engine.columns
        arrays = [
            pa.array(values, arrow_type(columns[key])) for key, values in zip(self.keys, zip(*wanted, strict=True), strict=True)
        ]
        where = " AND ".join(ranges_sql(key_ranges(pa.table(arrays, names=self.keys), self.keys)))
        read = self._engine.read(list(columns), where or "TRUE")
        found = zip(*(read[key].to_pylist() for key in self.keys), strict=True)
        places = [place for place, key in enumerate(found) if key in wanted]
        rows = read.take(pa.array(places, pa.int64())).to_pylist()
        return {tuple(row[key] for key in self.keys): row for row in rows}

    def remove_until(self, sequence: str) -> Counts:
        """Remove the rows that nothing newer than a sequence has written: a full load that is over did not bring them.

        Raises:
            StorageError: the table cannot be written.
        """
        if not self._engine.columns:
            return Counts()
        where = f"_hs_sequence <= {quote_text(sequence)}"
        if self._soft:
            return Counts(deleted=self._engine.update({DELETED: "true"}, f"{where} AND NOT coalesce({DELETED}, false)"))
        return Counts(deleted=self._engine.delete(where))


def _without_absent(changes: pa.Table, columns: Sequence[str], keys: Sequence[str]) -> pa.Table:
    """Return the changes without the columns that none of them carries: the more columns a merge names, the longer it is planned.

    Args:
        changes: One a key.
        columns: The table's own columns, whose order `_hs_versions` follows.
        keys: Those that are never left out.
    """
    versions = changes["_hs_versions"]
    if versions.null_count or not changes.num_rows:
        return changes  # a change without versions carries all of them
    absent = [
        name
        for place, name in enumerate(columns)
        if name not in keys and name in changes.schema.names and not pc.any(_has_version(versions, place)).as_py()
    ]
    return changes.drop_columns(absent)


def _has_version(versions: pa.ChunkedArray, place: int) -> pa.ChunkedArray:
    """Return which rows have a version of a column, by its place."""
    first = place * VERSION_CHARACTERS
    version = pc.utf8_rtrim(pc.utf8_slice_codeunits(versions, first, first + VERSION_CHARACTERS), " ")
    return pc.not_equal(version, "")


def fit_columns(engine: TableEngine, columns: Mapping[str, str], schema: Mapping[str, str]) -> None:
    """Make a table's columns fit a schema.

    Args:
        engine: What changes the table.
        columns: The table's own columns.
        schema: Column names and Spark types that changes come in.

    Raises:
        SchemaError: a column's types in table and schema cannot be reconciled.
    """
    try:
        evolution = plan_evolution(columns, schema)
    except SchemaError as error:
        raise SchemaError(error.what, where=str(engine.path), advice=error.advice) from None
    if evolution.widened:
        engine.widen(evolution.widened)
    if evolution.added:
        engine.add_columns(evolution.added)


def in_table_types(changes: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Cast changes of an older, narrower schema to the types of a table's columns."""
    fields = [
        pa.field(field.name, arrow_type(columns[field.name]) if field.name in columns else field.type) for field in changes.schema
    ]
    return changes.cast(pa.schema(fields))


def _has_loads(changes: pa.Table) -> bool:
    marks = pc.utf8_slice_codeunits(changes["_hs_sequence"], -LOAD_TIME_CHARACTERS - 1, -LOAD_TIME_CHARACTERS)
    return bool(pc.any(pc.equal(marks, LOAD_MARK)).as_py())
