"""Finds the keys of differing rows: compares digests of key ranges, and then the rows of differing ranges.

    range      rows with the same integer quotient of range key and width; without a range key, of the keys' hash and width
    digest     number of rows | xor of the rows' hashes | sum of their upper halves | sum of their lower halves

The digests of both sides are computed on Spark's executors, and only digests are sent to the driver. Differing ranges with many
rows are divided again until this no longer reduces the number of rows. Spark groups the remaining rows by key. Keys that are
missing on one side, occur twice or have different values are sent to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headstream.replicate.compare.compared_table import RANGE_NUMBER, ComparedTable
from headstream.replicate.compare.source_database import Partitions

_RANGES: Final = 1024
_FEW_ROWS: Final = 200_000
"""Number of rows up to which ranges are not divided again."""
_MOST_CONDITIONS: Final = 100
"""Maximum number of ranges per query to the source; if there are more, neighbouring ranges are joined."""
_RANGE: Final = "_hs_range"
_HASH: Final = "_hs_hash"
_SIDE: Final = "_hs_side"

Range: TypeAlias = tuple[int, int]
"""A half-open range of RANGE_NUMBER."""


@dataclass(slots=True)
class Found:
    """The result of find_differing_keys().

    Args:
        keys: The keys of differing rows, as columns.
        is_complete: Whether `keys` has all differing rows.
        source_rows: Number of rows in the source when its digests were computed.
        lake_rows: Number of current rows in the target when its digests were computed.
        source_reads: Number of source rows that were read, including repeated reads.
    """

    keys: pa.Table
    is_complete: bool = True
    source_rows: int = 0
    lake_rows: int = 0
    source_reads: int = 0
    ranges: int = 0


def find_differing_keys(table: ComparedTable, limit: int, connections: int, show: Callable[[str], None]) -> Found:
    """Find at most `limit` keys of differing rows, with `connections` concurrent connections to the source."""
    if table.range_key is None:
        return _find_by_hash(table, limit, show)
    numbers = [_bounds(table.numbered(rows.select(table.range_key))) for rows in (table.source_rows(), table.lake_rows())]
    known = [bounds for bounds in numbers if bounds is not None]
    if not known:
        return _nothing(table)
    low, high = min(first for first, _ in known), max(last for _, last in known)
    ranges, width, found = [(low, high + 1)], max(1, (high - low) // _RANGES + 1), _nothing(table)
    rows_before = 0
    while True:
        show(f"digests of {sum(until - begin for begin, until in ranges):,} keys, {width:,} per range")
        partitions = _partitions(table, ranges, connections)
        # `div` rounds towards zero, and the lowest number must not overflow.
        bucket = sf.expr(f"{RANGE_NUMBER} div {width}L - IF({RANGE_NUMBER} % {width}L < 0, 1, 0)")
        source = _digests(table, table.numbered(_source_rows(table, ranges, partitions)), bucket)
        lake = _digests(table, _within(table.numbered(table.lake_rows()), ranges), bucket)
        rows = sum(digest[0] for digest in source.values())
        found.source_reads += rows
        if not rows_before:
            found.source_rows, found.lake_rows = rows, sum(digest[0] for digest in lake.values())
        differing = sorted(name for name in source.keys() | lake.keys() if source.get(name) != lake.get(name))
        found.ranges = len(differing)
        if not differing:
            return found
        of_them = sum(source.get(name, (0,))[0] + lake.get(name, (0,))[0] for name in differing)
        ranges = join_ranges([(max(name * width, low), min((name + 1) * width, high + 1)) for name in differing])
        if of_them <= _FEW_ROWS or width == 1 or (rows_before and of_them > rows_before // 2):
            break
        rows_before, width = of_them, max(1, width // _RANGES)
    show(f"rows of {found.ranges:,} ranges that differ")
    source_part = _source_rows(table, ranges, _partitions(table, ranges, connections))
    found.source_reads += sum(source.get(name, (0,))[0] for name in differing)
    lake_part = _within(table.numbered(table.lake_rows()), ranges)
    return _collect_keys(table, source_part, lake_part, limit, found)


def _find_by_hash(table: ComparedTable, limit: int, show: Callable[[str], None]) -> Found:
    """Find differing keys without a range key; read the source through one connection, a second time if digests differ."""
    found, bucket = _nothing(table), sf.pmod(sf.xxhash64(*table.keys), sf.lit(_RANGES))
    show("digests of all keys")
    source = _digests(table, table.source_rows(), bucket)
    lake = _digests(table, table.lake_rows(), bucket)
    found.source_rows, found.lake_rows = (sum(digest[0] for digest in side.values()) for side in (source, lake))
    found.source_reads = found.source_rows
    differing = [name for name in source.keys() | lake.keys() if source.get(name) != lake.get(name)]
    found.ranges = len(differing)
    if not differing:
        return found
    show(f"rows of {found.ranges:,} ranges that differ")
    found.source_reads += found.source_rows
    chosen = bucket.isin(differing)
    return _collect_keys(table, table.source_rows().filter(chosen), table.lake_rows().filter(chosen), limit, found)


def _nothing(table: ComparedTable) -> Found:
    return Found(table.lake_rows().select(*table.keys).limit(0).toArrow())


def _bounds(rows: DataFrame) -> Range | None:
    low, high = rows.select(sf.min(RANGE_NUMBER), sf.max(RANGE_NUMBER)).collect()[0]
    return None if low is None else (low, high)


def _source_rows(table: ComparedTable, ranges: Sequence[Range], partitions: Partitions | None) -> DataFrame:
    return table.source_rows(" OR ".join(table.range_condition(*each) for each in ranges), partitions)


def _partitions(table: ComparedTable, ranges: Sequence[Range], connections: int) -> Partitions | None:
    low, high = ranges[0][0], ranges[-1][1]
    if connections < 2 or high - low < connections:
        return None
    assert table.range_key is not None
    return Partitions(table.range_key, table.range_literal(low), table.range_literal(high - 1), connections)


def _within(rows: DataFrame, ranges: Sequence[Range]) -> DataFrame:
    number = sf.col(RANGE_NUMBER)
    condition = sf.lit(False)
    for begin, until in ranges:
        condition = condition | number.between(begin, until - 1)
    return rows.filter(condition)


def join_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Join adjacent ascending ranges, and then neighbouring ranges until there are at most _MOST_CONDITIONS."""
    joined: list[Range] = []
    for begin, until in ranges:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], until)
        else:
            joined.append((begin, until))
    step = -(-len(joined) // _MOST_CONDITIONS)
    return [(joined[first][0], joined[min(first + step, len(joined)) - 1][1]) for first in range(0, len(joined), step)]


def _hash(table: ComparedTable) -> Column:
    # Spark's hash skips nulls, so that (null, x) and (x, null) would be equal.
    return sf.xxhash64(*(part for name in table.columns for part in (sf.col(f"`{name}`"), sf.isnull(sf.col(f"`{name}`")))))


def _digests(table: ComparedTable, rows: DataFrame, bucket: Column) -> dict[int, tuple[int, ...]]:
    hashed = rows.select(bucket.alias(_RANGE), _hash(table).alias(_HASH))
    value = sf.col(_HASH)
    halves = (sf.sum(sf.shiftright(value, 32)), sf.sum(value.bitwiseAND(sf.lit(0xFFFFFFFF))))
    grouped = hashed.groupBy(_RANGE).agg(sf.count("*"), sf.bit_xor(value), *halves)
    return {row[0]: tuple(row[1:]) for row in grouped.collect()}


def _collect_keys(table: ComparedTable, source: DataFrame, lake: DataFrame, limit: int, found: Found) -> Found:
    keys = [sf.col(f"`{name}`") for name in table.keys]
    sides = [rows.select(*keys, _hash(table).alias(_HASH), sf.lit(side).alias(_SIDE)) for side, rows in ((1, source), (0, lake))]
    in_source = sf.sum(_SIDE)
    grouped = sides[0].unionByName(sides[1]).groupBy(*keys)
    counted = grouped.agg(in_source.alias("_hs_source"), sf.count("*").alias("_hs_rows"), sf.bit_xor(_HASH).alias(_HASH))
    is_equal = (sf.col("_hs_source") == 1) & (sf.col("_hs_rows") == 2) & (sf.col(_HASH) == 0)
    differing = counted.filter(~is_equal).select(*keys).orderBy(*keys).limit(limit + 1).toArrow()
    found.is_complete = differing.num_rows <= limit
    found.keys = differing.slice(0, limit)
    return found
