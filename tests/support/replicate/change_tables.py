"""Decoded changes for tests: one table of four columns, built from short tuples."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata, target_type
from headstream.replicate.columns.changes import BOOKKEEPING, OLD_PREFIX, OPERATIONS
from headstream.replicate.columns.conversion import arrow_type

COLUMNS = (
    ColumnMetadata("ID", 1, "INT8", 0, 0, 0, 1, False),
    ColumnMetadata("name", 2, "WSTRING", 40),
    ColumnMetadata("total", 3, "NUMERIC", 0, 10, 2),
    ColumnMetadata("note", 4, "CLOB"),
)
METADATA = TableMetadata("8FB9D3C10EA4B25751DF9CC8318F0A02", Lineage("s", "task", "shop", "orders", 1, ""), COLUMNS, "{}")
KEYLESS = replace(METADATA, columns=tuple(replace(column, primary_key_position=0) for column in COLUMNS))
TYPES = {column.name: target_type(column) for column in COLUMNS}
NAMES = [column.name for column in COLUMNS]
SCHEMA = pa.schema(
    [pa.field(name, arrow_type(kind)) for name, kind in TYPES.items()] + BOOKKEEPING + [pa.field(f"{OLD_PREFIX}ID", pa.int64())]
)


def sequence(number: int) -> str:
    """A change sequence: 16 characters of time, 19 of a number."""
    return f"2023032121341658{number:019d}"


def change(
    operation: str,
    key: int,
    name: str | None = None,
    total: str | None = None,
    note: str | None = None,
    *,
    at: int = 0,
    present: set[str] | None = None,
    old: int | None = None,
    changed: bytes | None = None,
    logged_us: int = 0,
) -> dict[str, Any]:
    """One decoded change; `present` names the columns that its mask says are there."""
    mask = None
    if present is not None:
        bits = sum(1 << column.ordinal - 1 for column in COLUMNS if column.name in present)
        mask = bits.to_bytes(1, "little")
    return {
        "ID": key,
        "name": name,
        "total": None if total is None else Decimal(total).quantize(Decimal("0.01")),
        "note": note,
        "_hs_operation": OPERATIONS.index(operation),
        "_hs_sequence": "" if operation == "REFRESH" else sequence(at),
        "_hs_columns": mask,
        "_hs_changed": changed,
        "_hs_transaction": None,
        "_hs_event": None,
        "_hs_last_event": None,
        "_hs_logged_us": logged_us,
        "_hs_topic": "cdc/data",
        "_hs_partition": 1,
        "_hs_offset": at,
        f"{OLD_PREFIX}ID": old,
    }


def table(*changes: dict[str, Any]) -> pa.Table:
    """Decoded changes as a table."""
    return pa.Table.from_pylist(list(changes), schema=SCHEMA)
