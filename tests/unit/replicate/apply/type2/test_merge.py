from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import Events, read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.engines.engine import RowCounts
from tests.support.replicate.change_tables import METADATA, NAMES, TYPES, change, sequence, table
from tests.support.replicate.histories import amount, current, deliver, random_history, tell
from tests.support.replicate.plain_engine import open_plain_engine


def open_history(directory: Path, *, soft: bool = False) -> Scd2Table:
    return Scd2Table(open_plain_engine(directory / "t"), ["ID"], soft=soft)


def merge(target: Scd2Table, version: int, *changes: dict[str, Any]) -> RowCounts:
    target.prepare(TYPES)
    return target.merge(read_events(table(*changes), METADATA, NAMES), "test", version)


def stored(directory: Path) -> list[dict[str, Any]]:
    columns = [*NAMES, "_hs_valid_from", "_hs_valid_to", "_hs_current", "_hs_deleted"]
    rows = open_plain_engine(directory / "t").read(columns, "true")
    found: list[dict[str, Any]] = rows.sort_by([("ID", "ascending"), ("_hs_valid_from", "ascending")]).to_pylist()
    return found


def content(directory: Path) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in stored(directory):
        assert row["_hs_current"] == (row["_hs_valid_to"] is None)
        if row["_hs_valid_from"] != row["_hs_valid_to"]:
            values = (row["name"], row["total"], row["note"], row["_hs_deleted"])
            found.setdefault(row["ID"], []).append((row["_hs_valid_from"], row["_hs_valid_to"], *values))
    return found


def test_history_opens_closes_and_ends_versions(tmp_path: Path) -> None:
    target = open_history(tmp_path)
    assert merge(target, 0, change("REFRESH", 1, "a"), change("INSERT", 2, "b", at=1)) == RowCounts(inserted=2)
    assert merge(target, 1, change("UPDATE", 1, "a2", at=2), change("DELETE", 2, at=3)) == RowCounts(inserted=1, updated=2)
    assert content(tmp_path) == {
        1: [("", sequence(2), "a", None, None, False), (sequence(2), None, "a2", None, None, False)],
        2: [(sequence(1), sequence(3), "b", None, None, False)],
    }


def test_history_takes_several_changes_of_a_key_in_one_batch(tmp_path: Path) -> None:
    target = open_history(tmp_path)
    merge(target, 0, change("DELETE", 1, at=3), change("INSERT", 1, "a", at=1), change("INSERT", 1, "c", at=4))
    assert [row[:3] for row in content(tmp_path)[1]] == [(sequence(1), sequence(3), "a"), (sequence(4), None, "c")]


def test_history_splits_a_past_version_when_an_older_change_comes_late(tmp_path: Path) -> None:
    target = open_history(tmp_path)
    merge(target, 0, change("INSERT", 1, "a", at=1), change("UPDATE", 1, "c", at=9))
    assert merge(target, 1, change("UPDATE", 1, "b", at=5)) == RowCounts(inserted=1, updated=1)
    assert [row[:3] for row in content(tmp_path)[1]] == [
        (sequence(1), sequence(5), "a"),
        (sequence(5), sequence(9), "b"),
        (sequence(9), None, "c"),
    ]


def test_history_remembers_a_deletion_that_comes_before_its_row(tmp_path: Path) -> None:
    merge(open_history(tmp_path), 0, change("DELETE", 1, at=9))
    assert content(tmp_path) == {}
    merge(open_history(tmp_path), 1, change("INSERT", 1, "late", at=2))
    assert [row[:3] for row in content(tmp_path)[1]] == [(sequence(2), sequence(9), "late")]
    assert len(stored(tmp_path)) == 1  # the version says it now


def test_history_does_not_change_when_changes_are_repeated(tmp_path: Path) -> None:
    changes = random_history(3, 40)
    merge(open_history(tmp_path), 0, *changes)
    before = stored(tmp_path)
    assert merge(open_history(tmp_path), 1, *changes) == RowCounts()
    assert merge(open_history(tmp_path), 1, *changes[7:20]) == RowCounts()
    assert stored(tmp_path) == before


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)])
@pytest.mark.parametrize("size", [2, *(pytest.param(size, marks=pytest.mark.nightly) for size in (1, 4))])
def test_history_does_not_change_when_a_row_of_a_load_comes_again_as_it_is(
    tmp_path: Path, order: tuple[int, ...], size: int
) -> None:
    rows = [change("REFRESH", 1, name) for name in ("a", "a", "b", "b")]
    for number, row in enumerate(rows):
        row["_hs_sequence"] = f".{number:016d}"
    for start in range(0, 4, size):
        merge(open_history(tmp_path), start, *(rows[place] for place in order[start : start + size]))
    merge(open_history(tmp_path), 9, change("UPDATE", 1, "c", at=5))
    assert [row[:3] for row in content(tmp_path)[1]] == [
        (f".{0:016d}", f".{2:016d}", "a"),
        (f".{2:016d}", sequence(5), "b"),
        (sequence(5), None, "c"),
    ]


def test_history_does_nothing_when_the_version_was_applied_before(tmp_path: Path) -> None:
    merge(open_history(tmp_path), 4, change("INSERT", 1, "a", at=1))
    assert merge(open_history(tmp_path), 4, change("INSERT", 2, "b", at=2)) == RowCounts()
    assert set(content(tmp_path)) == {1}


def test_history_lets_a_late_column_flow_forward_until_a_newer_change_of_it(tmp_path: Path) -> None:
    target = open_history(tmp_path)
    merge(target, 0, change("INSERT", 1, "a", "1", "x", at=1), change("UPDATE", 1, name="b", at=7, present={"ID", "name"}))
    merge(target, 1, change("UPDATE", 1, note="y", total="8", at=8, present={"ID", "note", "total"}))
    merge(target, 2, change("UPDATE", 1, note="w", total="4", at=4, present={"ID", "note", "total"}))
    assert [row[2:5] for row in content(tmp_path)[1]] == [
        ("a", amount("1"), "x"),
        ("a", amount("4"), "w"),
        ("b", amount("4"), "w"),
        ("b", amount("8"), "y"),
    ]


def test_history_keeps_a_dropped_column_in_old_rows_and_carries_it_on(tmp_path: Path) -> None:
    target = open_history(tmp_path)
    target.prepare({**TYPES, "gone": "STRING"})
    merge(target, 0, change("INSERT", 1, "a", at=1))
    merge(target, 1, change("UPDATE", 1, "b", at=2))
    assert target.columns["gone"] == "STRING"
    assert [row[2] for row in content(tmp_path)[1]] == ["a", "b"]


def test_soft_deletion_opens_a_version_that_a_newer_upsert_closes(tmp_path: Path) -> None:
    target = open_history(tmp_path, soft=True)
    merge(target, 0, change("INSERT", 1, "a", at=1), change("DELETE", 1, at=2))
    assert content(tmp_path)[1][-1] == (sequence(2), None, "a", None, None, True)
    merge(target, 1, change("INSERT", 1, "b", at=3))
    assert content(tmp_path)[1][-2:] == [
        (sequence(2), sequence(3), "a", None, None, True),
        (sequence(3), None, "b", None, None, False),
    ]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_history_is_the_sorted_one_when_changes_are_shuffled_and_repeated_over_batches(
    tmp_path: Path, seed: int, soft: bool
) -> None:
    changes = random_history(seed, 45)
    rng = random.Random(seed)
    target = open_history(tmp_path, soft=soft)
    for version, batch in enumerate(deliver(changes, seed)):
        merge(target, version, *batch)
        if rng.random() < 0.3:
            target = open_history(tmp_path, soft=soft)
    assert content(tmp_path) == tell(changes, soft=soft)


@pytest.mark.parametrize("seed", range(3))
def test_open_versions_are_the_rows_of_type_1_when_both_are_shuffled_apart(tmp_path: Path, seed: int) -> None:
    changes = random_history(seed + 50, 40)
    history = open_history(tmp_path)
    for version, batch in enumerate(deliver(changes, seed)):
        merge(history, version, *batch)
    rows = Scd1Table(open_plain_engine(tmp_path / "one"), ["ID"], Tombstones(tmp_path / "tombstones", ["ID"]))
    rows.prepare(TYPES)
    for version, batch in enumerate(deliver(changes, seed + 1)):
        rows.merge(rows.collapse(table(*batch), METADATA), "test", version)
    found = open_plain_engine(tmp_path / "one").read(NAMES, "true").to_pylist()
    expected = {row["ID"]: (row["name"], row["total"], row["note"]) for row in found}
    assert current(content(tmp_path)) == expected == current(tell(changes))


KEY_VALUES: dict[str, tuple[Any, Any]] = {
    "STRING": ("it's \\ `a`", "b"),
    "DECIMAL(20,4)": (Decimal("-0.0001"), Decimal("12.5000")),
    "DATE": (date(1969, 12, 31), date(2024, 2, 29)),
    "TIMESTAMP": (datetime(1969, 12, 31, 23, 59, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, UTC)),
    "BINARY": (b"\x00\xff", b"'"),
    "BOOLEAN": (True, False),
    "INT": (-5, 5),
}


@pytest.mark.parametrize("kind", KEY_VALUES)
def test_history_keeps_keys_of_every_type_apart(tmp_path: Path, kind: str) -> None:
    def merge_rows(version: int, *rows: tuple[Any, Any, str | None, int]) -> RowCounts:
        target = Scd2Table(open_plain_engine(tmp_path / "t"), ["the.key", "part"])
        target.prepare({"the.key": kind, "part": "SMALLINT", "v": "STRING"})
        given = pa.table(
            {
                "the.key": pa.array([row[0] for row in rows], arrow_type(kind)),
                "part": pa.array([row[1] for row in rows], pa.int16()),
                "v": [row[2] for row in rows],
                "_hs_sequence": [sequence(row[3]) for row in rows],
                "_hs_delete": [row[2] is None for row in rows],
                "_hs_partial": [False] * len(rows),
                "_hs_columns": pa.nulls(len(rows), pa.binary()),
            }
        )
        return target.merge(Events(given, len(rows), lambda mask: frozenset(), []), "test", version)

    one, two = KEY_VALUES[kind]
    assert merge_rows(0, (one, 1, "a", 1), (one, 2, "b", 2), (two, 1, "c", 3)) == RowCounts(inserted=3)
    assert merge_rows(1, (one, 2, "b2", 9), (two, 1, None, 8)) == RowCounts(inserted=1, updated=2)
    assert merge_rows(2, (one, 2, "b1", 5), (one, 1, "a", 1)) == RowCounts(inserted=1, updated=1)
    rows = open_plain_engine(tmp_path / "t").read(["the.key", "part", "v", "_hs_current"], "true").to_pylist()
    found = sorted((row["part"], row["v"], row["the.key"], row["_hs_current"]) for row in rows)
    assert found == [(1, "a", one, True), (1, "c", two, False), (2, "b", one, False), (2, "b1", one, False), (2, "b2", one, True)]
