"""Column names that differ from a table's names only in case. In Delta they are the same column, which keeps its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from headstream.replicate.columns.changes import OLD_PREFIX
from headstream.replicate.schemas.schemas import BEFORE_PREFIX, TableSchema


def spell_names(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return names with the case of the table's columns; names must be unique ignoring case."""
    known = {column.lower(): column for column in columns}
    return [known.get(name.lower(), name) for name in names]


def in_table_spelling(changes: pa.Table, schema: TableSchema, columns: Iterable[str]) -> tuple[pa.Table, TableSchema]:
    """Return changes and their schema with the column names of a table."""
    renamed = {
        name: spelled for name, spelled in zip(schema.types, spell_names(schema.types, columns), strict=True) if name != spelled
    }
    if not renamed:
        return changes, schema
    everywhere = {
        prefix + name: prefix + spelled for name, spelled in renamed.items() for prefix in ("", OLD_PREFIX, BEFORE_PREFIX)
    }
    named = changes.rename_columns([everywhere.get(name, name) for name in changes.schema.names])
    metadata = replace(
        schema.metadata,
        columns=tuple(replace(column, name=renamed.get(column.name, column.name)) for column in schema.metadata.columns),
    )
    types = {renamed.get(name, name): kind for name, kind in schema.types.items()}
    return named, replace(schema, metadata=metadata, types=types)
