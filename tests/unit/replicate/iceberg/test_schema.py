"""Unit tests of headstream.replicate.iceberg.schema."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import types
from pyiceberg.conversions import from_bytes

from headstream.errors import SchemaError
from headstream.replicate.iceberg.schema import derive_schema, read_partition_value, write_bound
from headstream.replicate.storage.delta_log import LogSnapshot

KINDS = {
    "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float", "double": "double", "boolean": "boolean",
    "binary": "binary", "string": "string", "date": "date", "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
    "decimal(12,2)": "decimal(12, 2)",
}  # fmt: skip


def log_of(
    columns: dict[str, Any], *, partitions: tuple[str, ...] = (), ids: dict[str, tuple[int, str]] | None = None
) -> LogSnapshot:
    """Return a log with columns; `ids` has the id and physical name of each in a table with column mapping."""
    log = LogSnapshot(Path("t"))
    details = {
        name: {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored}
        for name, (number, stored) in (ids or {}).items()
    }
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": details.get(name, {})} for name, kind in columns.items()]
    mode = {"delta.columnMapping.mode": "name"} if ids else {}
    schema = json.dumps({"type": "struct", "fields": fields})
    log.metadata = {"id": "x", "schemaString": schema, "partitionColumns": list(partitions), "configuration": mode}
    return log


def test_derive_schema_has_an_equivalent_of_every_type_of_the_pipeline() -> None:
    found = derive_schema(log_of({f"c_{kind}": kind for kind in KINDS}), None, 0, None)
    assert {field.name[2:]: str(field.field_type) for field in found.schema.fields} == KINDS
    assert [field.field_id for field in found.schema.fields] == list(range(1, len(KINDS) + 1))
    with pytest.raises(SchemaError, match="column 'tags' has the type array"):
        derive_schema(log_of({"id": "long", "tags": {"type": "array", "elementType": "string"}}), None, 0, None)


def test_derive_schema_keeps_field_ids_when_columns_are_added_widened_dropped_and_made_anew() -> None:
    first = derive_schema(log_of({"id": "integer", "a": "string", "b": "float"}), None, 0, None)
    second = derive_schema(log_of({"b": "double", "id": "long", "c": "date"}), first.schema, 3, first.mapping)
    assert {field.name: field.field_id for field in second.schema.fields} == {"b": 3, "id": 1, "c": 4}
    assert second.replaced == []
    assert {entry["names"][0]: entry["field-id"] for entry in json.loads(second.mapping)} == {"a": 2, "b": 3, "id": 1, "c": 4}
    # a column of a dropped one's name, and one of a type that no reader promotes, must not get old values
    third = derive_schema(log_of({"b": "double", "id": "string", "a": "string"}), second.schema, 4, second.mapping)
    assert {field.name: field.field_id for field in third.schema.fields} == {"b": 3, "id": 5, "a": 6}
    assert third.replaced == ["id", "a"]


def test_derive_schema_follows_a_renamed_column_by_its_id_when_the_table_has_column_mapping() -> None:
    first = derive_schema(log_of({"order date": "date"}, ids={"order date": (4, "col-1")}), None, 0, None)
    log = log_of({"day": "date", "n": "long"}, partitions=("day",), ids={"day": (4, "col-1"), "n": (5, "col-2")})
    second = derive_schema(log, first.schema, 4, first.mapping)
    assert [(field.field_id, field.name) for field in second.schema.fields] == [(4, "day"), (5, "n")]
    assert second.physical.keys() == {"col-1", "col-2"}
    assert [(part.source_id, part.name) for part in second.spec.fields] == [(4, "day")]
    with pytest.raises(SchemaError, match="a new field id"):
        derive_schema(log_of({"day": "date"}, ids={"day": (9, "col-1")}), first.schema, 4, first.mapping)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (types.LongType(), -5, -5),
        (types.DateType(), "1969-12-31", -1),
        (types.TimestamptzType(), "1970-01-01T00:00:01.000039Z", 1_000_039),
        (types.DecimalType(12, 2), Decimal("-1.5"), Decimal("-1.50")),
        (types.StringType(), "Zürich", "Zürich"),
    ],
)
def test_write_bound_has_the_value_itself(kind: Any, value: Any, expected: Any) -> None:
    bound = write_bound(kind, value)
    assert bound is not None
    assert from_bytes(kind, bound) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (types.TimestamptzType(), "2026-01-01T00:00:00.123Z"),  # writers of Delta's statistics cut microseconds off
        (types.TimestampType(), "2026-01-01 00:00:00"),
        (types.DoubleType(), Decimal("1.5")),  # there can be NaN, which Spark takes for the greatest
        (types.DecimalType(20, 2), Decimal("123456789012345678.9")),  # a float in the log of other writers
        (types.DateType(), "+10000-01-01"),
        (types.IntegerType(), 1 << 40),
        (types.BinaryType(), "x"),
    ],
)
def test_write_bound_is_none_for_what_can_be_another_value(kind: Any, value: Any) -> None:
    assert write_bound(kind, value) is None


def test_read_partition_value_reads_what_the_log_has_as_text() -> None:
    assert read_partition_value(types.StringType(), "") is None
    assert read_partition_value(types.StringType(), "a/b ü") == "a/b ü"
    assert read_partition_value(types.BooleanType(), "true") is True
    assert read_partition_value(types.DateType(), "1970-01-03") == 2
    assert read_partition_value(types.TimestamptzType(), "1970-01-01 00:00:01.5") == 1_500_000
    assert read_partition_value(types.DecimalType(9, 0), "-12") == Decimal("-12")
