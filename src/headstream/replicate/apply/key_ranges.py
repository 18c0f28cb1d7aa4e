"""Where the keys of some changes lie, so that a merge reads only the files that may have one of them.

Delta's log has the minimum and maximum of each column in each file. Keys that rise with time are adjacent, but seldom
in one place: updates of recent rows, inserts at the end, an old row now and then. One range from the least key to the
greatest would take in all that lies between.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.plan import quote_name, quote_text

__all__ = ["KeyRanges", "key_ranges", "ranges_sql"]

KeyRanges: TypeAlias = dict[str, list[tuple[str, str]]]
"""Key column -> least and greatest value of each of its ranges, as SQL literals."""

_MOST_RANGES: Final = 16
"""Each range costs a comparison with every file."""
_GAP_SHARE: Final = 64
"""Of all that the keys span, what a gap must have at least to be worth leaving out."""


def key_ranges(rows: pa.Table, keys: Sequence[str]) -> KeyRanges:
    """Return the ranges of the values of each key column, of columns that can exclude files.

    Args:
        rows: With the key columns.
        keys: Their names.
    """
    ranges: KeyRanges = {}
    for key in keys:
        values = rows[key].combine_chunks().drop_null()
        if not len(values):
            continue
        if pa.types.is_integer(values.type) or pa.types.is_date32(values.type):
            ranges[key] = [(_literal(low), _literal(high)) for low, high in _places(values)]
        elif pa.types.is_string(values.type):
            ends = pc.min_max(values).as_py()
            ranges[key] = [(_literal(ends["min"]), _literal(ends["max"]))]
    return ranges


def ranges_sql(ranges: Mapping[str, Sequence[tuple[str, str]]], alias: str = "") -> list[str]:
    """Return a condition for each key column: that its value lies in one of its ranges.

    Args:
        ranges: As key_ranges() gives them.
        alias: What comes before a column's name.
    """
    conditions = []
    for key, places in ranges.items():
        name = f"{alias}{quote_name(key)}"
        parts = [f"{name} BETWEEN {low} AND {high}" for low, high in places]
        conditions.append(parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})")
    return conditions


def _places(values: pa.Array) -> list[tuple[int | datetime.date, int | datetime.date]]:
    """Return the least and greatest value of each group of neighbours, apart by the widest gaps."""
    numbers = np.sort((values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).to_numpy())
    # As unsigned, no difference of two whole numbers overflows.
    gaps = np.diff(numbers.astype(np.int64).view(np.uint64))
    least = (int(numbers[-1]) - int(numbers[0])) // _GAP_SHARE
    widest = np.argsort(gaps)[::-1][: _MOST_RANGES - 1]
    cuts = sorted(int(place) for place in widest if int(gaps[place]) > max(least, 1))
    firsts, lasts = [0, *(cut + 1 for cut in cuts)], [*cuts, len(numbers) - 1]
    found = pa.array(np.concatenate([numbers[firsts], numbers[lasts]])).cast(values.type).to_pylist()
    return list(zip(found[: len(firsts)], found[len(firsts) :], strict=True))


def _literal(value: int | str | datetime.date) -> str:
    if isinstance(value, int):
        return str(value)
    return quote_text(value) if isinstance(value, str) else f"DATE '{value}'"
