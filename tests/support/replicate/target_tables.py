"""Target tables for tests: changes from change_tables applied to them in units, and what they hold then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from headstream.replicate.codec import TableMetadata, target_type
from headstream.replicate.columns.changes import BOOKKEEPING, OLD_PREFIX
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.settings.table_settings import TableSettings
from headstream.replicate.tables.maintenance import Schedule
from headstream.replicate.tables.tables import Applied, TargetTables, table_path
from tests.support.replicate.change_tables import METADATA
from tests.support.replicate.plain_engine import open_plain_engine


def schema_of(metadata: TableMetadata, settings: TableSettings | None = None) -> TableSchema:
    """What a schema means for decoded changes."""
    types = {column.name: target_type(column) for column in metadata.columns}
    fields = [pa.field(name, arrow_type(kind)) for name, kind in types.items()] + BOOKKEEPING
    fields += [pa.field(f"{OLD_PREFIX}{key}", arrow_type(types[key])) for key in metadata.key_columns]
    name = metadata.lineage.schema, metadata.lineage.table
    return TableSchema(metadata, types, pa.schema(fields), None, settings or TableSettings(), name)


class Target:
    """The target of `shop.orders` in a directory, opened again whenever asked."""

    def __init__(self, directory: Path, *, load_gap_us: int = 0, **settings: Any) -> None:
        self.directory = directory
        self.load_gap_us = load_gap_us
        self.settings = TableSettings(**settings)
        self.version = 0
        self.tables = self._open()

    def _open(self) -> TargetTables:
        paths = self.directory / "tables", self.directory / "checkpoint"
        return TargetTables(*paths, open_plain_engine, load_gap_us=self.load_gap_us)

    def reopen(self, **settings: Any) -> None:
        """Open what is there as a new process would."""
        self.tables.close()
        self.settings = replace(self.settings, **settings)
        self.tables = self._open()

    def apply(
        self, *changes: dict[str, Any], metadata: TableMetadata = METADATA, again: bool = False, fails: bool = False
    ) -> Applied:
        """Apply changes as the next unit, or as the last one again."""
        schema = schema_of(metadata, self.settings)
        batch = pa.RecordBatch.from_pylist(list(changes), schema=schema.changes)
        self.version += not again
        ids = {metadata.schema_id: schema}
        applied = self.tables.apply({metadata.schema_id: [batch]}, ids, "test", self.version)
        assert bool(applied.failed) == fails, applied.failed
        return applied

    def forget(self, *, kept_us: int, now_us: int) -> bool:
        """Forget deletions that were recorded longer ago than a time."""
        schedule = Schedule(tombstones_kept_us=kept_us, compact_every_us=0, vacuum_every_us=0, vacuum_kept_us=0)
        return self.tables.maintain(("shop", "orders"), schedule, now_us, may_forget=True)

    def maintain(self, *, may_forget: bool) -> None:
        """Do what is due between micro-batches; `may_forget` tells that no message waits."""
        schedule = Schedule(tombstones_kept_us=None, compact_every_us=0, vacuum_every_us=0, vacuum_kept_us=0)
        self.tables.maintain(("shop", "orders"), schedule, 0, may_forget=may_forget)

    def stored(self) -> list[dict[str, Any]]:
        """Every row of the table, bookkeeping included."""
        rows: list[dict[str, Any]] = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        return rows

    @property
    def path(self) -> Path:
        """The Delta table."""
        return table_path(self.directory / "tables", "shop", "orders")

    @property
    def tombstones(self) -> Path:
        """The Delta table of its tombstones."""
        return table_path(self.directory / "checkpoint" / "tombstones", "shop", "orders")

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """Key -> name, total and note."""
        stored = self.stored()
        assert len({row["ID"] for row in stored}) == len(stored)
        return {row["ID"]: (row["name"], row["total"], row["note"]) for row in stored}

    def names(self) -> dict[int, str]:
        """Key -> name."""
        return {key: row[0] for key, row in self.rows().items()}
