"""decode_rows: what is not a row is refused alone, with its place, and holds no memory that its bytes do not pay for."""

from __future__ import annotations

import json
import tracemalloc
from array import array
from types import ModuleType
from typing import Any

import pytest

from headstream.errors import InvalidInputError
from headstream.replicate.codec.avro.rows import compile_rows
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_long, encode_string, encode_value
from tests.support import kernels
from tests.support.replicate.replicate_rows import DECIMAL_9, HEADERS, ROW, SCHEMA, decode, lay_out, records_of, row_schema

avro = kernels.fixture("headstream.replicate.codec.avro.rows")


def passed_over(kind: Any) -> str:
    """A row of nothing but a header that no column is made of."""
    return row_schema(headers=[("n", kind)])


def array_of(kind: Any) -> str:
    return passed_over({"type": "array", "items": kind})


INT, TEXT, NULLABLE = row_schema(("a", "int")), row_schema(("a", "string")), row_schema(("a", ["null", "int"]))
NULLABLE_HEADERS = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "data", "type": {"type": "record", "name": "D", "fields": [{"name": "a", "type": "int"}]}},
    {"name": "headers", "type": ["null", {"type": "record", "name": "H", "fields": [{"name": "h", "type": "string"}]}]},
]})  # fmt: skip
TIME = {"type": "int", "logicalType": "time-millis"}
FAULTS = [
    (INT, b"", "cut short", 0, 1, 0),
    (INT, b"\x80\x80", "cut short", 0, 3, 2),
    (INT, b"\xff" * 10, "64 bits", 0, None, None),
    (INT, b"\x80" * 9 + b"\x02", "64 bits", 0, None, None),
    (INT, b"\x80" * 10 + b"\x01", "64 bits", 0, None, None),
    (INT, encode_long(2**31), "out of range", 0, None, None),
    (INT, encode_long(-(2**31) - 1), "out of range", 0, None, None),
    (INT, b"\x02\x02", "1 unexpected bytes", 1, None, None),
    (NULLABLE, b"\x04\x02", "branch 2 of a union of 2", 0, None, None),
    (NULLABLE, b"\x01", "branch -1 of a union of 2", 0, None, None),
    (NULLABLE, b"\x02", "cut short", 1, 1, 0),
    (NULLABLE, b"\xff" * 10, "64 bits", 0, None, None),
    (row_schema(("a", ["int"])), b"\x02\x02", "branch 1 of a union of 1", 0, None, None),
    (TEXT, b"\x0ahalf", "cut short", 1, 5, 4),
    (TEXT, encode_long(2**63 - 1), "cut short", 10, 2**63 - 1, 0),
    (TEXT, b"\x01", "negative length -1", 0, None, None),
    (TEXT, encode_long(-(2**63)), "negative length", 0, None, None),
    (TEXT, b"\x04a\xff", "UTF-8", 2, None, None),
    (TEXT, b"\x06\xed\xa0\x80", "UTF-8", 1, None, None),
    (TEXT, b"\x04\xc0\x80", "UTF-8", 1, None, None),
    (TEXT, b"\x14" + b"\x80" + b"a" * 9, "UTF-8", 1, None, None),
    (row_schema(("a", "bytes")), b"\x04a", "cut short", 1, 2, 1),
    (row_schema(("a", "boolean")), b"\x02", "0 or 1.*not 2", 0, None, None),
    (row_schema(("a", "boolean")), b"", "cut short", 0, 1, 0),
    (row_schema(("a", "float")), b"abc", "cut short", 0, 4, 3),
    (row_schema(("a", "double")), b"abcdefg", "cut short", 0, 8, 7),
    (row_schema(("a", {"type": "fixed", "name": "F", "size": 2**70})), b"abc", "cut short", 0, 2**40, 3),
    (row_schema(("a", {"type": "enum", "name": "E", "symbols": ["X", "Y"]})), b"\x04", "out of range", 0, None, None),
    (row_schema(("a", {"type": "enum", "name": "E", "symbols": ["X", "Y"]})), b"\x01", "out of range", 0, None, None),
    (row_schema(("a", TIME)), encode_long(86_400_000), "out of range for time-millis", 0, None, None),
    (row_schema(("a", TIME)), b"\x01", "out of range for time-millis", 0, None, None),
    (row_schema(("a", DECIMAL_9)), b"\x00", "16 bytes, not 0", 1, None, None),
    (row_schema(("a", DECIMAL_9)), b"\x22\x01" + bytes(16), "16 bytes, not 17", 1, None, None),
    (row_schema(("a", DECIMAL_9)), encode_string((10**9).to_bytes(4, "big")), "at most 9 digits", 1, None, None),
    (row_schema(("a", "int"), before=["null", "Data"]), b"\x02\x04", "beforeData is branch 2", 1, None, None),
    (row_schema(("a", "int"), before=["null", "Data"]), b"\x02\x02", r"beforeData\.a is cut short", 2, 1, 0),
    (
        row_schema(("a", "int"), before=["null", "Data"], headers=[("h", "string")]),
        b"\x02\x00\x02",
        r"headers\.h is cut",
        3,
        1,
        0,
    ),
    (NULLABLE_HEADERS, b"\x02\x02\x04a", r"headers\.h is cut short", 3, 2, 1),
    (NULLABLE_HEADERS, b"\x02\x04", r"headers is branch 2 of a union of 2", 1, None, None),
    (array_of("int"), b"\x02", r"headers\.n is cut short", 1, 1, 0),
    (array_of("int"), b"\x80", r"headers\.n is cut short", 0, 2, 1),
    (array_of("int"), b"\x02\x02", r"headers\.n is cut short", 2, 1, 0),
    (array_of("int"), b"\x02" + encode_long(2**31), r"headers\.n is 2147483648, out of range", 1, None, None),
    (array_of("int"), b"\x02" + b"\xff" * 10, "64 bits", 1, None, None),
    (array_of("int"), b"\x01\x04\x02", r"headers\.n is cut short", 1, 2, 1),
    (array_of("int"), b"\x01\x01\x02", r"headers\.n is cut short", 1, -1, 1),
    (array_of("int"), b"\x01", r"headers\.n is cut short", 1, 1, 0),
    (array_of("null"), encode_long(2**62), "more values than its bytes can hold", 10, None, None),
    (array_of("null"), encode_long(-(2**63)) + b"\x00", "more values than its bytes can hold", 11, None, None),
    (array_of({"type": "record", "name": "N", "fields": []}), encode_long(70_000) + b"\x00", "more values", 3, None, None),
    (array_of("string"), b"\x02\x04a\xff\x00", r"headers\.n is not UTF-8", 3, None, None),
    (array_of("bytes"), b"\x02\x01", r"headers\.n has the negative length -1", 1, None, None),
    (array_of("bytes"), b"\x02\x06ab", r"headers\.n is cut short", 2, 3, 2),
    (array_of("boolean"), b"\x02\x02", "0 or 1.*not 2", 1, None, None),
    (array_of("boolean"), b"\x02", r"headers\.n is cut short", 1, 1, 0),
    (array_of("double"), b"\x02abcdefg", r"headers\.n is cut short", 1, 8, 7),
    (array_of(["null", "int"]), b"\x02\x04", r"headers\.n is branch 2 of a union of 2", 1, None, None),
    (array_of(["null", "int"]), b"\x02\x01", r"headers\.n is branch -1 of a union of 2", 1, None, None),
    (array_of({"type": "enum", "name": "E", "symbols": ["X"]}), b"\x02\x02", r"headers\.n is 1, out of range", 1, None, None),
    (passed_over({"type": "map", "values": "int"}), b"\x02\x02\xff\x02\x00", r"headers\.n is not UTF-8", 2, None, None),
    (passed_over({"type": "map", "values": "int"}), b"\x02\x02k", r"headers\.n is cut short", 3, 1, 0),
    (array_of("int"), b"\x00\x00", "1 unexpected bytes", 1, None, None),
]


@pytest.mark.parametrize(("schema", "message", "what", "at", "need", "have"), FAULTS)
def test_decode_rows_says_what_is_wrong_with_a_row_and_where(
    avro: ModuleType, schema: str, message: bytes, what: str, at: int, need: int | None, have: int | None
) -> None:
    _, rows = decode(avro, schema, message)
    assert rows.count == 0
    [(row, fault)] = rows.faults
    assert row == 0
    assert (fault.at, fault.need, fault.have) == (at, need, have)
    with pytest.raises(type(fault), match=what):
        raise fault


@pytest.mark.parametrize("good_rows", [0, 1, 7, 8, 9])
def test_decode_rows_refuses_a_bad_row_and_keeps_those_around_it(avro: ModuleType, good_rows: int) -> None:
    row = {"data": ROW, "beforeData": ROW, "headers": HEADERS}
    empty = {"data": dict.fromkeys(ROW), "beforeData": None, "headers": {**HEADERS, "changeMask": None}}
    full, least = (encode_value(parse_schema(SCHEMA), value) for value in (row, empty))
    bad = full[:-1] + b"\x07"
    messages = [least] * good_rows + [bad, least, full, bad, bad, full, least, full[:-1], b"", full + b"\x00", least]
    plan, rows = decode(avro, SCHEMA, *messages)
    good = [index for index, message in enumerate(messages) if message in (full, least)]
    assert list(rows.rows) == good
    assert [index for index, _ in rows.faults] == [index for index in range(len(messages)) if index not in good]
    _, alone = decode(avro, SCHEMA, *(messages[index] for index in good))
    assert records_of(plan, rows) == records_of(plan, alone)
    for column, held in zip(rows.columns, alone.columns, strict=True):
        assert [None if part is None else bytes(part) for part in column] == [
            None if part is None else bytes(part) for part in held
        ]


@pytest.mark.parametrize(
    ("starts", "ends", "rows"),
    [
        ([0], [4], None),
        ([-1], [1], None),
        ([2], [1], None),
        ([2**62], [2**62 + 1], None),
        ([0], [], None),
        ([0], [1], [1]),
        ([0], [1], [-1]),
    ],
)
def test_decode_rows_refuses_rows_that_are_not_in_the_data(
    avro: ModuleType, starts: list[int], ends: list[int], rows: list[int] | None
) -> None:
    which = None if rows is None else memoryview(array("q", rows))
    with pytest.raises(InvalidInputError):
        avro.decode_rows(compile_rows(INT), b"\x02\x02\x02", memoryview(array("q", starts)), memoryview(array("q", ends)), which)
    with pytest.raises(InvalidInputError):
        avro.decode_rows(compile_rows(INT), b"\x02", b"1234", b"1234")


def test_decode_rows_holds_no_more_than_its_rows_can_fill(avro: ModuleType) -> None:
    wide = [(f"c{number}", ["null", DECIMAL_9]) for number in range(300)]
    schema = row_schema(*wide, before=["null", "Data"])
    plan = compile_rows(schema)
    full = bytes(301)
    data, starts, ends = lay_out([b"\x00" * 5] * 200 + [full])
    tracemalloc.start()
    try:
        rows = avro.decode_rows(plan, data, starts, ends)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (rows.count, len(rows.faults)) == (1, 200)
    assert peak < 750_000  # 200 rows of 600 decimals would be 1.9 MB
