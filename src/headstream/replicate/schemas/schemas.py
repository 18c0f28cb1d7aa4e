"""Prepares a schema of the schema store for decoding: target columns and types, and whether rows can be applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa

from headstream.errors import SchemaError
from headstream.replicate.codec import ColumnMetadata, TableMetadata, target_type
from headstream.replicate.codec.avro.plan import RowPlan, compile_rows
from headstream.replicate.codec.types import decimal_shape
from headstream.replicate.columns.changes import BOOKKEEPING, OLD_PREFIX
from headstream.replicate.columns.column_masks import LOBS
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.schemas.target_columns import TargetColumns, choose_columns, match_fields
from headstream.replicate.settings.table_settings import TableSettings

BEFORE_PREFIX = "_hs_before_"
DETAILS = [
    pa.field("_hs_timestamp", pa.string()),  # when the source made the change, as received
    pa.field("_hs_stream_position", pa.string()),
    pa.field("_hs_envelope_headers", pa.map_(pa.string(), pa.string())),  # the envelope's own headers; null without headers
]
"""Additional columns of decoded changes for change tables. The previous value of a column is in BEFORE_PREFIX + name."""
_LIMITS: Final[dict[str, tuple[Any, Any]]] = {
    "UINT1": (0, 2**8 - 1),
    "UINT2": (0, 2**16 - 1),
    "UINT4": (0, 2**32 - 1),
    "UINT8": (0, 2**64 - 1),
    "DATE": (date.min, date.max),
    "DATETIME": (datetime.min, datetime.max),
}
"""The ranges of source types that are narrower than their target type. An Avro date can hold more days than a table's date."""
_DATETIMES: Final = {"utc": "TIMESTAMP", "ntz": "TIMESTAMP_NTZ", "text": "STRING"}


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A schema that is prepared for decoding.

    Args:
        types: Target column -> Spark type, in ordinal order.
        changes: The Arrow schema of decoded changes: columns, bookkeeping, old keys, and, if requested, details.
        rows: Plan for reading Avro rows of this schema; None if the schema is used for JSON only.
        fields: Target column -> the message field that contains it.
        known_fields: All columns that a message of the source can contain.
        ordinals: Ordinals of all source columns.
        absent: Ordinals of columns that these rows never contain, which are absent, not null.
        lobs: Ordinals of large objects, which change masks never include.
        times: Target columns with times of day, stored as strings.
        datetimes: Target columns with dates and times, stored as strings.
        limits: Target column -> minimum and maximum of the source type, if the target type has a wider range.
        wide_numbers: Target columns with numbers too wide for a decimal, stored as strings -> digits after the decimal point;
            None if unknown.
    """

    metadata: TableMetadata
    types: dict[str, str]
    changes: pa.Schema
    rows: RowPlan | None
    settings: TableSettings = field(default_factory=TableSettings)
    table: tuple[str, str] = ("", "")
    fields: dict[str, str] = field(default_factory=dict)
    known_fields: frozenset[str] = frozenset()
    ordinals: frozenset[int] = frozenset()
    absent: frozenset[int] = frozenset()
    lobs: frozenset[int] = frozenset()
    times: frozenset[str] = frozenset()
    limits: Mapping[str, tuple[pa.Scalar, pa.Scalar]] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    wide_numbers: Mapping[str, int | None] = field(default_factory=dict)
    datetimes: frozenset[str] = frozenset()

    @property
    def has_details(self) -> bool:
        """Whether decoded changes have the columns of DETAILS and the values before the change."""
        return DETAILS[0].name in self.changes.names


def table_schema(
    metadata: TableMetadata,
    settings: TableSettings | None = None,
    *,
    earlier: Sequence[TableMetadata] = (),
    own_schema: str | None = None,
    avro: bool = True,
    details: bool = False,
) -> TableSchema:
    """Prepare a schema for decoding.

    Args:
        earlier: The versions of the table that arrived before this version, in order; they determine the column names.
        own_schema: The Avro schema embedded in the data message, or None.
        details: Whether decoded changes contain all fields of a change, as a change table requires.

    Raises:
        SchemaError: no row can be applied, because of a reserved name, an unknown type, or an Avro schema that cannot be parsed
            or has columns that the metadata lacks.
    """
    settings = TableSettings() if settings is None else settings
    lineage = metadata.lineage
    where = f"table {lineage.schema}.{lineage.table}, schema id {metadata.schema_id}"
    try:
        return _table_schema(metadata, choose_columns(metadata, settings, earlier), settings, own_schema, avro, details)
    except SchemaError as error:
        raise SchemaError(error.what, where=error.where or where, advice=error.advice) from None


def _table_schema(
    metadata: TableMetadata, chosen: TargetColumns, settings: TableSettings, own_schema: str | None, avro: bool, details: bool
) -> TableSchema:
    lineage = metadata.lineage
    target = chosen.metadata
    types = {column.name: _type_of(column, settings) for column in target.columns}
    columns = [column.name for column in metadata.columns]
    rows, placed = None, {name: name for name in columns}
    if avro:
        rows = compile_rows(metadata.data_schema if own_schema is None else own_schema)
        placed, left = match_fields(columns, [plan.name for plan in rows.columns if plan.section == "data"])
        if left:
            raise SchemaError(f"the rows have the column {left[0]!r}, which is missing in the table's metadata")
    fields = [pa.field(name, arrow_type(kind)) for name, kind in types.items()]
    fields += BOOKKEEPING
    fields += [pa.field(OLD_PREFIX + key, arrow_type(types[key])) for key in target.key_columns]
    if details:
        fields += DETAILS
        fields += [pa.field(BEFORE_PREFIX + name, arrow_type(kind)) for name, kind in types.items()]
    return TableSchema(
        target,
        types,
        pa.schema(fields),
        rows,
        settings,
        settings.target_name(schema=lineage.schema, table=lineage.table, task=lineage.task, server=lineage.server),
        {name: placed[source] for name, source in chosen.sources.items() if source in placed},
        frozenset(columns),
        frozenset(column.ordinal for column in metadata.columns),
        frozenset(column.ordinal for column in metadata.columns if column.name not in placed),
        frozenset(column.ordinal for column in metadata.columns if column.type.upper() in LOBS),
        frozenset(column.name for column in target.columns if column.type.upper() == "TIME"),
        {c.name: _limits(c.type.upper(), arrow_type(types[c.name])) for c in target.columns if _has_limits(c, types)},
        chosen.findings,
        {column.name: _scale(column) for column in target.columns if _is_wide_number(column, types)},
        frozenset(c.name for c in target.columns if c.type.upper() == "DATETIME" and types[c.name] == "STRING"),
    )


def _is_wide_number(column: ColumnMetadata, types: Mapping[str, str]) -> bool:
    return column.type.upper() == "NUMERIC" and types[column.name] == "STRING"


def _scale(column: ColumnMetadata) -> int | None:
    precision, scale = decimal_shape(column)
    return scale if precision else None


def _has_limits(column: ColumnMetadata, types: Mapping[str, str]) -> bool:
    return column.type.upper() in _LIMITS and types[column.name] != "STRING"


def _limits(kind: str, target: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    low, high = _LIMITS[kind]
    return pa.scalar(low, target), pa.scalar(high, target)


def _type_of(column: ColumnMetadata, settings: TableSettings) -> str:
    kind = target_type(column, decimal_overflow=settings.decimal_overflow)
    return _DATETIMES[settings.datetimes] if kind == "TIMESTAMP" else kind
