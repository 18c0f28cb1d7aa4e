"""Key ranges of changes, so that a merge reads only files that can contain a changed key.

Delta's log has the minimum and maximum of each column in each file. Keys that increase with time are adjacent, but rarely in one
range: recent rows are updated, rows are inserted at the end, and sometimes an old row changes. One range from the lowest to the
highest key would include all keys in between.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.engines.plan import quote_name, quote_text

KeyRanges: TypeAlias = dict[str, list[tuple[str, str]]]
"""Key column -> minimum and maximum of each range, as SQL literals."""
ValueRanges: TypeAlias = dict[str, list[tuple[Any, Any]]]
"""Key column -> minimum and maximum of each range, as values."""

_MOST_RANGES: Final = 16
"""Maximum number of ranges per key column: each range costs a comparison with every file."""
_GAP_SHARE: Final = 64
"""A gap is excluded if it is at least this fraction (1/n) of the key span."""


def key_ranges(rows: pa.Table, keys: Sequence[str]) -> KeyRanges:
    """Return the value ranges of each key column that can exclude files, as SQL literals."""
    return literal_ranges(value_ranges(rows, keys))


def value_ranges(rows: pa.Table, keys: Sequence[str]) -> ValueRanges:
    """Return the ranges of key_ranges() as values."""
    ranges: ValueRanges = {}
    for key in keys:
        values = rows[key].combine_chunks().drop_null()
        if not len(values):
            continue
        if pa.types.is_integer(values.type) or pa.types.is_date32(values.type):
            ranges[key] = list(_places(values))
        elif pa.types.is_string(values.type):
            ends = pc.min_max(values).as_py()
            ranges[key] = [(ends["min"], ends["max"])]
    return ranges


def join_ranges(parts: Iterable[ValueRanges]) -> ValueRanges:
    """Combine the ranges of several parts of the rows, to at most _MOST_RANGES per key column."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for part in parts:
        for key, ranges in part.items():
            found.setdefault(key, []).extend(ranges)
    return {key: _joined(sorted(ranges)) for key, ranges in found.items()}


def literal_ranges(ranges: ValueRanges) -> KeyRanges:
    """Return ranges as SQL literals."""
    return {key: [(_literal(low), _literal(high)) for low, high in places] for key, places in ranges.items()}


def ranges_sql(ranges: Mapping[str, Sequence[tuple[str, str]]], alias: str = "") -> list[str]:
    """Return, for each key column, the condition that a value is in one of the ranges; `alias` precedes column names."""
    conditions = []
    for key, places in ranges.items():
        name = f"{alias}{quote_name(key)}"
        parts = [f"{name} BETWEEN {low} AND {high}" for low, high in places]
        conditions.append(parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})")
    return conditions


def _places(values: pa.Array) -> list[tuple[int | datetime.date, int | datetime.date]]:
    """Return the minimum and maximum of each group of values, divided at the widest gaps."""
    numbers = np.sort((values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).to_numpy())
    # As unsigned, no difference of two whole numbers overflows.
    gaps = np.diff(numbers.astype(np.int64).view(np.uint64))
    least = (int(numbers[-1]) - int(numbers[0])) // _GAP_SHARE
    widest = np.argsort(gaps)[::-1][: _MOST_RANGES - 1]
    cuts = sorted(int(place) for place in widest if int(gaps[place]) > max(least, 1))
    firsts, lasts = [0, *(cut + 1 for cut in cuts)], [*cuts, len(numbers) - 1]
    found = pa.array(np.concatenate([numbers[firsts], numbers[lasts]])).cast(values.type).to_pylist()
    return list(zip(found[: len(firsts)], found[len(firsts) :], strict=True))


def _joined(ranges: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return sorted ranges, joining overlapping ranges and ranges with the narrowest gaps."""
    apart: list[tuple[Any, Any]] = []
    for low, high in ranges:
        if apart and low <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(high, apart[-1][1])
        else:
            apart.append((low, high))
    if len(apart) == 1 or isinstance(apart[0][0], str):
        return [(apart[0][0], apart[-1][1])]
    one = datetime.timedelta(1) if isinstance(apart[0][0], datetime.date) else 1
    least = max((apart[-1][1] - apart[0][0]) // _GAP_SHARE, one)
    gaps = sorted(
        ((after[0] - before[1], place) for place, (before, after) in enumerate(itertools.pairwise(apart), 1)), reverse=True
    )
    cuts = sorted(place for gap, place in gaps[: _MOST_RANGES - 1] if gap > least)
    firsts, lasts = [0, *cuts], [*(cut - 1 for cut in cuts), len(apart) - 1]
    return [(apart[first][0], apart[last][1]) for first, last in zip(firsts, lasts, strict=True)]


def _literal(value: int | str | datetime.date) -> str:
    if isinstance(value, int):
        return str(value)
    return quote_text(value) if isinstance(value, str) else f"DATE '{value}'"
