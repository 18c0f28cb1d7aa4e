"""Schema evolution: which changes of a source table's columns are applied to the target, and which are refused.

compare_schemas() returns the source's changes since the newest applied schema; a policy decides each change. plan_evolution()
returns the changes that the target needs before it can hold the rows of a schema:

    added       the column is added; null in old rows
    dropped     the column stays; null in new rows
    renamed     as dropped and added, because the name identifies a column. If only the case differs, nothing changes:
                the column keeps its name in the table.
    widened     the column's type grows
    narrowed    the column keeps its type, which holds the narrower type; refused if neither type holds the other
    nullable    nothing changes: every column of a target can be null
    key         refused, because the key identifies rows and deletions
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from headstream.errors import SchemaError

DifferenceKind: TypeAlias = Literal[
    "on_column_added", "on_column_dropped", "on_column_renamed", "on_type_widened", "on_type_narrowed",
    "on_nullability_changed", "on_key_changed",
]  # fmt: skip
"""The table setting that configures the reaction to a difference."""

_GROWTHS: Final = frozenset(
    {
        ("DOUBLE", "FLOAT"),
        *((wide, narrow) for wide in ("FLOAT", "DOUBLE") for narrow in ("TINYINT", "SMALLINT")),
        ("DOUBLE", "INT"),
        *((wide, "DATE") for wide in ("TIMESTAMP", "TIMESTAMP_NTZ")),
    }
)
"""Pairs of types; the first holds the values of the second without loss. Integers and decimals are compared by digits."""
_INTEGERS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}  # decimal digits


@dataclass(frozen=True, slots=True)
class Evolution:
    """The columns (name -> type) to add or widen in a table before changes of a schema can be merged."""

    added: dict[str, str]
    widened: dict[str, str]


def plan_evolution(table: Mapping[str, str], schema: Mapping[str, str]) -> Evolution:
    """Return the changes that a table needs before it can hold rows of a schema.

    A column that the table lacks is added, with null in old rows. A column that the schema lacks stays. A column whose type has
    grown is widened. Rows of an older, narrower schema need no change.
    """
    added, widened = {}, {}
    for name, wanted in schema.items():
        present = table.get(name)
        if present is None:
            added[name] = wanted
        elif not _holds(present, wanted):
            if not _holds(wanted, present):
                raise SchemaError(
                    f"column {name!r} is {present} in the table and {wanted} in the schema, and neither type includes the other",
                    advice="Reload the table into an empty directory",
                )
            widened[name] = wanted
    return Evolution(added, widened)


def _holds(wide: str, narrow: str) -> bool:
    """Return whether the type `wide` holds every value of the type `narrow` without loss."""
    if wide == narrow or (wide, narrow) in _GROWTHS:
        return True
    if wide in _INTEGERS and narrow in _INTEGERS:
        return _INTEGERS[wide] >= _INTEGERS[narrow]
    precision, scale = _decimal(wide)
    if precision < 0:
        return False
    if narrow in _INTEGERS:
        return precision - scale >= _INTEGERS[narrow]
    digits, needed_scale = _decimal(narrow)
    return digits >= 0 and scale >= needed_scale and precision - scale >= digits - needed_scale


def _decimal(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text.replace(" ", ""))
    return (int(match[1]), int(match[2])) if match is not None else (-1, 0)


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column of a schema: its position from 1, its Spark type, and whether the column allows null."""

    ordinal: int
    kind: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class SeenSchema:
    """The newest schema that a table has followed."""

    version: int
    keys: tuple[str, ...]
    columns: Mapping[str, SeenColumn]

    def to_document(self) -> dict[str, Any]:
        """Return the schema as JSON values."""
        columns = {name: [column.ordinal, column.kind, column.nullable] for name, column in self.columns.items()}
        return {"version": self.version, "keys": list(self.keys), "columns": columns}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> SeenSchema:
        """Return the schema from the result of to_document()."""
        columns = {name: SeenColumn(*values) for name, values in document["columns"].items()}
        return cls(document["version"], tuple(document["keys"]), columns)


@dataclass(frozen=True, slots=True)
class Difference:
    """One change of the source's schema.

    Args:
        kind: The setting that configures the reaction to the change.
    """

    kind: DifferenceKind
    what: str


def compare_schemas(before: SeenSchema, after: SeenSchema) -> list[Difference]:
    """Return the source's changes from one schema to the next."""
    found = []
    if before.keys != after.keys:
        was, now = (", ".join(keys) or "none" for keys in (before.keys, after.keys))
        found.append(Difference("on_key_changed", f"the primary key was {was} and is now {now}"))
    dropped = {column.ordinal: name for name, column in before.columns.items() if name not in after.columns}
    respelled = {name.lower(): name for name in dropped.values()}
    for name, column in after.columns.items():
        was_column = before.columns.get(name)
        if was_column is not None:
            found += _compare_columns(name, was_column, column)
            continue
        was_spelled = respelled.get(name.lower())
        if was_spelled is not None and before.columns[was_spelled].ordinal in dropped:
            was_column = before.columns[was_spelled]
            del dropped[was_column.ordinal]
            found.append(Difference("on_column_renamed", f"column {was_spelled!r} is now {name!r}"))
            found += _compare_columns(name, was_column, column)
            continue
        old_name = dropped.get(column.ordinal)
        if old_name is not None and before.columns[old_name].kind == column.kind:
            del dropped[column.ordinal]
            found.append(Difference("on_column_renamed", f"column {old_name!r} is now {name!r}"))
        else:
            found.append(Difference("on_column_added", f"column {name!r} {column.kind} was added"))
    found += [Difference("on_column_dropped", f"column {name!r} was dropped") for name in dropped.values()]
    return found


def _compare_columns(name: str, before: SeenColumn, after: SeenColumn) -> list[Difference]:
    found = []
    if before.kind != after.kind:
        kind: DifferenceKind = "on_type_widened" if _holds(after.kind, before.kind) else "on_type_narrowed"
        found.append(Difference(kind, f"column {name!r} was {before.kind} and is now {after.kind}"))
    if before.nullable != after.nullable:
        text = "may be null now" if after.nullable else "may no longer be null"
        found.append(Difference("on_nullability_changed", f"column {name!r} {text}"))
    return found
