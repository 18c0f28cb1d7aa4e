"""A digest of a table that is the same whether the simulator, Arrow, Delta or Spark reads the table.

Two tables have the same digest if they have the same rows with the same column names and values, in any order of rows and
columns. A row is encoded as its columns in the order of their names; a column is the JSON text of the name, `:` and the value.
The rows are sorted, and hashed with SHA-256 with a line feed after each row.

    value                        encoding                                     so that
    None                         -
    bool                         T or F
    int, Decimal                 # and the digits without redundant zeros     5 = Decimal("5.00"), regardless of the scale
    float                        ~ and its hexadecimal form                   0.0 = -0.0; all NaNs are equal
    str                          its JSON text
    time                         as its text in a table: HH:MM:SS, and .mmm unless zero
    bytes, bytearray, memoryview x and hexadecimal digits
    date                         d and YYYY-MM-DD
    datetime                     t and UTC to the microsecond                 without a time zone it is UTC

Columns whose names begin with `_hs_` are internal and are not part of the digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headstream.errors import InvalidInputError
from headstream.testing.source_values import format_time

_BOOKKEEPING: Final = "_hs_"


def digest_rows(rows: Iterable[Mapping[str, Any]], key_columns: Sequence[str]) -> str:
    """Return the digest of a table's rows.

    Args:
        rows: Mappings of column name to value, as pyarrow's `to_pylist` returns them, in any order.
        key_columns: Columns that must not be null in any row.

    Returns:
        64 hexadecimal digits.

    Raises:
        InvalidInputError: a key column is null or missing, two rows have the same key, or a value has an unsupported type.
    """
    spelled: dict[str, str] = {}
    names: dict[str, str] = {}
    for row in rows:
        parts = []
        for name in sorted(row):
            if not name.startswith(_BOOKKEEPING):
                if name not in names:
                    names[name] = f"{json.dumps(name)}:"
                parts.append(names[name] + canonical_value(row[name]))
        missing = [name for name in key_columns if row.get(name) is None]
        if missing:
            raise InvalidInputError(f"a row has no value in its key column {missing[0]!r}", where=", ".join(parts)[:200])
        key = ",".join([canonical_value(row[name]) for name in key_columns])
        if key in spelled:
            raise InvalidInputError(
                f"two rows have the key {key}",
                where=", ".join(key_columns),
                advice="A table must have one row per key: find the cause of the duplicate",
            )
        spelled[key] = ",".join(parts)
    digest = hashlib.sha256()
    for text in sorted(spelled.values()):
        digest.update(text.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def canonical_value(value: object) -> str:
    """Return the canonical encoding of a value (see the module's docstring); InvalidInputError for an unsupported type."""
    format_value = _SPELLINGS.get(type(value))
    if format_value is None:  # a subclass, such as pandas' Timestamp
        for kind in (datetime, date, time, bool, int, float, Decimal, str):
            if isinstance(value, kind):
                return _SPELLINGS[kind](value)
        raise InvalidInputError(
            f"a {type(value).__name__} has no canonical encoding", advice="Digest only columns of plain types"
        )
    return format_value(value)


def _format_decimal(value: Decimal) -> str:
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "#0" if text == "-0" else f"#{text}"


def _format_float(value: float) -> str:
    return f"~{(value + 0.0).hex()}" if value == value else "~nan"  # adding 0.0 turns -0.0 into 0.0


def _format_datetime(value: datetime) -> str:
    plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return f"t{plain.isoformat(timespec='microseconds')}"


_SPELLINGS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda value: "-",
    bool: lambda value: "T" if value else "F",
    int: lambda value: f"#{value}",
    Decimal: _format_decimal,
    float: _format_float,
    str: json.dumps,
    bytes: lambda value: f"x{value.hex()}",
    bytearray: lambda value: f"x{value.hex()}",
    memoryview: lambda value: f"x{value.hex()}",
    date: lambda value: f"d{value.isoformat()}",
    datetime: _format_datetime,
    time: lambda value: json.dumps(format_time(value)),
}
