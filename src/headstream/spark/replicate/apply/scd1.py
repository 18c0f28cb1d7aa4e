"""Rows as they are now (SCD type 1): one change a key into a table, guarded by the change sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.replicate import TableMetadata
from headstream.errors import SchemaError
from headstream.spark.replicate.apply.engine import Counts, TableEngine
from headstream.spark.replicate.apply.evolution import plan_evolution
from headstream.spark.replicate.apply.key_log import KeyLog
from headstream.spark.replicate.apply.key_ranges import key_ranges, ranges_sql
from headstream.spark.replicate.apply.plan import plan_merge, quote_text
from headstream.spark.replicate.apply.resolve import Resolved, Resolver
from headstream.spark.replicate.apply.soft import DELETED, soften
from headstream.spark.replicate.apply.state_rows import fold_log
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.changes import CHANGE_KEY, RESERVED_PREFIX, Collapsed, collapse
from headstream.spark.replicate.conversion import arrow_type
from headstream.spark.replicate.row_merge import Key
from headstream.spark.replicate.row_versions import UNIFORM_MARK, not_carried_sql
from headstream.spark.replicate.versions import LOAD_MARK, LOAD_TIME_CHARACTERS

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
        self._log = KeyLog(tombstones.path, keys)
        self._resolver = Resolver(engine, keys, tombstones, self._log, soft=soft)
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

    def prepare(self, schema: Mapping[str, str], *, older: bool = False) -> None:
        """Make the table, or make its columns fit a schema.

        Args:
            schema: Column names and Spark types that changes come in.
            older: Whether the table has followed a newer schema, so that its rows do not carry the columns it lacks.

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
        added = fit_columns(self._engine, self.columns, schema)
        if older and added:
            self._engine.update({"_hs_versions": not_carried_sql(added)}, "TRUE")
            self._versioned = True
        self._resolver.bring_old_moves()

    def collapse(self, changes: pa.Table, metadata: TableMetadata, columns: Iterable[str] | None = None) -> Collapsed:
        """Return what changes come to as far as they alone tell it, and those that must be joined to stored rows.

        Args:
            changes: Decoded changes, in any order, repeats allowed.
            metadata: The columns and keys of the schema they were decoded by.
            columns: The table's columns that are its source's; None: all of its own.
        """
        wanted = self._log.mask if self._log else None
        return collapse(changes, metadata, self.columns if columns is None else columns, wanted, soft=self._soft)

    def merge(self, collapsed: Collapsed, app_id: str, version: int) -> Counts:
        """Merge changes in one commit that remembers (app_id, version); nothing where it is there already.

        Args:
            collapsed: As collapse() of this table gives it.
            app_id: Names what is applied.
            version: Number of this application, rising.

        Raises:
            StorageError: the table cannot be written.
        """
        applied = self._engine.last_applied(app_id)
        if applied is not None and applied >= version:
            return Counts()
        changes, _ = self._tombstones.divide(in_table_types(collapsed.changes, self.columns))
        events = None if collapsed.events is None else in_table_types(collapsed.events, self.columns)
        late = changes.slice(0, 0)
        if self._versioned or self._soft:
            places = self._resolver.find_late(changes) if changes.num_rows else pa.array([], pa.int64())
            late = changes.take(places)
            changes = changes.filter(pc.invert(pc.is_in(pa.array(range(changes.num_rows), pa.int64()), places)))
        resolved = self._resolver.resolve(events, late, collapsed)
        self._remember(collapsed.deletions, resolved)
        source, same = self._source(changes, resolved, collapsed.columns)
        self._versioned = self._versioned or source["_hs_versions"].null_count < source.num_rows
        plan = plan_merge(
            [name for name in source.schema.names if not name.startswith(RESERVED_PREFIX) and name not in same],
            self.keys,
            resolved=resolved is not None,
            versioned=self._versioned,
            loads=_has_loads(changes),
            where=ranges_sql(key_ranges(source, self.keys), "t."),
        )
        if self._soft:
            plan = soften(plan, resolved=resolved is not None)
        elif not pc.any(source["_hs_delete"]).as_py():
            plan = replace(plan, delete_when=None)
        return self._engine.merge(plan, source.drop_columns(sorted(same)), app_id, version)

    def _remember(self, deletions: pa.Table | None, resolved: Resolved | None) -> None:
        """Remember deletions before they are merged; a softly deleted row is its own memory."""
        if self._soft:
            return
        parts = [] if deletions is None else [in_table_types(deletions, self.columns)]
        parts += [] if resolved is None else [resolved.deletions]
        if parts:
            self._tombstones.record(pa.concat_tables(parts))

    def _source(self, changes: pa.Table, resolved: Resolved | None, columns: Sequence[str]) -> tuple[pa.Table, frozenset[str]]:
        """Return the merge's source, and the columns of it that the table has already."""
        for name in columns:  # of an insert, and of a deletion, whose values do not count
            if name not in changes.schema.names:
                changes = changes.append_column(name, pa.nulls(changes.num_rows, arrow_type(self.columns[name])))
        if self._soft:
            versions = pc.if_else(changes["_hs_delete"], pa.scalar(UNIFORM_MARK), pa.scalar(None, pa.string()))
            changes = changes.set_column(changes.schema.get_field_index("_hs_versions"), "_hs_versions", versions)
        if resolved is None:
            return changes, frozenset()
        rows = resolved.rows.append_column("_hs_resolved", pa.repeat(True, resolved.rows.num_rows))
        plain = changes.append_column("_hs_resolved", pa.repeat(False, changes.num_rows)).select(rows.schema.names)
        return pa.concat_tables([plain, rows]), resolved.same if not plain.num_rows else frozenset()

    def forget(self, until: str, *, vanished: bool = False) -> None:
        """Forget deletions, and changes of keys that changes of key connect, up to a sequence.

        Args:
            until: The highest sequence to forget.
            vanished: Whether what is not newer counts no more at all, not even what it came to.

        Raises:
            StorageError: they cannot be written.
        """
        self._tombstones.prune(until)
        if self._log:
            fold_log(self._log, self.keys, until, vanished=vanished)

    def find_known(self, changes: pa.Table) -> set[Key]:
        """Return those keys of changes whose row, deletion or other changes are known.

        Args:
            changes: With the key columns and `_hs_sequence`, in types that the table's hold.

        Raises:
            StorageError: the table, or its deletions, cannot be read.
        """
        rows = in_table_types(changes.select([*self.keys, "_hs_sequence"]), self.columns)
        found = self._tombstones.find(rows).select(self.keys)
        found = pa.concat_tables([found, self._resolver.read(self.keys, rows.select(self.keys))])
        keys = set(zip(*(found[key].to_pylist() for key in self.keys), strict=True))
        return keys | {key for key in zip(*(rows[key].to_pylist() for key in self.keys), strict=True) if key in self._log}

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


def fit_columns(engine: TableEngine, columns: Mapping[str, str], schema: Mapping[str, str]) -> list[str]:
    """Make a table's columns fit a schema; return those that are new.

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
    return list(evolution.added)


def in_table_types(changes: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Cast changes of an older, narrower schema to the types of a table's columns."""
    fields = [
        pa.field(field.name, arrow_type(columns[field.name]) if field.name in columns else field.type) for field in changes.schema
    ]
    return changes.cast(pa.schema(fields))


def _has_loads(changes: pa.Table) -> bool:
    marks = pc.utf8_slice_codeunits(changes["_hs_sequence"], -LOAD_TIME_CHARACTERS - 1, -LOAD_TIME_CHARACTERS)
    return bool(pc.any(pc.equal(marks, LOAD_MARK)).as_py())
