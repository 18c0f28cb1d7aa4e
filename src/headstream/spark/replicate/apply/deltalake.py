"""The engine for one machine: merges run by deltalake (Rust), in the driver, without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from headstream.errors import SchemaError, StorageError
from headstream.spark.replicate.apply.evolution import plan_evolution
from headstream.spark.replicate.apply.mapped import MappedTables, needs_column_mapping
from headstream.spark.replicate.apply.plan import plan_merge
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.changes import RESERVED_PREFIX, Collapsed
from headstream.spark.replicate.conversion import arrow_type

__all__ = ["Counts", "DeltaLakeTable"]

_SPARK_TYPES: Final = {
    "byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "boolean": "BOOLEAN", "binary": "BINARY", "string": "STRING", "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
_DELTA_TYPES: Final = {spark: delta for delta, spark in _SPARK_TYPES.items()}
_BOOKKEEPING: Final = {"_hs_sequence": "STRING", "_hs_versions": "STRING"}


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows that a merge inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


class DeltaLakeTable:
    """One target table.

    Args:
        path: Its directory.
        keys: Its primary key.
        tombstones: Where its deletions are remembered.
        mapped: Makes and changes it where its column names need mapping.
    """

    def __init__(self, path: Path, keys: list[str], tombstones: Tombstones, mapped: MappedTables) -> None:
        self.path = path
        self.keys = keys
        self._tombstones = tombstones
        self._mapped = mapped
        self._table = DeltaTable(str(path)) if DeltaTable.is_deltatable(str(path)) else None
        self._versioned = self._table is not None and self._has_versions()

    @property
    def columns(self) -> dict[str, str]:
        """The table's own columns and their Spark types, in its order; empty before it is made."""
        if self._table is None:
            return {}
        fields = {field.name: _spark_type(field) for field in self._table.schema().fields}
        return {name: kind for name, kind in fields.items() if not name.startswith(RESERVED_PREFIX)}

    def prepare(self, schema: Mapping[str, str]) -> None:
        """Make the table, or make its columns fit a schema.

        Args:
            schema: Column names and Spark types that changes come in.

        Raises:
            SchemaError: a column's types in table and schema cannot be reconciled.
            StorageError: the table cannot be written.
        """
        try:
            if self._table is None:
                self._create(schema)
                return
            evolution = plan_evolution(self.columns, schema)
            if evolution.widened:
                self._widen(evolution.widened)
            if evolution.added:
                self._add_columns(evolution.added)
        except SchemaError as error:
            raise SchemaError(error.what, where=str(self.path), advice=error.advice) from None
        except (DeltaError, OSError) as error:
            raise StorageError(f"the table cannot be changed: {error}", where=str(self.path)) from error

    def merge(self, collapsed: Collapsed, app_id: str, version: int) -> Counts:
        """Merge one-change-a-key rows in one commit that remembers (app_id, version); nothing where it is there already.

        Raises:
            StorageError: the table cannot be written.
        """
        assert self._table is not None, "prepare() comes first"
        try:
            applied = self._table.transaction_version(app_id)
            if applied is not None and applied >= version:
                return Counts()
            self._tombstones.record(collapsed.changes)
            changes = self._tombstones.without_buried(collapsed.changes)
            return self._merge(self._in_table_types(changes), collapsed.partial, app_id, version)
        except (DeltaError, OSError) as error:
            raise StorageError(f"the merge failed: {error}", where=str(self.path)) from error

    def _merge(self, changes: pa.Table, partial: bool, app_id: str, version: int) -> Counts:
        assert self._table is not None
        source_columns = [name for name in changes.schema.names if not name.startswith(RESERVED_PREFIX)]
        self._versioned = self._versioned or partial
        bounds = _key_bounds(changes, self.keys)
        plan = plan_merge(list(self.columns), source_columns, self.keys, versioned=self._versioned, bounds=bounds)
        transaction = CommitProperties(app_transactions=[Transaction(app_id, version)])
        merge = self._table.merge(
            changes, plan.predicate, source_alias="s", target_alias="t", commit_properties=transaction, merge_schema=False
        ).when_not_matched_insert(plan.insert, plan.insert_when)
        if pc.any(changes["_hs_delete"]).as_py():
            merge = merge.when_matched_delete(plan.delete_when)
        metrics = merge.when_matched_update(plan.update, plan.update_when).execute()
        return Counts(metrics["num_target_rows_inserted"], metrics["num_target_rows_updated"], metrics["num_target_rows_deleted"])

    def _in_table_types(self, changes: pa.Table) -> pa.Table:
        """Cast changes of an older, narrower schema to the table's types."""
        columns = self.columns
        fields = [
            pa.field(field.name, arrow_type(columns[field.name]) if field.name in columns else field.type)
            for field in changes.schema
        ]
        return changes.cast(pa.schema(fields))

    def _create(self, schema: Mapping[str, str]) -> None:
        columns = {**schema, **_BOOKKEEPING}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if needs_column_mapping(list(schema)):
            self._mapped.create(self.path, columns)
            self._table = DeltaTable(str(self.path))
        else:
            arrow = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns.items()])
            self._table = DeltaTable.create(str(self.path), schema=arrow)

    def _add_columns(self, added: Mapping[str, str]) -> None:
        assert self._table is not None
        if self._is_mapped():
            self._mapped.add_columns(self.path, added)
            self._table.update_incremental()
        elif needs_column_mapping(added):
            raise SchemaError(
                f"the new column {next(iter(added))!r} needs column mapping, which the table was made without",
                advice="Load the table again into an empty directory",
            )
        else:
            self._table.alter.add_columns([Field(name, PrimitiveType(_delta_type(kind))) for name, kind in added.items()])

    def _widen(self, widened: Mapping[str, str]) -> None:
        # Parquet files keep the type they were written with, so a grown type means writing the rows again.
        assert self._table is not None
        if self._is_mapped():
            self._mapped.widen(self.path, widened)
            self._table.update_incremental()
            return
        rows = self._table.to_pyarrow_dataset().scanner().to_reader()
        types = [arrow_type(widened[field.name]) if field.name in widened else field.type for field in rows.schema]
        schema = pa.schema([field.with_type(kind) for field, kind in zip(rows.schema, types, strict=True)])
        reader = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))
        write_deltalake(self._table, reader, mode="overwrite", schema_mode="overwrite")

    def _is_mapped(self) -> bool:
        assert self._table is not None
        configuration: dict[str, str] = self._table.metadata().configuration
        return "delta.columnMapping.mode" in configuration

    def _has_versions(self) -> bool:
        """Return whether any row has versions of its own for its columns, from the statistics of the table's files."""
        assert self._table is not None
        versions = next(field for field in self._table.schema().fields if field.name == "_hs_versions")
        physical = versions.metadata.get("delta.columnMapping.physicalName", "_hs_versions")
        files = pa.table(self._table.get_add_actions(flatten=True))
        if f"null_count.{physical}" not in files.schema.names:
            return bool(files.num_rows)  # no statistics: take the slow, safe way
        nulls, rows = files[f"null_count.{physical}"], files["num_records"]
        return bool(pc.any(pc.fill_null(pc.not_equal(nulls, rows), True)).as_py())


def _key_bounds(changes: pa.Table, keys: list[str]) -> dict[str, tuple[int, int]]:
    """Return the least and greatest value of each whole-number key column."""
    bounds = {}
    for key in keys:
        if changes.num_rows and pa.types.is_integer(changes.schema.field(key).type):
            bounds[key] = tuple(pc.min_max(changes[key]).as_py().values())
    return bounds


def _spark_type(field: Field) -> str:
    text = str(getattr(field.type, "type", field.type))
    return _SPARK_TYPES.get(text, text.upper())


def _delta_type(spark_type: str) -> str:
    return _DELTA_TYPES.get(spark_type, spark_type.lower())
