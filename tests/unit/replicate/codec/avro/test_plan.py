"""compile_rows: which schemas are rows, and what their columns are."""

from __future__ import annotations

import json

import pytest

from headstream.errors import SchemaError
from headstream.replicate.codec.avro.rows import compile_rows
from tests.support.replicate.replicate_rows import ROW, SCHEMA, row_schema


def test_compile_rows_says_what_the_columns_are() -> None:
    plan = compile_rows(SCHEMA)
    columns = {(column.section, column.name): column for column in plan.columns}
    assert [name for section, name in columns if section == "data"] == list(ROW)
    numeric = columns["data", "numeric"]
    assert (numeric.avro_type, numeric.logical_type, numeric.precision, numeric.scale) == ("bytes", "decimal", 20, 4)
    assert (numeric.storage, numeric.nullable) == ("decimal128", True)
    operation = columns["headers", "operation"]
    assert (operation.avro_type, operation.symbols, operation.nullable) == (
        "enum",
        ("INSERT", "UPDATE", "DELETE", "REFRESH"),
        False,
    )
    assert columns["data", "date"].logical_type == "date"
    assert columns["data", "time"].logical_type == "time-millis"
    assert columns["data", "datetime"].logical_type == "timestamp-micros"
    assert compile_rows(SCHEMA) is plan


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ('"int"', "record, not int"),
        ('{"type": "record", "name": "R", "fields": []}', "no field 'data'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "data", "type": "int"}]}', "'data' must be a record, not int"),
        (row_schema(("a", {"type": "array", "items": "int"})), r"'data\.a' is array"),
        (row_schema(("a", {"type": "map", "values": "int"})), r"'data\.a' is map"),
        (row_schema(("a", {"type": "record", "name": "N", "fields": []})), r"'data\.a' is record"),
        (row_schema(("a", "null")), r"'data\.a' is null"),
        (row_schema(("a", ["null"])), r"'data\.a' must be a union"),
        (row_schema(("a", ["null", "int", "string"])), r"'data\.a' must be a union .*, not of null, int, string"),
        (row_schema(("a", ["null", "null", "int"])), r"'data\.a' must be a union"),
        (row_schema(("a", {"type": "fixed", "name": "F", "size": 0})), "at least 1 byte"),
        (row_schema(("a", "int"), ("a", "int")), "'a' twice"),
        (row_schema(("a", "int"), before="int"), "'beforeData' must be a record, not int"),
        (row_schema(("a", "int"), before={"type": "record", "name": "B", "fields": [{"name": "b", "type": "int"}]}), "'b'"),
        (row_schema(("a", "int"), headers=[("columnMask", ["null", "Data"])]), r"'headers\.columnMask' is record"),
        (row_schema(("a", "int"), headers=[("operation", ["int", "string"])]), r"'headers\.operation' must be .*, not of int"),
        (json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "data", "type": ["null", "int", {"type": "record", "name": "D", "fields": []}]}]}), "'data' must be"),
    ],
)  # fmt: skip
def test_compile_rows_names_what_does_not_fit(schema: str, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        compile_rows(schema)
