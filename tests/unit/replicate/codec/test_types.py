"""What Replicate's column types become: in a table, and in a data schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headstream.errors import SchemaError
from headstream.replicate.codec import ColumnMetadata, data_schema, target_type


def column(kind: str, precision: int = 0, scale: int = 0) -> ColumnMetadata:
    return ColumnMetadata("c", 1, kind, precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        ("INT1", "TINYINT"),
        ("INT2", "SMALLINT"),
        ("INT4", "INT"),
        ("INT8", "BIGINT"),
        ("UINT1", "SMALLINT"),
        ("UINT2", "INT"),
        ("UINT4", "BIGINT"),
        ("UINT8", "DECIMAL(20,0)"),
        ("REAL4", "FLOAT"),
        ("REAL8", "DOUBLE"),
        ("BOOLEAN", "BOOLEAN"),
        ("BYTES", "BINARY"),
        ("BLOB", "BINARY"),
        ("STRING", "STRING"),
        ("WSTRING", "STRING"),
        ("CLOB", "STRING"),
        ("NCLOB", "STRING"),
        ("DATE", "DATE"),
        ("TIME", "STRING"),
        ("DATETIME", "TIMESTAMP"),
        ("int4", "INT"),
    ],
)
def test_target_type_of_every_type(kind: str, spark: str) -> None:
    assert target_type(column(kind)) == spark


@pytest.mark.parametrize(
    ("precision", "scale", "spark"),
    [
        (10, 2, "DECIMAL(10,2)"),
        (38, 10, "DECIMAL(38,10)"),
        (38, 38, "DECIMAL(38,38)"),
        (2, 5, "DECIMAL(5,5)"),  # NUMBER(2,5): 0.00099
        (3, -2, "DECIMAL(5,0)"),  # NUMBER(3,-2): 99900
    ],
)
def test_target_type_of_numbers(precision: int, scale: int, spark: str) -> None:
    assert target_type(column("NUMERIC", precision, scale)) == spark


@pytest.mark.parametrize(("precision", "scale"), [(39, 0), (0, 0), (0, 4), (1, 39), (30, -9)])
def test_target_type_of_numbers_that_no_decimal_holds_is_chosen(precision: int, scale: int) -> None:
    assert target_type(column("NUMERIC", precision, scale), decimal_overflow="string") == "STRING"
    with pytest.raises(SchemaError, match=r"'c' is NUMERIC"):
        target_type(column("NUMERIC", precision, scale))


def test_target_type_names_the_column_of_an_unknown_type() -> None:
    with pytest.raises(SchemaError, match=r"'c'.*'XML'"):
        target_type(column("XML"))
    with pytest.raises(SchemaError, match=r"'c'.*'XML'"):
        data_schema([column("XML")], logical_types=False)


def test_data_schema_refuses_a_decimal_without_digits() -> None:
    with pytest.raises(SchemaError, match=r"'c'.*precision"):
        data_schema([column("NUMERIC")], logical_types=True)
    assert '"string"' in data_schema([column("NUMERIC")], logical_types=False)


@pytest.mark.parametrize(
    ("kind", "logical", "plain"),
    [
        ("INT1", {"type": "int"}, {"type": "int"}),
        ("UINT2", {"type": "int"}, {"type": "int"}),
        ("UINT4", {"type": "long"}, {"type": "long"}),
        ("INT8", {"type": "long"}, {"type": "long"}),
        ("UINT8", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}, {"type": "string"}),
        ("NUMERIC", {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 3}, {"type": "string"}),
        ("REAL4", {"type": "float"}, {"type": "float"}),
        ("REAL8", {"type": "double"}, {"type": "double"}),
        ("BOOLEAN", {"type": "boolean"}, {"type": "boolean"}),
        ("BLOB", {"type": "bytes"}, {"type": "bytes"}),
        ("NCLOB", {"type": "string"}, {"type": "string"}),
        ("DATE", {"type": "int", "logicalType": "date"}, {"type": "string"}),
        ("TIME", {"type": "int", "logicalType": "time-millis"}, {"type": "string"}),
        ("DATETIME", {"type": "long", "logicalType": "timestamp-micros"}, {"type": "string"}),
    ],
)
def test_data_schema_writes_a_column_as_replicate_does(kind: str, logical: Any, plain: Any) -> None:
    for logical_types, wanted in ((True, logical), (False, plain)):
        schema = json.loads(data_schema([column(kind, 7, 3)], logical_types=logical_types))
        assert schema["fields"][0]["type"]["fields"] == [{"name": "c", "type": [{"type": "null"}, wanted]}]


def test_data_schema_has_the_header_fields_of_the_version_asked_for() -> None:
    def headers(**options: bool) -> list[str]:
        schema = json.loads(data_schema([column("INT4")], logical_types=True, **options))
        assert [field["name"] for field in schema["fields"]] == ["data", "beforeData", "headers"]
        return [field["name"] for field in schema["fields"][2]["type"]["fields"]]

    first = ["operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask"]
    assert headers(transaction_fields=False) == first
    assert headers() == [*first, "transactionEventCounter", "transactionLastEvent"]
