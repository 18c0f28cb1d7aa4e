"""The Iceberg schema of a Delta table: types, stable field ids, and their columns in data files.

                  field id                                      column of a data file
plain columns     id of the column's name in the Iceberg table  by name, with schema.name-mapping.default
column mapping    delta.columnMapping.id                        by this id or the physical name
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

from pyiceberg import types
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType
from pyiceberg.utils.datetime import date_str_to_days, datetime_to_micros

from headstream.errors import SchemaError
from headstream.replicate.storage.delta_log import LogSnapshot

NAME_MAPPING: Final = "schema.name-mapping.default"
"""The table property with the field ids for columns of data files without field ids."""
_TYPES: Final[dict[str, PrimitiveType]] = {
    "byte": types.IntegerType(), "short": types.IntegerType(), "integer": types.IntegerType(), "long": types.LongType(),
    "float": types.FloatType(), "double": types.DoubleType(), "boolean": types.BooleanType(), "binary": types.BinaryType(),
    "string": types.StringType(), "date": types.DateType(), "timestamp": types.TimestamptzType(),
    "timestamp_ntz": types.TimestampType(),
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIRST_PARTITION_ID: Final = 1000
_EXACT_DIGITS: Final = 15
"""Maximum number of decimal digits that the JSON of every writer keeps."""
_EXACT_TIME: Final = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)?$")
_REPAIR: Final = "Run: headstream replicate iceberg check --repair"


class IcebergSchema(NamedTuple):
    """The schema of an Iceberg table that corresponds to a Delta table.

    Args:
        schema: The schema, with the id of the table's current schema even if the columns differ.
        spec: The partition spec: identity transforms of columns.
        physical: Name of a column in data files and statistics -> field id and type.
        mapping: The value of NAME_MAPPING.
        replaced: Names of columns that got a different field id, for which older files have no values.
    """

    schema: Schema
    spec: PartitionSpec
    physical: Mapping[str, tuple[int, PrimitiveType]]
    mapping: str
    replaced: Sequence[str] = ()


def derive_schema(log: LogSnapshot, before: Schema | None, last_id: int, mapping: str | None) -> IcebergSchema:
    """Return the Iceberg schema of a Delta table.

    Args:
        before: The Iceberg table's current schema; None for a new table.
        last_id: The highest field id that the Iceberg table has ever had.

    Raises:
        SchemaError: a column's type has no equivalent, or a field id would have to change.
    """
    is_mapped = log.configuration.get("delta.columnMapping.mode", "none") != "none"
    names = {name: entry["field-id"] for entry in json.loads(mapping or "[]") for name in entry["names"]}
    known = {} if before is None else {field.name: field for field in before.fields}
    by_id = {field.field_id: field for field in known.values()}
    fields, physical, replaced = [], {}, []
    for column in log.fields:
        name, kind = column["name"], _iceberg_type(log, column["name"], column["type"])
        details = column.get("metadata") or {}
        stored = details.get("delta.columnMapping.physicalName", name) if is_mapped else name
        if is_mapped:
            number = int(details["delta.columnMapping.id"])
            old = by_id.get(number)
            if names.get(stored, number) != number or (old is not None and not _is_promotion(old.field_type, kind)):
                raise SchemaError(f"column {name!r} has a new field id", where=str(log.table), advice=_REPAIR)
        else:
            old = known.get(name)
            if old is not None and _is_promotion(old.field_type, kind):
                number = old.field_id
            else:
                replaced += [name] if old is not None or name in names else []
                last_id = number = last_id + 1
        fields.append(types.NestedField(number, name, kind, required=False))
        physical[stored] = (number, kind)
    schema = Schema(*fields, schema_id=0 if before is None else before.schema_id)
    sources = {field.name: field.field_id for field in fields}
    # DuckDB crashes on other characters in a manifest's schema.
    names_of_parts = [re.sub("[^!-~]", lambda found: f"_x{ord(found[0]):X}", name) for name in log.partition_columns]
    parts = (
        PartitionField(source_id=sources[name], field_id=number, transform=IdentityTransform(), name=shown)
        for number, (name, shown) in enumerate(zip(log.partition_columns, names_of_parts, strict=True), _FIRST_PARTITION_ID)
    )
    spec = PartitionSpec(*parts, spec_id=1)  # 0 is the id in the table without rows
    taken = {number for number, _ in physical.values()}
    kept = {name: number for name, number in names.items() if name not in physical and number not in taken}
    merged = {**kept, **{name: number for name, (number, _) in physical.items()}}
    written = json.dumps([{"field-id": number, "names": [name]} for name, number in merged.items()])
    return IcebergSchema(schema, spec, physical, written, replaced)


def _iceberg_type(log: LogSnapshot, name: str, kind: Any) -> PrimitiveType:
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    if isinstance(kind, str) and (match := _DECIMAL.fullmatch(kind)) is not None:
        return types.DecimalType(int(match[1]), int(match[2]))
    shown = kind if isinstance(kind, str) else kind.get("type")
    raise SchemaError(
        f"column {name!r} has the type {shown}, which has no equivalent in Iceberg",
        where=str(log.table),
        advice="Exclude the table in [iceberg] tables, or the column in exclude_columns",
    )


def _is_promotion(old: Any, new: Any) -> bool:
    """Return whether Iceberg readers can read files with the old type as the new type."""
    if old == new or (isinstance(old, types.IntegerType) and isinstance(new, types.LongType)):
        return True
    if isinstance(old, types.DecimalType) and isinstance(new, types.DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return isinstance(old, types.FloatType) and isinstance(new, types.DoubleType)


def read_partition_value(kind: PrimitiveType, text: str | None) -> Any:
    """Return a partition value in the format of Iceberg manifests; an empty string in Delta's log means null."""
    if not text:
        return None
    if isinstance(kind, types.StringType):
        return text
    if isinstance(kind, types.BooleanType):
        return text == "true"
    if isinstance(kind, (types.IntegerType, types.LongType)):
        return int(text)
    if isinstance(kind, types.DateType):
        return date_str_to_days(text)
    if isinstance(kind, (types.TimestampType, types.TimestamptzType)):
        return datetime_to_micros(datetime.fromisoformat(text))
    if isinstance(kind, types.DecimalType):
        return _scaled(Decimal(text), kind.scale)
    raise SchemaError(f"an Iceberg table cannot be partitioned by a column of type {kind}")


def write_bound(kind: PrimitiveType, value: Any) -> bytes | None:
    """Return a column's bound in a file, in Iceberg's binary form; None if there is no bound or it may be inexact.

    Spark computes MIN and MAX from bounds alone, except for strings. Thus, bounds that Delta's log does not store exactly are
    omitted: times without microseconds (which most writers truncate), numbers in columns with NaN, and long decimals.

    Args:
        value: A value from the statistics in Delta's log, decoded from JSON; numbers with a decimal point are Decimals.
    """
    try:
        if value is None or isinstance(kind, (types.BinaryType, types.FloatType, types.DoubleType)):
            return None
        if isinstance(kind, types.DateType):
            value = date_str_to_days(value)
        elif isinstance(kind, (types.TimestampType, types.TimestamptzType)):
            if _EXACT_TIME.search(value) is None:
                return None
            value = datetime_to_micros(datetime.fromisoformat(value))
        elif isinstance(kind, types.DecimalType):
            if kind.precision > _EXACT_DIGITS:
                return None
            value = _scaled(Decimal(value), kind.scale)
        return to_bytes(kind, value)
    except (ValueError, TypeError, ArithmeticError, AttributeError, struct.error):
        return None  # a value that only Delta can have: readers then always read the file


def _scaled(value: Decimal, scale: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=76))
