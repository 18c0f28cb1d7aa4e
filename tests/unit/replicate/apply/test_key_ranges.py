from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from headstream.replicate.apply.key_ranges import key_ranges, ranges_sql

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_DAY = datetime.date(2024, 1, 1)


@pytest.mark.parametrize(
    ("values", "kind", "ranges"),
    [
        ([5], pa.int64(), [("5", "5")]),
        ([3, 1, 2, 2], pa.int32(), [("1", "3")]),
        ([1, 2, 900, 901], pa.int64(), [("1", "2"), ("900", "901")]),
        ([None, 7, 8], pa.int16(), [("7", "8")]),
        ([_GREATEST, _LEAST, 0], pa.int64(), [(str(_LEAST),) * 2, ("0", "0"), (str(_GREATEST),) * 2]),
        ([_DAY, datetime.date(2026, 5, 6)], pa.date32(), [("DATE '2024-01-01'",) * 2, ("DATE '2026-05-06'",) * 2]),
        (["b", "it's"], pa.string(), [("'b'", "'it''s'")]),
        (["a", "z"], pa.string(), [("'a'", "'z'")]),
    ],
)
def test_key_ranges_leaves_wide_gaps_out_when_files_can_be_told_apart(
    values: list[Any], kind: pa.DataType, ranges: list[tuple[str, str]]
) -> None:
    assert key_ranges(pa.table({"k": pa.array(values, kind)}), ["k"]) == {"k": ranges}


@pytest.mark.parametrize("values", [pa.array([], pa.int64()), pa.array([None], pa.int64()), pa.array([1.5]), pa.array([b"k"])])
def test_key_ranges_says_nothing_when_files_cannot_be_told_apart(values: pa.Array) -> None:
    assert key_ranges(pa.table({"k": values}), ["k"]) == {}


def test_key_ranges_has_few_ranges_that_hold_every_key_when_keys_lie_anywhere() -> None:
    keys = [number**3 for number in range(400)]
    ((name, ranges),) = key_ranges(pa.table({"k": pa.array(keys)}), ["k"]).items()
    assert name == "k"
    assert 1 <= len(ranges) <= 16
    ends = [(int(low), int(high)) for low, high in ranges]
    assert all(sum(low <= key <= high for low, high in ends) == 1 for key in keys)


def test_ranges_sql_is_a_condition_for_each_column_when_ranges_are_several() -> None:
    ranges = {"a": [("1", "2"), ("9", "9")], "b c": [("'x'", "'y'")]}
    assert ranges_sql(ranges, "t.") == ["(t.`a` BETWEEN 1 AND 2 OR t.`a` BETWEEN 9 AND 9)", "t.`b c` BETWEEN 'x' AND 'y'"]
