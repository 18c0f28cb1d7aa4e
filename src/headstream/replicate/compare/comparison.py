"""Compares one table with its source, also while the pipeline applies changes.

A row may differ merely because its change is late. Therefore, the row is read again, in these steps:

    1. read the source's row
    2. wait until the pipeline has applied every message that was logged up to the time of step 1
    3. read the target's row, and the newest change sequence of the table that the pipeline knows
    4. read the source's row again

If the source's row is the same in steps 1 and 4, a different row in the target is wrong. Otherwise the steps are repeated, with
step 4 as the new step 1. A row that changes in every round is unsettled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headstream.replicate.compare.compared_table import SEQUENCE, ComparedTable
from headstream.replicate.compare.key_ranges import find_differing_keys
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.run.status import read_status

_ROUNDS: Final = 4
_CHECK_SECONDS: Final = 0.5
Key: TypeAlias = tuple[Any, ...]
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings:
    """Comparison settings.

    Args:
        limit: Maximum number of differing rows per table to read again, report and repair.
        connections: Number of concurrent connections to the source.
        capture_lag_us: Maximum time until a committed change is in the log, microseconds.
        wait_us: Maximum wait for the pipeline per round, microseconds.
    """

    limit: int = 1000
    connections: int = 4
    capture_lag_us: int = 10_000_000
    wait_us: int = 300_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs in source and target.

    Args:
        kind: `missing` in the target, `extra` in the target, `changed`, `duplicate` (several rows of the target have the key), or
            `unsettled` (the source changed the row in every round).
        columns: The columns that differ; empty unless `kind` is `changed`.
        source: The source's row; None if it does not exist.
        target: The target's row; None if it does not exist.
        sequence: The newest change sequence of the target's row; "" if it does not exist.
    """

    kind: Literal["missing", "extra", "changed", "duplicate", "unsettled"]
    key: Row
    columns: tuple[str, ...] = ()
    source: Row | None = None
    target: Row | None = None
    sequence: str = ""


@dataclass(slots=True)
class TableResult:
    """The result for one table.

    Args:
        table: `schema.table` of the target.
        source: `schema.table` of the source.
        rows: Row counts of the source and the target at the first read.
        source_reads: Number of source rows read for digests and keys, including repeated reads.
        late: Number of rows that differed only at the first read.
        is_complete: Whether `differences` has all differences; otherwise only the first differences by key.
        has_passed: Whether the pipeline has applied all messages up to the first read; None if there was no difference.
        left_out: Columns that were not compared, because one side lacks them.
        newest: The newest change sequence of the table that the pipeline knew before the last read of the source.
        error: The reason why the table could not be compared, or None.
    """

    table: str
    source: str
    rows: tuple[int, int] = (0, 0)
    source_reads: int = 0
    differences: list[Difference] = field(default_factory=list)
    late: int = 0
    is_complete: bool = True
    has_passed: bool | None = None
    left_out: tuple[str, ...] = ()
    newest: str = ""
    error: str | None = None

    @property
    def is_equal(self) -> bool:
        """Whether no row differs."""
        return self.error is None and not self.differences and self.is_complete


class PipelineProgress:
    """The progress of a pipeline, from its checkpoint.

    Args:
        read: Returns a directory with the checkpoint's newest ledger.
    """

    def __init__(self, read: Callable[[], Path]) -> None:
        self._read = read

    def wait(self, until_us: int, wait_us: int) -> bool:
        """Wait at most `wait_us` until the pipeline has applied all messages logged before a time; return whether it succeeded.

        If the pipeline is not running, return immediately.
        """
        end = time.monotonic() + wait_us / 1e6
        while True:
            with closing(Ledger(self._read() / "ledger.sqlite", read_only=True)) as ledger:
                status = read_status(ledger, time.time_ns() // 1000)
            if (status["run"] or {}).get("read_until_us", 0) >= until_us:
                return True
            if status["state"] != "running" or time.monotonic() > end:
                return False
            time.sleep(_CHECK_SECONDS)


def compare_table(
    spark: SparkSession,
    table: ComparedTable,
    result: TableResult,
    settings: CompareSettings,
    progress: PipelineProgress,
    find_newest: Callable[[], str],
    show: Callable[[str], None] = lambda text: None,
) -> None:
    """Compare a table with its source.

    Args:
        result: Receives the result.
        find_newest: Returns the newest change sequence of the table that the pipeline knows.

    Raises:
        PySparkException: one of the sides cannot be read.
        StorageError: the checkpoint cannot be read.
    """
    result.left_out = table.left_out
    found = find_differing_keys(table, settings.limit, settings.connections, show)
    result.rows, result.source_reads = (found.source_rows, found.lake_rows), found.source_reads
    result.is_complete = found.is_complete
    keys = found.keys
    before_us, before = time.time_ns() // 1000, dict[Key, list[Row]]()
    if keys.num_rows:
        show(f"{keys.num_rows:,} differing rows, second read")
        before = _source_by_key(spark, table, keys)
    skips = table.schema.settings.deletes == "skip"
    for number in range(_ROUNDS):
        if not keys.num_rows:
            break
        show(f"waiting for the pipeline to pass the time at which {keys.num_rows:,} rows were read")
        passed = progress.wait(before_us + settings.capture_lag_us, settings.wait_us)
        result.has_passed = passed and result.has_passed is not False
        there = _by_key(table, table.lake_rows(with_sequence=True), spark, keys)
        result.newest = max([result.newest, find_newest()])
        before_us = time.time_ns() // 1000
        after = _source_by_key(spark, table, keys)
        moving: list[Key] = []
        for key in _tuples(table, keys):
            difference = _difference(table, key, after.get(key, []), there.get(key, []))
            if difference is None:
                result.late += 1
            elif difference.kind == "extra" and skips:
                continue
            elif _is_same(before.get(key, []), after.get(key, [])):
                result.differences.append(difference)
            elif passed and number + 1 < _ROUNDS:
                moving.append(key)
            else:
                result.differences.append(Difference("unsettled", difference.key))
        keys, before = _keys_of(table, keys, moving), after


def _source_by_key(spark: SparkSession, table: ComparedTable, keys: pa.Table) -> dict[Key, list[Row]]:
    """Return the source's rows with the given keys. If there is no range key, the entire table is read."""
    where = None
    if table.range_key is not None:
        numbers = table.numbered(spark.createDataFrame(keys)).select("_hs_number").distinct().toArrow()[0].to_pylist()
        where = " OR ".join(table.range_condition(number, number + 1) for number in numbers)
    return _by_key(table, table.source_rows(where), spark, keys)


def _by_key(table: ComparedTable, rows: DataFrame, spark: SparkSession, keys: pa.Table) -> dict[Key, list[Row]]:
    chosen = rows.join(sf.broadcast(spark.createDataFrame(keys)), table.keys, "left_semi")
    found: dict[Key, list[Row]] = {}
    for row in chosen.toArrow().to_pylist():
        found.setdefault(tuple(row[name] for name in table.keys), []).append(row)
    return found


def _tuples(table: ComparedTable, keys: pa.Table) -> list[Key]:
    return [tuple(row[name] for name in table.keys) for row in keys.to_pylist()]


def _keys_of(table: ComparedTable, keys: pa.Table, chosen: Sequence[Key]) -> pa.Table:
    wanted = set(chosen)
    return keys.filter(pa.array([key in wanted for key in _tuples(table, keys)], pa.bool_()))


def _difference(table: ComparedTable, key: Key, source: Sequence[Row], target: Sequence[Row]) -> Difference | None:
    named = dict(zip(table.keys, key, strict=True))
    sequence = max((row[SEQUENCE] or "" for row in target), default="")
    if len(target) > 1:
        return Difference("duplicate", named)
    if not source or not target:
        kind: Literal["missing", "extra"] = "missing" if source else "extra"
        found = Difference(kind, named, (), source[0] if source else None, target[0] if target else None, sequence)
        return found if source or target else None
    columns = tuple(name for name in table.columns if not _is_equal(source[0][name], target[0][name]))
    return Difference("changed", named, columns, source[0], target[0], sequence) if columns else None


def _is_same(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> bool:
    return len(before) == len(after) and all(
        _is_equal(first[name], second[name]) for first, second in zip(before, after, strict=True) for name in first
    )


def _is_equal(first: Any, second: Any) -> bool:
    return bool(first == second or (first != first and second != second))  # NaN is not equal to itself
