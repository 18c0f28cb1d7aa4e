"""One digest for a table, whoever reads it: equal for equal values, different for any difference."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import InvalidInputError
from headstream.testing import SourceDatabase, canonical_value, digest_rows

MOMENT = datetime(2024, 5, 6, 7, 8, 9, 123_456)
EQUAL: list[tuple[Any, Any]] = [
    (5, Decimal("5.00")),
    (0, Decimal("-0.00")),
    (100, Decimal("1E2")),
    (0.0, -0.0),
    (float("nan"), -float("nan")),
    (MOMENT, MOMENT.replace(tzinfo=UTC)),
    (MOMENT.replace(tzinfo=UTC), (MOMENT + timedelta(hours=2)).replace(tzinfo=timezone(timedelta(hours=2)))),
    (time(1, 2, 3, 4000), "01:02:03.004"),
    (b"ab", bytearray(b"ab")),
    (b"ab", memoryview(b"ab")),
]
DIFFERENT: list[Any] = [
    None, True, False, 0, 1, -1, Decimal("0.1"), 10**20, Decimal("12345678901234567890123456789.123456789"), 0.0, 1.0, 0.1,
    0.30000000000000004, float("inf"), float("nan"), "", "-", "T", "#1", "1", "é", "e\u0301", b"", b"1",
    date(2024, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, microsecond=1), "2024-01-01", time(0, 0, 1),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_canonical_value_is_the_same_when_the_value_is(first: Any, second: Any) -> None:
    assert canonical_value(first) == canonical_value(second)


def test_canonical_value_differs_when_the_value_does() -> None:
    assert len({canonical_value(value) for value in DIFFERENT}) == len(DIFFERENT)


@given(st.decimals(-1000, 1000, places=10), st.decimals(-1000, 1000, places=1))
@settings(max_examples=100)
def test_canonical_value_of_numbers_is_equal_as_they_are(first: Decimal, second: Decimal) -> None:
    assert (canonical_value(first) == canonical_value(second)) == (first == second)


def test_canonical_value_refuses_what_is_no_column_value() -> None:
    with pytest.raises(InvalidInputError, match="list"):
        canonical_value([1])


def test_digest_rows_ignores_order_and_bookkeeping() -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": "x", "_hs_sequence": "9"}, {"a": 2, "b": None, "_hs_sequence": "8"}]
    other: list[dict[str, Any]] = [{"b": None, "a": Decimal("2.0")}, {"b": "x", "a": 1}]
    assert digest_rows(rows, ["a"]) == digest_rows(other, ["a"])
    assert len(digest_rows([], ["a"])) == 64


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": "x"}],
        [{"a": 1, "b": "x"}, {"a": 2, "b": ""}],
        [{"a": 1, "b": "x"}, {"a": 2}],
        [{"a": 1, "b": "x"}, {"a": 2, "c": None}],
        [{"a": 1, "b": None}, {"a": 2, "b": "x"}],
        [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": None}],
    ],
)
def test_digest_rows_differs_when_a_row_or_column_does(rows: list[dict[str, Any]]) -> None:
    assert digest_rows(rows, ["a"]) != digest_rows([{"a": 1, "b": "x"}, {"a": 2, "b": None}], ["a"])


def test_digest_rows_refuses_rows_without_a_key_of_their_own() -> None:
    with pytest.raises(InvalidInputError, match="two rows"):
        digest_rows([{"a": 1}, {"a": Decimal("1.0")}], ["a"])
    with pytest.raises(InvalidInputError, match="key column 'a'"):
        digest_rows([{"a": None}], ["a"])
    with pytest.raises(InvalidInputError, match="key column 'a'"):
        digest_rows([{"b": 1}], ["a"])


ARROW = {
    "INT1": pa.int8(), "INT2": pa.int16(), "INT4": pa.int32(), "INT8": pa.int64(), "UINT1": pa.int16(), "UINT2": pa.int32(),
    "UINT4": pa.int64(), "UINT8": pa.decimal128(20, 0), "REAL4": pa.float32(), "REAL8": pa.float64(), "BOOLEAN": pa.bool_(),
    "BYTES": pa.binary(), "BLOB": pa.binary(), "DATE": pa.date32(), "DATETIME": pa.timestamp("us", "UTC"),
}  # fmt: skip


def test_final_state_survives_a_table_in_arrow() -> None:
    source = SourceDatabase(6, rows=60, transactions=60)
    for table in source.tables():
        lineage = table.lineage
        fields = [
            (c.name, pa.decimal128(c.precision, c.scale) if c.type == "NUMERIC" else ARROW.get(c.type, pa.string()))
            for c in table.columns
        ]
        state = source.final_state(lineage.schema, lineage.table)
        rows = pa.Table.from_pylist(list(state.values()), schema=pa.schema(fields)).to_pylist()
        assert {tuple(row[key] for key in table.key_columns): row for row in rows} == state
        assert digest_rows(rows, table.key_columns) == source.digest(lineage.schema, lineage.table)
