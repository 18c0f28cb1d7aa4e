"""The differences between two versions of a table."""

from __future__ import annotations

from typing import Any

from headstream.replicate.codec import ColumnMetadata, TableMetadata


def find_differences(before: TableMetadata, after: TableMetadata) -> list[dict[str, Any]]:
    """Return the differences between a version of a table and the previous version, as JSON objects.

    An object has `change` (`added`, `removed`, `changed` or `key`), `column` (None for the key), and the values `before` and
    `after` as strings, or None if there is no value.
    """
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    found = [_difference("removed", name, describe_type(old[name]), None) for name in old if name not in new]
    found += [_difference("added", name, None, describe_type(new[name])) for name in new if name not in old]
    for name in new:
        if name in old and describe_type(old[name]) != describe_type(new[name]):
            found.append(_difference("changed", name, describe_type(old[name]), describe_type(new[name])))
    if before.key_columns != after.key_columns:
        found.append(_difference("key", None, ", ".join(before.key_columns) or None, ", ".join(after.key_columns) or None))
    return found


def describe_type(column: ColumnMetadata) -> str:
    """Return the type of a column as a string, for example `NUMERIC(10, 2) not null`."""
    text = column.type
    if column.precision:
        text += f"({column.precision}, {column.scale})"
    elif column.length:
        text += f"({column.length})"
    return text if column.nullable else f"{text} not null"


def _difference(change: str, column: str | None, before: str | None, after: str | None) -> dict[str, Any]:
    return {"change": change, "column": column, "before": before, "after": after}
