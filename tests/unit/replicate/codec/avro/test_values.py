"""Avro values one by one, against fastavro: what one writes the other reads."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec.avro.reader import MAX_MAP_ENTRIES, AvroReader
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import decode_value, encode_long, encode_string, encode_value

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
FIXED_DECIMAL = {"type": "fixed", "name": "D", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 2}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 5}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}]}

VALUES: list[tuple[Any, Any]] = [
    ("null", None),
    ("boolean", True),
    ("boolean", False),
    *(("int", value) for value in (0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31))),
    *(("long", value) for value in (0, 2**62, 2**63 - 1, -(2**63))),
    ("float", 1.5),
    ("double", -1.1),
    ("double", float("inf")),
    ("bytes", b""),
    ("bytes", bytes(range(256))),
    ("string", ""),
    ("string", "Größe \U0001f600"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    (ENUM, "B"),
    (RECORD, {"a": 1, "b": None}),
    (RECORD, {"a": -1, "b": "x"}),
    (["null", "int"], None),
    (["int", "null"], 7),
    ({"type": "array", "items": "int"}, []),
    ({"type": "array", "items": "int"}, [1, 2, 3]),
    ({"type": "map", "values": "string"}, {"k": "v", "": ""}),
    (DECIMAL, Decimal("-12345.67")),
    (DECIMAL, Decimal("0.00")),
    (DECIMAL, Decimal("1.28")),
    (DECIMAL, Decimal("9999999999.99")),
    (FIXED_DECIMAL, Decimal("-0.01")),
    (WIDE, Decimal("-1234567890123456789012345678901234567890123456789.12345")),
    ({"type": "int", "logicalType": "date"}, datetime.date(1600, 2, 29)),
    ({"type": "int", "logicalType": "time-millis"}, datetime.time(23, 59, 59, 999000)),
    ({"type": "long", "logicalType": "time-micros"}, datetime.time(0, 0, 0, 1)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(9999, 12, 31, 23, 59, 59, 999000)),
]


@pytest.mark.parametrize(("schema", "value"), VALUES)
def test_encode_value_writes_what_fastavro_writes(schema: Any, value: Any) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    encoded = encode_value(parse_schema(json.dumps(schema)), value)
    assert encoded == out.getvalue()


@pytest.mark.parametrize(("schema", "value"), VALUES)
def test_decode_value_reads_what_was_written_and_no_less(schema: Any, value: Any) -> None:
    avro_type = parse_schema(json.dumps(schema))
    data = encode_value(avro_type, value)
    reader = AvroReader(b"\xff" + data + b"\xff", 1, 1 + len(data))
    assert decode_value(reader, avro_type) == value
    reader.finish("the value")
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_value(AvroReader(data[:end]), avro_type)


def test_decode_value_takes_a_timestamp_as_utc() -> None:
    avro_type = parse_schema('{"type": "long", "logicalType": "timestamp-micros"}')
    schema_store = datetime.timezone(datetime.timedelta(hours=2))
    data = encode_value(avro_type, datetime.datetime(2024, 5, 6, 9, 0, tzinfo=schema_store))
    assert decode_value(AvroReader(data), avro_type) == datetime.datetime(2024, 5, 6, 7, 0)


@pytest.mark.parametrize(
    ("schema", "number"),
    [
        ({"type": "int", "logicalType": "date"}, 2**31 - 1),
        ({"type": "int", "logicalType": "date"}, -(2**31)),
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**63 - 1),
        ({"type": "long", "logicalType": "timestamp-millis"}, -(2**63)),
    ],
)
def test_decode_value_keeps_a_number_that_no_date_is_for(schema: Any, number: int) -> None:
    avro_type = parse_schema(json.dumps(schema))
    data = encode_value(avro_type, number)
    assert decode_value(AvroReader(data), avro_type) == number


@pytest.mark.parametrize(
    ("schema", "data", "what"),
    [
        ("boolean", b"\x02", "0 or 1.*not 2"),
        ("int", encode_long(2**31), "does not fit an int"),
        ("int", encode_long(-(2**31) - 1), "does not fit an int"),
        ("long", b"\xff" * 10, "64 bits"),
        ("long", b"\x80" * 9 + b"\x02", "64 bits"),
        ("long", b"\x80" * 10 + b"\x01", "64 bits"),
        ("string", b"\x02\xff", "UTF-8"),
        ("string", b"\x06\xed\xa0\x80", "UTF-8"),
        ("string", b"\x01", "negative length"),
        ("bytes", encode_long(2**62), "cut short"),
        (ENUM, b"\x04", "below 2, not 2"),
        (ENUM, b"\x01", "below 2, not -1"),
        (["null", "int"], b"\x04", "below 2, not 2"),
        (DECIMAL, b"\x00", "not 0"),
        (DECIMAL, b"\x22\x00\xff" + bytes(15), "not 17"),
        (DECIMAL, encode_string((10**12).to_bytes(6, "big")), "12 digits"),
        (WIDE, encode_string(b"\x01" + bytes(128)), "not 129"),
        ({"type": "int", "logicalType": "time-millis"}, encode_long(86_400_000), "a time of day"),
        ({"type": "long", "logicalType": "time-micros"}, encode_long(-1), "a time of day"),
    ],
)
def test_decode_value_refuses_bytes_that_are_no_value(schema: Any, data: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what):
        decode_value(AvroReader(data), parse_schema(json.dumps(schema)))


def test_decode_value_says_where_and_how_much_is_missing() -> None:
    fields = [{"name": "n", "type": "int"}, {"name": "city", "type": "string"}]
    with pytest.raises(DecodeError) as caught:
        decode_value(AvroReader(b"\x02\x0ahalf"), parse_schema(json.dumps({"type": "record", "name": "R", "fields": fields})))
    error = caught.value
    assert (error.at, error.need, error.have) == (2, 5, 4)
    assert "city" in str(error)


EMPTY = ["null", {"type": "record", "name": "Empty", "fields": []}, {"type": "fixed", "name": "F", "size": 0}]


@pytest.mark.parametrize("items", EMPTY)
@pytest.mark.parametrize("count", [2**60, -(2**60), -(2**63)])
def test_decode_value_does_not_count_items_of_no_bytes_for_ever(items: Any, count: int) -> None:
    avro_type = parse_schema(json.dumps({"type": "array", "items": items}))
    with pytest.raises(DecodeError, match="more items"):
        decode_value(AvroReader(encode_long(count) + b"\x00\x00"), avro_type)


def test_decode_value_does_not_walk_a_tree_of_empty_records_for_ever() -> None:
    fields = [{"name": "r0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for level in range(1, 17):
        twice = [{"name": name, "type": f"R{level - 1}"} for name in "ab"]
        fields.append({"name": f"r{level}", "type": {"type": "record", "name": f"R{level}", "fields": twice}})
    with pytest.raises(DecodeError, match="more values"):
        decode_value(AvroReader(b""), parse_schema(json.dumps({"type": "record", "name": "Top", "fields": fields})))


def test_pull_map_reads_blocks_with_their_sizes() -> None:
    body = encode_string("a") + encode_string("1") + encode_string("b") + encode_string("2")
    data = encode_long(-2) + encode_long(len(body)) + body + encode_long(1) + encode_string("c") + encode_string("3") + b"\0"
    reader = AvroReader(data)
    assert reader.pull_map("headers") == {"a": "1", "b": "2", "c": "3"}
    reader.finish("headers")


@pytest.mark.parametrize(
    "data",
    [
        encode_long(2**60),
        encode_long(-(2**63)) + b"\x00",
        encode_long(-1) + encode_long(100) + encode_string("a") + encode_string("1") + b"\0",
        encode_long(-1) + encode_long(-1) + encode_string("a") + encode_string("1") + b"\0",
        encode_long(2) + (encode_string("a") + encode_string("1")) * 2 + b"\0",
        encode_long(MAX_MAP_ENTRIES + 1) + b"".join(encode_string(str(i)) * 2 for i in range(MAX_MAP_ENTRIES + 1)) + b"\0",
    ],
)
def test_pull_map_refuses_counts_that_cannot_be_and_keys_that_come_twice(data: bytes) -> None:
    with pytest.raises(DecodeError):
        AvroReader(data).pull_map("headers")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 2**31),
        ("int", True),
        ("int", "1"),
        ("int", None),
        pytest.param("long", 10**5000, id="long-huge"),
        ("float", 1e300),
        ("double", "1.5"),
        pytest.param("double", 10**400, id="double-huge"),
        ("boolean", 1),
        ("bytes", "text"),
        ("string", b"bytes"),
        ("string", "\ud800"),
        ("string", True),
        ("string", Decimal("NaN")),
        ("string", Decimal("1e999999")),
        pytest.param("string", 10**5000, id="string-huge"),
        ("null", 0),
        (ENUM, "C"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab"),
        (["null", "int"], "x"),
        (DECIMAL, Decimal("1e11")),
        (DECIMAL, Decimal("0.001")),
        (DECIMAL, Decimal("Infinity")),
        (DECIMAL, 1.5),
        (DECIMAL, True),
        ({"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 9}, Decimal(128)),
        ({"type": "int", "logicalType": "date"}, datetime.datetime(2024, 1, 1)),
        ({"type": "array", "items": "int"}, {"a": 1}),
        (RECORD, {"a": 1, "c": 2}),
        (RECORD, 5),
    ],
)
def test_encode_value_refuses_what_does_not_fit(schema: Any, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        encode_value(parse_schema(json.dumps(schema)), value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.10"), "-0.10"),
        (2**64 - 1, "18446744073709551615"),
        (datetime.date(2024, 5, 6), "2024-05-06"),
        (datetime.time(1, 2, 3), "01:02:03"),
        (datetime.datetime(2023, 3, 21, 14, 34, 21), "2023-03-21 14:34:21.000000"),
    ],
)
def test_encode_value_spells_values_of_text_columns_as_replicate_does(value: Any, text: str) -> None:
    assert encode_value(parse_schema('"string"'), value) == encode_string(text)
