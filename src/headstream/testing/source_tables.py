"""Definitions of simulated source tables: their columns as declared in a database, and the alterations of the tables.

A `SourceTable` defines a table (the key and, for each version, the columns) and the form of its capture (Avro with or without
logical types, or JSON). It contains no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from headstream.errors import InvalidInputError

SourceValue: TypeAlias = None | bool | int | float | Decimal | str | bytes | date | time | datetime
Row: TypeAlias = dict[str, SourceValue]

REPLICATE_TYPES: Final = frozenset({
    "INT1", "INT2", "INT4", "INT8", "UINT1", "UINT2", "UINT4", "UINT8", "REAL4", "REAL8", "NUMERIC", "BOOLEAN",
    "BYTES", "BLOB", "STRING", "WSTRING", "CLOB", "NCLOB", "DATE", "TIME", "DATETIME",
})  # fmt: skip
"""Every column type that Replicate supports."""

LOB_TYPES: Final = frozenset({"BLOB", "CLOB", "NCLOB"})
"""Replicate's large objects, which are never part of a key or a change mask."""

_KEY_TYPES: Final = REPLICATE_TYPES - LOB_TYPES - {"REAL4", "REAL8", "BOOLEAN", "TIME"}


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column of a source table.

    Args:
        name: The column's name, any string.
        type: One of REPLICATE_TYPES.
        length: Maximum length of a value in characters or bytes; 0 if the type has no length.
        precision: Decimal digits of a NUMERIC, 1 to 38.
        scale: Decimal places of a NUMERIC, 0 to its precision.
        key_position: Position in the primary key, from 1; 0 if the column is not in the key.
        nullable: Whether null is allowed.
    """

    name: str
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    key_position: int = 0
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source, with all its versions and the form of its messages.

    Args:
        name: The table's name within the schema.
        versions: The initial columns, then the columns after each alteration. Key columns must not change.
        form: `avro` or `json` envelopes.
        logical_types: Avro only: whether dates, times and decimals are encoded as logical types or as strings.
        weight: The table's share of the changes, relative to the other tables.

    Raises:
        InvalidInputError: there is no version or no usable primary key, a type is unknown, or a name is duplicated.
    """

    schema: str
    name: str
    versions: tuple[tuple[SourceColumn, ...], ...]
    form: Literal["avro", "json"] = "avro"
    logical_types: bool = True
    weight: int = 1

    def __post_init__(self) -> None:
        if not self.versions or self.weight < 1:
            raise self._error("the table must have at least one version and a weight of at least 1")
        for columns in self.versions:
            self._check(columns)
        keys = {tuple((c.name, c.type, c.key_position) for c in columns if c.key_position) for columns in self.versions}
        if len(keys) != 1:
            raise self._error("the key columns differ between versions")

    def _check(self, columns: tuple[SourceColumn, ...]) -> None:
        if len({column.name for column in columns}) != len(columns):
            raise self._error("duplicate column name")
        positions = sorted(column.key_position for column in columns if column.key_position)
        if not positions or positions != list(range(1, len(positions) + 1)):
            raise self._error("the primary key must have columns with key_position 1, 2, and so on")
        for column in columns:
            if column.type not in REPLICATE_TYPES:
                raise self._error(f"column {column.name!r} has the unknown type {column.type!r}")
            if column.key_position and (column.nullable or column.type not in _KEY_TYPES):
                raise self._error(f"column {column.name!r} cannot be in a key: {column.type}, nullable={column.nullable}")
            if column.type == "NUMERIC" and not (1 <= column.precision <= 38 and 0 <= column.scale <= column.precision):
                raise self._error(f"column {column.name!r} needs a precision of 1 to 38 and a scale of 0 to the precision")

    def _error(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"the source table cannot be simulated: {what}", where=self.qualified_name)

    @property
    def qualified_name(self) -> str:
        """`schema.table`, the table's name in options and messages."""
        return f"{self.schema}.{self.name}"

    @property
    def has_logical_types(self) -> bool:
        """Whether messages have dates, times and decimals as Avro's logical types; always False for JSON."""
        return self.form == "avro" and self.logical_types

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The primary key's column names in key order, which are the same in every version."""
        keyed = [column for column in self.versions[0] if column.key_position]
        return tuple(column.name for column in sorted(keyed, key=lambda column: column.key_position))
