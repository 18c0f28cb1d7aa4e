"""The target tables of a pipeline: which Delta table a source table is, and decoded changes into them."""

from __future__ import annotations

import hashlib
import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headstream.codec.replicate import TableMetadata
from headstream.errors import SchemaError
from headstream.spark.replicate.apply.deltalake import Counts, DeltaLakeTable
from headstream.spark.replicate.apply.mapped import MappedTables
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.changes import collapse
from headstream.spark.replicate.raw import Coordinates
from headstream.spark.replicate.schemas import TableSchema

__all__ = ["Applied", "TargetTables", "table_path"]


def table_path(directory: Path, schema: str, table: str) -> Path:
    """Return where a source table's Delta table is: `<schema>/<table>`, percent-encoded where a name needs it.

    Args:
        directory: The pipeline's tables.
        schema: The source schema.
        table: The source table.
    """
    return directory / _encode(schema) / _encode(table)


def _encode(name: str) -> str:
    text = urllib.parse.quote(name, safe="$@+")
    return text.replace(".", "%2E") if text in (".", "..") else text


@dataclass(slots=True)
class Applied:
    """What applying a batch of changes did.

    Args:
        counts: (schema, table) -> rows inserted, updated and deleted.
        changes: How many changes went in.
        rejected: Coordinates of changes that cannot be applied -> the reason.
    """

    counts: dict[tuple[str, str], Counts] = field(default_factory=dict)
    changes: int = 0
    rejected: dict[Coordinates, str] = field(default_factory=dict)


class TargetTables:
    """Every table that a pipeline writes.

    Args:
        directory: Where they are.
        tombstones: Directory of what has been deleted from them.
        mapped: Makes and changes the tables whose column names need mapping.
    """

    def __init__(self, directory: Path, tombstones: Path, mapped: MappedTables) -> None:
        self._directory = directory
        self._tombstones = tombstones
        self._mapped = mapped
        self._open: dict[tuple[str, str], DeltaLakeTable] = {}

    def apply(
        self, changes: Mapping[str, list[pa.RecordBatch]], schemas: Mapping[str, TableSchema], unit: str, version: int
    ) -> Applied:
        """Merge decoded changes into their tables: one commit a table and structure, which remembers unit and version.

        Args:
            changes: Schema id -> decoded changes.
            schemas: Schema id -> the schema.
            unit: Names what is applied, the same when it is applied again after a restart.
            version: Number of this application, rising within the unit.

        Raises:
            StorageError: a table cannot be written; what is applied already stays, and is not applied twice.
        """
        applied = Applied()
        structures: dict[tuple[tuple[str, str], str], list[str]] = {}
        for schema_id in changes:
            schema = schemas[schema_id]
            structures.setdefault((schema.table, _structure(schema.metadata)), []).append(schema_id)
        # Older versions first, so that a column dropped and a column added end as the newest schema has them.
        ordered = sorted(
            structures.items(), key=lambda item: (item[0][0], schemas[item[1][0]].metadata.lineage.table_version, item[0][1])
        )
        for (table, structure), schema_ids in ordered:
            batches = [batch for schema_id in schema_ids for batch in changes[schema_id] if batch.num_rows]
            if batches:
                app_id = f"{unit}/{structure}"
                self._apply_structure(applied, table, schemas[schema_ids[0]], pa.Table.from_batches(batches), app_id, version)
        return applied

    def _apply_structure(
        self, applied: Applied, name: tuple[str, str], schema: TableSchema, changes: pa.Table, app_id: str, version: int
    ) -> None:
        table = self._table(name, schema)
        try:
            if tuple(schema.metadata.key_columns) != tuple(table.keys):
                raise SchemaError(
                    f"the primary key was {', '.join(table.keys)} and is now {', '.join(schema.metadata.key_columns)}",
                    where=str(table.path),
                    advice="Load the table again into an empty directory",
                )
            table.prepare(schema.types)
        except SchemaError as error:
            rows = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).to_pylist()
            applied.rejected |= {(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"]): str(error) for row in rows}
            return
        collapsed = collapse(changes, schema.metadata, list(table.columns))
        applied.rejected |= {(topic, partition, offset): reason for topic, partition, offset, reason in collapsed.rejected}
        counts = table.merge(collapsed, app_id, version)
        applied.counts[name] = applied.counts.get(name, Counts()) + counts
        applied.changes += collapsed.count

    def _table(self, name: tuple[str, str], schema: TableSchema) -> DeltaLakeTable:
        if name not in self._open:
            keys = list(schema.metadata.key_columns)
            tombstones = Tombstones(table_path(self._tombstones, *name), keys)
            self._open[name] = DeltaLakeTable(table_path(self._directory, *name), keys, tombstones, self._mapped)
        return self._open[name]


def _structure(metadata: TableMetadata) -> str:
    """Return a text that two schemas share when their rows can be merged as one: same columns, types and keys."""
    columns = [[c.name, c.ordinal, c.type, c.precision, c.scale, c.primary_key_position] for c in metadata.columns]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]
