"""Changes that executors fold by key: for any split of them the result is that of the driver's fold of all changes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headstream.replicate.apply.on_executors.fold import FoldTask, join_reports
from headstream.replicate.columns.change_statistics import ChangeStatistics, join_statistics, statistics_of
from headstream.replicate.columns.changes import collapse
from headstream.replicate.columns.conversion import in_table_types
from headstream.replicate.columns.key_buckets import bucket_numbers
from headstream.replicate.columns.loads import Load, Loads
from headstream.replicate.columns.raw import CHANGE_COORDINATES, coordinates_table, leave_out
from headstream.replicate.engines.key_ranges import value_ranges
from tests.support.replicate.change_tables import KEYLESS, METADATA, NAMES, TYPES, change, sequence, table

GAP_US = 50


@dataclass(frozen=True)
class Case:
    """Changes in the order of the log, where they are cut, and the number of buckets."""

    changes: pa.Table
    cuts: tuple[int, ...]
    buckets: int

    @property
    def blobs(self) -> list[pa.Table]:
        ends = [0, *self.cuts, self.changes.num_rows]
        parts = [self.changes.slice(start, end - start) for start, end in itertools.pairwise(ends)]
        return [part for part in parts if part.num_rows]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    drawn = st.tuples(
        st.sampled_from(["INSERT", "UPDATE", "DELETE", "REFRESH"]), st.integers(0, 6), st.integers(1, 40), st.integers(1, 300)
    )
    rows = []
    for number, (operation, key, at, logged_us) in enumerate(draw(st.lists(drawn, min_size=1, max_size=40))):
        row = change(operation, key, f"name {number}", "1.50", at=at, logged_us=logged_us)
        rows.append({**row, "_hs_offset": number})
    repeats = draw(st.lists(st.integers(0, len(rows) - 1), max_size=5))
    rows += [rows[number] for number in repeats]
    cuts = tuple(sorted(draw(st.sets(st.integers(1, max(len(rows) - 1, 1)), max_size=4))))
    return Case(table(*rows), tuple(cut for cut in cuts if cut < len(rows)), draw(st.integers(1, 5)))


def fold_by_buckets(task: FoldTask, case: Case) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Any]:
    """Do what the executors do; return the rows, the deletions and the report."""
    pieces: dict[int, list[pa.Table]] = {}
    for blob in case.blobs:
        for bucket, rows in task.split(blob, case.buckets):
            pieces.setdefault(bucket, []).append(rows)
    folds = [task.fold(pa.concat_tables(parts)) for parts in pieces.values()]
    rows = [row for fold in folds if fold.rows is not None for row in fold.rows.to_pylist()]
    deletions = [row for fold in folds if fold.deletions is not None for row in fold.deletions.to_pylist()]
    return rows, deletions, join_reports([fold.report for fold in folds])


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


loads = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 30)), max_size=2).map(
    lambda found: Loads(loads=[Load(us, us + 5, sequence(at) if at else "") for us, at in sorted(found)])
)


@given(cases(), loads, st.dictionaries(st.integers(0, 6), st.integers(1, 60)), st.sets(st.integers(0, 40)), st.booleans())
def test_fold_by_buckets_equals_the_drivers_fold_for_any_split(
    case: Case, known: Loads, tombstones: dict[int, int], without: set[int], skips_deletes: bool
) -> None:
    remembered = pa.table(
        {
            "ID": pa.array(list(tombstones), pa.int64()),
            "_hs_deletion": pa.array([sequence(at) for at in tombstones.values()], pa.string()),
        }
    )
    highest = {key: sequence(at) for key, at in tombstones.items()}
    left_out = coordinates_table([("cdc/data", 1, offset) for offset in without])
    task = FoldTask(
        tuple(case.changes.schema.names),
        METADATA,
        tuple(NAMES),
        TYPES,
        tuple(known.loads),
        "",
        GAP_US,
        skips_deletes,
        remembered,
        left_out,
    )
    rows, deletions, report = fold_by_buckets(task, case)

    own = Loads(loads=list(known.loads))
    placed = own.place(leave_out(case.changes, CHANGE_COORDINATES, left_out), GAP_US)
    if skips_deletes:
        placed = placed.filter(pa.array([operation != 2 for operation in placed["_hs_operation"].to_pylist()], pa.bool_()))
    expected, removed = [], []
    if placed.num_rows:
        collapsed = collapse(placed, METADATA, NAMES)
        assert collapsed.events is None
        assert collapsed.deletions is not None
        kept = in_table_types(collapsed.changes, TYPES)
        stays = [row["_hs_delete"] or row["_hs_sequence"] >= highest.get(row["ID"], "") for row in kept.to_pylist()]
        kept = kept.filter(pa.array(stays, pa.bool_()))
        expected, removed = kept.drop_columns(["_hs_operation"]).to_pylist(), collapsed.deletions.to_pylist()
        assert report.ranges == value_ranges(kept, ["ID"])
    assert ordered(rows) == ordered(expected)
    assert ordered(deletions) == ordered(removed)
    assert (report.changes, report.rows) == (case.changes.num_rows, len(expected))
    assert report.deletes == sum(row["_hs_delete"] for row in expected)
    assert report.has_below_first == own.has_below_first
    assert not report.needs_driver


@given(cases(), loads)
def test_fold_of_a_table_without_key_equals_the_drivers_for_any_split(case: Case, known: Loads) -> None:
    columns = tuple(case.changes.schema.names)
    task = FoldTask(columns, KEYLESS, tuple(NAMES), TYPES, tuple(known.loads), "", GAP_US)
    rows, _, report = fold_by_buckets(task, case)
    collapsed = collapse(Loads(loads=list(known.loads)).place(case.changes, GAP_US), KEYLESS, NAMES)
    assert ordered(rows) == ordered(collapsed.changes.drop_columns(["_hs_operation"]).to_pylist())
    assert sorted(report.rejected) == sorted(collapsed.rejected)


@given(cases(), st.integers(0, 39), st.sampled_from(["moved", "partial"]))
def test_fold_needs_the_driver_when_a_change_moves_its_key_or_leaves_columns_out(case: Case, number: int, kind: str) -> None:
    rows = case.changes.to_pylist()
    row = change(
        "UPDATE", 3, "other", at=41, present={"ID", "name"} if kind == "partial" else None, old=9 if kind == "moved" else None
    )
    rows.insert(min(number, len(rows)), {**row, "_hs_offset": 99})
    task = FoldTask(tuple(case.changes.schema.names), METADATA, tuple(NAMES), TYPES)
    assert fold_by_buckets(task, Case(table(*rows), case.cuts, case.buckets))[2].needs_driver


@given(cases(), st.integers(1, 300), st.integers(1, 300), cases())
def test_loads_learn_the_same_from_statistics_as_from_all_changes_for_any_split(
    case: Case, first_us: int, second_us: int, later: Case
) -> None:
    observed, from_statistics = Loads(), Loads()
    for one, until_us in ((case, first_us), (later, second_us)):
        observed.observe(one.changes, until_us, GAP_US)
        parts = [ChangeStatistics.decode(pa.py_buffer(statistics_of(blob).encode())) for blob in one.blobs]
        statistics = join_statistics(parts)
        from_statistics.observe(statistics.trace, until_us, GAP_US)
        assert statistics.count == one.changes.num_rows
        assert statistics.has_loads == (3 in one.changes["_hs_operation"].to_pylist())
    documents = [found.to_document() for found in (observed, from_statistics)]
    for document in documents:
        del document["past"]  # a sample of the steps, of another number
    assert documents[0] == documents[1]


def values_of(numbers: list[int]) -> dict[str, pa.Array]:
    """The same numbers as keys of every type."""
    return {
        "int32": pa.array(numbers, pa.int32()),
        "text": pa.array(["k" * (number % 7) + str(number) for number in numbers], pa.string()),
        "bytes": pa.array([bytes([number % 256, 0]) * (number % 3) for number in numbers], pa.binary()),
        "decimal": pa.array([Decimal(number) / 100 for number in numbers], pa.decimal128(12, 2)),
        "double": pa.array([number / 3 for number in numbers], pa.float64()),
        "date": pa.array([date.fromordinal(700_000 + number) for number in numbers], pa.date32()),
        "time": pa.array([datetime.fromtimestamp(number, UTC) for number in numbers], pa.timestamp("us", "UTC")),
        "flag": pa.array([number % 2 == 0 for number in numbers], pa.bool_()),
    }


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 59))
def test_equal_keys_are_in_one_bucket_whatever_surrounds_them(numbers: list[int], buckets: int, start: int) -> None:
    start = min(start, len(numbers) - 1)
    for name, values in values_of(numbers).items():
        whole = bucket_numbers([pa.chunked_array([values])], len(values), buckets)
        part = values.slice(start)
        assert np.array_equal(bucket_numbers([pa.chunked_array([part])], len(part), buckets), whole[start:]), name
        alone = values.take(pa.array([start]))
        assert bucket_numbers([pa.chunked_array([alone])], 1, buckets)[0] == whole[start], name


def test_buckets_have_about_as_many_keys_each() -> None:
    numbers = list(range(100_000))
    for name in ("int32", "text", "decimal"):
        values = pa.chunked_array([values_of(numbers)[name]])
        counts = np.bincount(bucket_numbers([values], len(numbers), 16), minlength=16)
        assert counts.min() > 5_500, name
        assert counts.max() < 7_000, name
