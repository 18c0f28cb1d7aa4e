"""Replicate's column types, and the corresponding types in tables and in data schemas.

Replicate type       Spark SQL type     Avro type              without logical types
INT1 INT2 INT4       TINYINT .. INT     int
UINT1 UINT2          SMALLINT INT       int
INT8 UINT4           BIGINT             long
UINT8                DECIMAL(20,0)      bytes decimal(20,0)    string
NUMERIC              DECIMAL(p,s)       bytes decimal(p,s)     string
REAL4 REAL8          FLOAT DOUBLE       float double
BOOLEAN              BOOLEAN            boolean
BYTES BLOB           BINARY             bytes                  (JSON: hex digits)
STRING WSTRING
CLOB NCLOB           STRING             string
DATE                 DATE               int date               string
TIME                 STRING             int time-millis        string
DATETIME             TIMESTAMP          long timestamp-micros  string
"""

from __future__ import annotations

from typing import Any, Final, Literal

from headstream.errors import SchemaError
from headstream.replicate.codec.metadata import ColumnMetadata

MAX_DECIMAL_PRECISION: Final = 38  # of Spark's, Delta's and Arrow's decimal

_TARGETS: Final = {
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "UINT1": "SMALLINT",
    "UINT2": "INT",
    "UINT4": "BIGINT",
    "UINT8": "DECIMAL(20,0)",
    "REAL4": "FLOAT",
    "REAL8": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "BYTES": "BINARY",
    "BLOB": "BINARY",
    "STRING": "STRING",
    "WSTRING": "STRING",
    "CLOB": "STRING",
    "NCLOB": "STRING",
    "DATE": "DATE",
    "TIME": "STRING",
    "DATETIME": "TIMESTAMP",
}
_PLAIN: Final = {
    "INT1": "int",
    "INT2": "int",
    "INT4": "int",
    "UINT1": "int",
    "UINT2": "int",
    "INT8": "long",
    "UINT4": "long",
    "REAL4": "float",
    "REAL8": "double",
    "BOOLEAN": "boolean",
    "BYTES": "bytes",
    "BLOB": "bytes",
}
_LOGICAL: Final = {
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
    "DATETIME": {"type": "long", "logicalType": "timestamp-micros"},
}


def target_type(column: ColumnMetadata, *, decimal_overflow: Literal["error", "string"] = "error") -> str:
    """Return the Spark SQL type of a column in a table.

    Args:
        decimal_overflow: Result for a NUMERIC with more than 38 digits or without a precision: an error, or the type STRING.

    Raises:
        SchemaError: the type is unknown, or a NUMERIC does not fit a decimal.
    """
    kind = column.type.upper()
    if kind == "NUMERIC":
        precision, scale = decimal_shape(column)
        if 1 <= precision <= MAX_DECIMAL_PRECISION:
            return f"DECIMAL({precision},{scale})"
        if decimal_overflow == "string":
            return "STRING"
        raise SchemaError(
            f"column {column.name!r} is NUMERIC({column.precision},{column.scale}), which does not fit a "
            f"decimal of {MAX_DECIMAL_PRECISION} digits",
            advice="Store such columns as strings, or reduce their precision in Replicate",
        )
    if kind not in _TARGETS:
        raise SchemaError(f"column {column.name!r} has the type {column.type!r}, which is not a Replicate type")
    return _TARGETS[kind]


def decimal_shape(column: ColumnMetadata) -> tuple[int, int]:
    """Return the precision and scale of a NUMERIC column as a decimal: 0 <= scale <= precision.

    Databases also allow other values: NUMBER(2,5) can be 0.00099 (the last two of five decimal places), NUMBER(3,-2) can be
    99900.

    The precision is 0 if the column has no precision.
    """
    if column.precision < 1:
        return 0, max(column.scale, 0)
    if column.scale < 0:
        return column.precision - column.scale, 0
    return max(column.precision, column.scale), column.scale


def avro_type(column: ColumnMetadata, *, logical_types: bool) -> dict[str, Any]:
    """Return the Avro type, without null, that Replicate uses; `logical_types` is the endpoint's "Use logical data types"."""
    kind = column.type.upper()
    if kind not in _TARGETS and kind != "NUMERIC":
        raise SchemaError(f"column {column.name!r} has the type {column.type!r}, which is not a Replicate type")
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if logical_types and kind in _LOGICAL:
        return dict(_LOGICAL[kind])
    if logical_types and kind in ("NUMERIC", "UINT8"):
        precision, scale = (20, 0) if kind == "UINT8" else decimal_shape(column)
        if precision < 1:
            raise SchemaError(f"column {column.name!r} is NUMERIC without a precision, which Avro cannot represent as a decimal")
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return {"type": "string"}
