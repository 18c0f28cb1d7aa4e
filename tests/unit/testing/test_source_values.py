"""Values and keys of the simulated source: within their types, extremes and nulls included, keys never twice."""

from __future__ import annotations

import struct
from datetime import date, datetime, time
from decimal import Decimal
from random import Random

import pytest

from headstream.errors import InvalidInputError
from headstream.testing import LOB_TYPES, REPLICATE_TYPES, SHOP_TABLES, SourceColumn, SourceTable
from headstream.testing.source_values import format_time, make_key, value_maker

PYTHON_TYPES: dict[str, type] = {
    **dict.fromkeys(("INT1", "INT2", "INT4", "INT8", "UINT1", "UINT2", "UINT4"), int),
    **dict.fromkeys(("UINT8", "NUMERIC"), Decimal),
    **dict.fromkeys(("REAL4", "REAL8"), float),
    **dict.fromkeys(("STRING", "WSTRING", "CLOB", "NCLOB"), str),
    **dict.fromkeys(("BYTES", "BLOB"), bytes),
    "BOOLEAN": bool,
    "DATE": date,
    "TIME": time,
    "DATETIME": datetime,
}


@pytest.mark.parametrize("kind", sorted(REPLICATE_TYPES))
def test_value_maker_keeps_to_the_type(kind: str) -> None:
    column = SourceColumn("x", kind, length=10, precision=9, scale=3)
    make, random = value_maker(column, milliseconds=False), Random(1)
    values = [make(random) for _ in range(2000)]
    present = [value for value in values if value is not None]
    assert 100 < values.count(None) < 400
    assert {type(value) for value in present} == {PYTHON_TYPES[kind]}
    for value in present:
        if isinstance(value, int) and not isinstance(value, bool):
            count = 256 ** int(kind[-1])
            assert 0 <= value + (0 if kind.startswith("U") else count // 2) < count
        elif isinstance(value, Decimal):
            assert value.as_tuple().exponent == (0 if kind == "UINT8" else -3)
            assert abs(value) < (1 << 64 if kind == "UINT8" else 10**6)
        elif isinstance(value, (str, bytes)):
            assert len(value) <= 10
        elif isinstance(value, time):
            assert value.microsecond == 0
        elif isinstance(value, float) and kind == "REAL4":
            assert struct.unpack("<f", struct.pack("<f", value))[0] == value


def test_value_maker_gives_no_null_when_the_column_takes_none() -> None:
    make, random = value_maker(SourceColumn("x", "TIME", nullable=False), milliseconds=True), Random(1)
    values = [make(random) for _ in range(500)]
    assert all(isinstance(value, time) and value.microsecond % 1000 == 0 for value in values)
    assert any(isinstance(value, time) and value.microsecond for value in values)


def test_format_time_writes_milliseconds_only_where_there_are_some() -> None:
    assert format_time(time(1, 2, 3)) == "01:02:03"
    assert format_time(time(23, 59, 59, 50_000)) == "23:59:59.050"


@pytest.mark.parametrize("table", SHOP_TABLES, ids=lambda table: table.qualified_name)
def test_make_key_gives_a_new_key_for_every_number(table: SourceTable) -> None:
    keys = {make_key(table, number) for number in range(20_000)}
    assert len(keys) == 20_000
    assert {len(key) for key in keys} == {len(table.key_columns)}


@pytest.mark.parametrize("kind", sorted(REPLICATE_TYPES - LOB_TYPES - {"REAL4", "REAL8", "BOOLEAN", "TIME"}))
def test_make_key_runs_through_a_type_without_repeats(kind: str) -> None:
    columns = (SourceColumn("k", kind, precision=3, scale=1, key_position=1, nullable=False),)
    table = SourceTable("S", "t", versions=(columns,))
    keys = []
    for number in range(3000):
        try:
            keys.append(make_key(table, number))
        except InvalidInputError:
            break
    assert len(set(keys)) == len(keys)
    assert len(keys) == {"INT1": 256, "UINT1": 256, "NUMERIC": 1999}.get(kind, 3000)
