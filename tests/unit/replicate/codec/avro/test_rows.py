"""decode_rows: rows to columns as fastavro reads them, in every spelling of a schema."""

from __future__ import annotations

import io
import json
from array import array
from types import ModuleType
from typing import Any

import fastavro
import pytest

from headstream.replicate.codec import ColumnMetadata, data_schema
from headstream.replicate.codec.avro.rows import compile_rows
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_long, encode_string, encode_value
from tests.support import kernels
from tests.support.replicate.replicate_rows import (
    COLUMNS,
    DECIMAL_9,
    HEADERS,
    ROW,
    SCHEMA,
    decode,
    lay_out,
    records_of,
    row_schema,
    values_of,
)

avro = kernels.fixture("headstream.replicate.codec.avro.rows")


@pytest.mark.parametrize("logical_types", [True, False])
def test_decode_rows_gives_what_fastavro_gives_for_every_type(avro: ModuleType, logical_types: bool) -> None:
    schema = data_schema(COLUMNS, logical_types=logical_types)
    nothing = dict.fromkeys(ROW)
    rows = [
        {"data": ROW, "beforeData": None, "headers": HEADERS},
        {"data": nothing, "beforeData": ROW, "headers": {**HEADERS, "operation": "INSERT", "changeMask": None}},
        {"data": {**ROW, "int4": None, "clob": None, "numeric": None}, "beforeData": nothing, "headers": HEADERS},
    ]
    # Written by us from Python values, read by fastavro without its own logical types, as columns hold them.
    messages = [encode_value(parse_schema(schema), row) for row in rows]
    stripped = json.loads(schema.replace('"logicalType"', '"was"'))
    expected: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(message), fastavro.parse_schema(stripped)) for message in messages
    ]
    plan, found = decode(avro, schema, *messages)
    assert found.faults == []
    assert list(found.rows) == [0, 1, 2]
    for record, wanted in zip(records_of(plan, found), expected, strict=True):
        symbols = next(column.symbols for column in plan.columns if column.name == "operation")
        record["headers"]["operation"] = symbols[record["headers"]["operation"]]
        for section in (wanted["data"], wanted["beforeData"] or {}):
            for name in {"numeric", "uint8"} & section.keys():
                if isinstance(section[name], bytes):
                    section[name] = int.from_bytes(section[name], "big", signed=True)
        assert record == wanted


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [(b"\x02", 1)]),
        (["int"], [(b"\x00\x02", 1)]),
        (["null", "int"], [(b"\x02\x02", 1), (b"\x00", None)]),
        (["int", "null"], [(b"\x00\x02", 1), (b"\x02", None)]),
        ([{"type": "null"}, {"type": {"type": "int"}}], [(b"\x02\x02", 1), (b"\x00", None)]),
        (["null", "string"], [(b"\x02\x00", ""), (b"\x00", None)]),
        (["null", {"type": "fixed", "name": "F", "size": 2}], [(b"\x02ab", b"ab"), (b"\x00", None)]),
        (["null", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}], [(b"\x02\x02", 1), (b"\x00", None)]),
        (["null", {"type": "string", "logicalType": "uuid"}], [(b"\x02\x02u", "u"), (b"\x00", None)]),
        # Longer than need be, and still the same numbers.
        ("int", [(b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00", 1)]),
        (["null", "int"], [(b"\x82\x00\x82\x00", 1), (b"\x80\x00", None)]),
    ],
)
def test_decode_rows_takes_every_spelling_of_a_field(avro: ModuleType, kind: Any, values: list[tuple[bytes, Any]]) -> None:
    plan, rows = decode(avro, row_schema(("a", kind)), *(data for data, _ in values))
    assert [record["data"]["a"] for record in records_of(plan, rows)] == [value for _, value in values]


@pytest.mark.parametrize(
    "name",
    [
        "Lineage",
        "TableStructure",
        "TableColumns",
        "MetadataMessage",
        "data",
        "headers",
        "beforeData",
        "Data",
        "operation",
        "order date",
        "",
    ],
)
def test_decode_rows_keeps_a_columns_name_whatever_it_is(avro: ModuleType, name: str) -> None:
    columns = [ColumnMetadata(name, 1, "STRING"), ColumnMetadata("other", 2, "INT4")]
    schema = data_schema(columns, logical_types=True)
    row = {"data": {name: "x", "other": 1}, "beforeData": {name: "y", "other": None}, "headers": HEADERS}
    plan, rows = decode(avro, schema, encode_value(parse_schema(schema), row))
    [record] = records_of(plan, rows)
    assert record["data"] == row["data"]
    assert record["beforeData"] == row["beforeData"]


@pytest.mark.parametrize("before", [["null", "Data"], ["Data", "null"], "Data", ["null", "com.chips-qa.t.Data"], "repeated"])
def test_decode_rows_takes_every_spelling_of_before_data(avro: ModuleType, before: Any) -> None:
    data = {"type": "record", "name": "Data", "fields": [{"name": "a", "type": ["null", "int"]}]}
    if before == "repeated":
        before = ["null", data]
    members = [{"name": "data", "type": data}, {"name": "beforeData", "type": before}]
    schema = json.dumps({"type": "record", "name": "DataRecord", "namespace": "com.chips-qa.t", "fields": members})
    values: list[Any] = [{"a": 1}] if before == "Data" else [{"a": 1}, None]
    messages = [encode_value(parse_schema(schema), {"data": {"a": 7}, "beforeData": value}) for value in values]
    plan, rows = decode(avro, schema, *messages)
    assert rows.before_present is not None
    assert list(rows.before_present) == [value is not None for value in values]
    assert [found["beforeData"] for found in records_of(plan, rows)] == values


def test_decode_rows_finds_headers_by_their_names(avro: ModuleType) -> None:
    enum = {"type": "enum", "name": "operation", "symbols": ["REFRESH", "INSERT"]}
    headers = [
        ("later", ["null", "double"]),
        ("changeSequence", "string"),
        ("more", {"type": "enum", "name": "M", "symbols": ["m"]}),
        ("operation", enum),
    ]
    schema = row_schema(("a", "int"), headers=headers)
    values = {"later": 0.5, "changeSequence": "1", "more": "m", "operation": "INSERT"}
    plan, rows = decode(avro, schema, encode_value(parse_schema(schema), {"data": {"a": 1}, "headers": values}))
    assert rows.before_present is None
    assert records_of(plan, rows) == [
        {"data": {"a": 1}, "headers": {"later": 0.5, "changeSequence": "1", "more": 0, "operation": 1}}
    ]


def test_decode_rows_takes_sections_in_any_order_and_plain_fields_beside_them(avro: ModuleType) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "beforeData", "type": ["null", {"type": "record", "name": "Before", "fields": [{"name": "a", "type": "int"}]}]},
        {"name": "version", "type": "long"},
        {"name": "data", "type": {"type": "record", "name": "Data", "fields": [{"name": "a", "type": "int"}]}},
    ]})  # fmt: skip
    plan, rows = decode(avro, schema, b"\x02\x02\x04\x06", b"\x00\x04\x06")
    assert records_of(plan, rows) == [
        {"beforeData": {"a": 1}, "version": 2, "data": {"a": 3}},
        {"beforeData": None, "version": 2, "data": {"a": 3}},
    ]


DECIMAL_38 = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}
DECIMAL_39 = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 10}
DECIMAL_FIXED = {"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 38}


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 10**9 - 1, 1 - 10**9])
@pytest.mark.parametrize("size", [None, 8, 9, 16, 17, 40])
def test_decode_rows_widens_decimals(avro: ModuleType, number: int, size: int | None) -> None:
    least = (number if number >= 0 else ~number).bit_length() // 8 + 1
    data = encode_string(number.to_bytes(size or least, "big", signed=True))
    plan, rows = decode(avro, row_schema(("a", DECIMAL_9)), data)
    assert values_of(plan.columns[0], rows.columns[0], 1) == [number]


def test_decode_rows_takes_the_widest_decimals(avro: ModuleType) -> None:
    most = 10**38 - 1
    for kind, head in ((DECIMAL_38, b"\x20"), (DECIMAL_FIXED, b"")):
        messages = [head + number.to_bytes(16, "big", signed=True) for number in (most, -most)]
        plan, rows = decode(avro, row_schema(("a", kind)), *messages)
        assert values_of(plan.columns[0], rows.columns[0], 2) == [most, -most]
        for number in (most + 1, -most - 1, 2**127 - 1, -(2**127)):
            _, rows = decode(avro, row_schema(("a", kind)), head + number.to_bytes(16, "big", signed=True))
            assert "at most 38 digits" in str(rows.faults[0][1])


def test_decode_rows_leaves_decimals_of_more_digits_than_a_table_takes_as_bytes(avro: ModuleType) -> None:
    plan, rows = decode(avro, row_schema(("a", DECIMAL_39)), encode_string(b"\x7f" * 17))
    assert plan.columns[0].storage == "binary"
    assert values_of(plan.columns[0], rows.columns[0], 1) == [b"\x7f" * 17]


def test_decode_rows_reads_the_rows_it_is_told(avro: ModuleType) -> None:
    plan = compile_rows(row_schema(("a", "int")))
    data, starts, ends = lay_out([encode_long(number) for number in range(5)] + [b""])
    rows = avro.decode_rows(plan, data, starts, ends, memoryview(array("q", [4, 5, 0, 4])))
    assert list(rows.rows) == [4, 0, 4]
    assert [record["data"]["a"] for record in records_of(plan, rows)] == [4, 0, 4]
    assert [index for index, _ in rows.faults] == [5]


@pytest.mark.parametrize("rows", [None, b""])
def test_decode_rows_returns_nothing_when_there_are_no_rows(avro: ModuleType, rows: bytes | None) -> None:
    plan = compile_rows(SCHEMA)
    found = avro.decode_rows(plan, b"", b"", b"", rows)
    assert (found.count, list(found.rows), found.faults) == (0, [], [])
    assert records_of(plan, found) == []


def test_decode_rows_copies_texts_of_every_length_in_their_order(avro: ModuleType) -> None:
    schema = row_schema(("a", "string"), ("b", "bytes"), ("c", ["null", "string"]))
    lengths = [*range(40), 255, 256, 70_000, *([3, 0, 16, 17] * (1200 if kernels.name_of(avro) == "compiled" else 10))]
    rows = [{"a": "a" * length, "b": b"b" * (length + 1), "c": None if length % 3 else "c" * length} for length in lengths]
    messages = [encode_value(parse_schema(schema), {"data": row}) for row in rows]
    plan, found = decode(avro, schema, *messages)
    assert [record["data"] for record in records_of(plan, found)] == rows


HOP = {"type": "record", "name": "Hop", "fields": [{"name": "node", "type": "string"}, {"name": "ms", "type": ["null", "int"]}]}
NESTED: list[tuple[Any, list[Any]]] = [
    (HOP, [{"node": "größe", "ms": None}, {"node": "", "ms": 5}]),
    (["null", HOP], [None, {"node": "n", "ms": 1}]),
    ({"type": "array", "items": HOP}, [[], [{"node": "n", "ms": 1}] * 3]),
    ({"type": "map", "values": {"type": "array", "items": "boolean"}}, [{}, {"a": [], "ü": [True, False]}]),
    (["null", "int", "string"], [None, 7, "seven"]),
    ("null", [None]),
    ({"type": "record", "name": "Empty", "fields": []}, [{}]),
    ({"type": "array", "items": {"type": "map", "values": {"type": "fixed", "name": "F", "size": 3}}}, [[{}, {"k": b"abc"}]]),
    ({"type": "array", "items": ["double", "float", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}]}, [[0.5, "Y"]]),
]


@pytest.mark.parametrize(("kind", "values"), NESTED, ids=[json.dumps(kind)[:40] for kind, _ in NESTED])
@pytest.mark.parametrize("headers_may_be_null", [False, True])
def test_decode_rows_passes_over_what_no_column_is_made_of(
    avro: ModuleType, kind: Any, values: list[Any], headers_may_be_null: bool
) -> None:
    headers: Any = {"type": "record", "name": "Headers", "fields": [
        {"name": "changeSequence", "type": "string"}, {"name": "new", "type": kind}, {"name": "transactionId", "type": "string"},
    ]}  # fmt: skip
    sections = {
        "before": kind,
        "data": {"type": "record", "name": "Data", "fields": [{"name": "a", "type": ["null", "int"]}]},
        "headers": ["null", headers] if headers_may_be_null else headers,
    }
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in sections.items()]})
    rows_in = [
        {"before": value, "data": {"a": place}, "headers": {"changeSequence": str(place), "new": value, "transactionId": "t"}}
        for place, value in enumerate(values)
    ]
    if headers_may_be_null:
        rows_in.insert(0, {"before": values[0], "data": {"a": None}, "headers": None})
    messages = [encode_value(parse_schema(schema), row) for row in rows_in]
    plan, rows = decode(avro, schema, *messages)
    assert rows.faults == []
    assert [column.name for column in plan.columns] == ["a", "changeSequence", "transactionId"]
    for record, row in zip(records_of(plan, rows), rows_in, strict=True):
        assert record["data"] == row["data"]
        known = row["headers"] or {}
        assert record["headers"] == {name: known.get(name) for name in ("changeSequence", "transactionId")}
