from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from headstream.replicate.engines.key_ranges import join_ranges, key_ranges, literal_ranges, ranges_sql, value_ranges

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


@pytest.mark.parametrize("parts", [2, 7, 40])
def test_join_ranges_has_few_ranges_that_hold_every_key_of_all_parts(parts: int) -> None:
    numbers = sorted({*range(100, 180), *(number**3 for number in range(60)), 10**9})
    days = [_DAY + datetime.timedelta(number % 400) for number in numbers]
    names = [f"name {number}" for number in numbers]
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "d": pa.array(days, pa.date32()), "t": names})
    joined = join_ranges(
        value_ranges(rows.take(pa.array(range(part, len(numbers), parts))), ["n", "d", "t"]) for part in range(parts)
    )
    for name in ("n", "d", "t"):
        values = rows[name].to_pylist()
        assert len(joined[name]) <= 16
        assert all(any(low <= value <= high for low, high in joined[name]) for value in values)
        assert (joined[name][0][0], joined[name][-1][1]) == (min(values), max(values))
    assert (10**9, 10**9) in joined["n"], "a key far from all others has a range of its own"
    assert literal_ranges(joined)["d"][0][0] == f"DATE '{min(days)}'"


def test_join_ranges_of_nothing_is_nothing() -> None:
    assert join_ranges([]) == {}
    assert join_ranges([{}, {}]) == {}
