"""Columns of logged changes (key_log.py), and the part of a log that a resolver needs; also used on executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from headstream.replicate.columns.row_merge import Key, KeyEvent

LOGGED: Final = [
    pa.field("_hs_kind", pa.string()),
    pa.field("_hs_sequence", pa.string()),
    pa.field("_hs_transaction", pa.string()),
    pa.field("_hs_event", pa.int64()),
    pa.field("_hs_versions", pa.string()),
]


class ChangeLog(Protocol):
    """Interface through which a resolver reads and writes a table's KeyLog."""

    def __contains__(self, key: Key) -> bool: ...

    def connected(self, keys: Iterable[Key]) -> set[Key]:
        """Return the logged keys that key updates connect with the given keys, including the given keys."""

    def select(self, keys: Iterable[Key]) -> tuple[pa.Table | None, list[int]]:
        """Return all logged rows, and the numbers of the rows that belong to the given keys."""

    def events(self, numbers: Sequence[int]) -> list[KeyEvent]:
        """Return logged changes by number; an event's source is the number of its row in the result of select()."""

    def add(self, rows: pa.Table) -> None:
        """Log changes durably, except changes that are already logged."""

    def keys(self) -> list[Key]:
        """Return the logged keys."""

    def old_moves(self) -> list[KeyEvent]:
        """Return the key updates that older versions of Headstream stored."""

    def drop_old(self) -> None:
        """Remove the table of old_moves()."""


def stacked(tables: Sequence[pa.Table], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Concatenate rows of several tables, with null in columns that a table lacks. Columns not in `types` get the widest type."""
    known = types or {}
    fields: dict[str, pa.Field] = {}
    for field in (field for table in tables for field in table.schema):
        kind = known.get(field.name, field.type)
        before = fields.get(field.name)
        fields[field.name] = pa.field(field.name, kind if before is None else _wider(before.type, kind))
    schema = pa.schema(list(fields.values()))
    parts = []
    for table in tables:
        present = set(table.schema.names)
        columns = [table[name] if name in present else pa.nulls(table.num_rows, field.type) for name, field in fields.items()]
        parts.append(pa.table(columns, names=list(fields)).cast(schema))
    return pa.concat_tables(parts)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both types; the second type if Arrow has no common type."""
    if one == other:
        return one
    for day, moment in ((one, other), (other, one)):  # Arrow does not unify these types
        if pa.types.is_date(day) and pa.types.is_timestamp(moment):
            return moment
    try:
        found = pa.unify_schemas([pa.schema([("value", one)]), pa.schema([("value", other)])], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return other
    return found.field("value").type
