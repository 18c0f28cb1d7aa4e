"""Delta tables and their Iceberg mirrors for tests: a catalog in SQLite, and the rows that each format has."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import BinaryType, StringType

from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.iceberg.mirror import TableMirror
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.storage.places import Place, StorePlace

__all__ = ["IDENTIFIER", "delta_rows", "iceberg_rows", "make_mirror", "sql_catalog"]

logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)  # it tells each dictionary that iceberg_rows() reads
IDENTIFIER = ("shop", "orders")


def sql_catalog(directory: Path, tables: Place | None = None, **properties: str) -> Catalog:
    """Return a catalog in a SQLite file of a directory."""
    given = {"type": "sql", "uri": f"sqlite:///{directory / 'catalog.db'}", "pool_pre_ping": "false", **properties}
    return open_catalog(IcebergSettings(catalog=given), directory if tables is None else tables)


def make_mirror(catalog: Catalog, path: Place, *, most_snapshots: int = 100, kept_us: int = 7 * 86_400_000_000) -> TableMirror:
    """Return a mirror of a Delta table in IDENTIFIER."""
    return TableMirror(catalog, path, IDENTIFIER, most_snapshots=most_snapshots, kept_us=kept_us)


def delta_rows(path: Place, version: int | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a Delta table, in order, with the names of its columns before them."""
    options = path.delta_options if isinstance(path, StorePlace) else None
    table = DeltaTable(str(path), version=version, storage_options=options)
    return _listed([pa.record_batch(each) for each in QueryBuilder().register("t", table).execute("SELECT * FROM t")])


def iceberg_rows(table: Table, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
    """Return the same of an Iceberg table, as pyiceberg reads them."""
    scan = table.scan(snapshot_id=snapshot_id)
    # deltalake writes text and bytes as views, which pyarrow cannot take rows of: read as dictionaries, they are ordinary.
    texts = tuple(each.name for each in scan.projection().fields if isinstance(each.field_type, (BinaryType, StringType)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyiceberg's own dependencies
        return _listed(list(scan.to_arrow_batch_reader(dictionary_columns=texts)))


def _listed(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    names = sorted(rows[0]) if rows else []
    return [tuple(names), *sorted((tuple(row[name] for name in names) for row in rows), key=repr)]
