"""Loads that were given up: what changes since such a load come to, of rows that it did not contain."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.apply.moved_keys.key_log import KeyLog
from tests.support.replicate.change_tables import COLUMNS, METADATA, change, sequence
from tests.support.replicate.target_tables import Target
from tests.support.tiers import some_of

WITHOUT_LOBS = replace(METADATA, columns=COLUMNS[:3])
Unit = list[dict[str, Any]]


def load(key: int, name: str, *, logged_us: int) -> dict[str, Any]:
    return change("REFRESH", key, name, logged_us=logged_us)


def partial(name: str, *, at: int) -> dict[str, Any]:
    return change("UPDATE", 1, name, at=at, logged_us=at, present={"ID", "name"})


def loaded_without_row_1(directory: Path, **settings: Any) -> Target:
    """A table whose reload did not contain row 1, and is not over."""
    target = Target(directory, **settings)
    target.apply(change("INSERT", 1, "a", "1", "old", at=1, logged_us=1), change("INSERT", 2, "b", at=2, logged_us=2))
    target.apply(load(2, "loaded", logged_us=10))
    return target


def apply_settled(target: Target, units: list[Unit]) -> None:
    for unit in units:
        target.apply(*unit)
        target.tables.remove_vanished_rows()


@pytest.mark.parametrize("deletes", ["apply", "soft"])
def test_a_history_takes_no_columns_across_a_load_that_did_not_contain_the_row(tmp_path: Path, deletes: str) -> None:
    changes = [[partial("a2", at=20)], [partial("a3", at=30)], [change("INSERT", 3, "c", at=25, logged_us=25)]]
    for number, units in enumerate(some_of(itertools.permutations(changes))):
        target = loaded_without_row_1(tmp_path / str(number), scd_type=2, deletes=deletes)
        apply_settled(target, list(units))
        target.apply(change("UPDATE", 1, note="late", at=2, logged_us=2, present={"ID", "note"}))
        target.tables.remove_vanished_rows()
        found = [
            (row["_hs_valid_from"], row["name"], row["note"], row["_hs_current"]) for row in target.stored() if row["ID"] == 1
        ]
        assert sorted(found) == [
            (sequence(1), "a", "old", False),
            (sequence(2), "a", "late", False),
            (sequence(20), "a2", None, False),
            (sequence(30), "a3", None, True),
        ], units


def test_a_history_has_the_columns_of_a_row_that_its_load_brings_after_later_changes(tmp_path: Path) -> None:
    target = loaded_without_row_1(tmp_path, scd_type=2)
    apply_settled(
        target, [[partial("a2", at=20)], [change("UPDATE", 1, note="new", at=30, logged_us=30, present={"ID", "note"})]]
    )
    apply_settled(target, [[load(1, "brought late", logged_us=11)]])
    since = [(row["name"], row["note"]) for row in sorted(target.stored(), key=lambda row: row["_hs_valid_from"])]
    assert since == [("a", "old"), ("b", None), ("loaded", None), ("brought late", None), ("a2", None), ("a2", "new")]


@pytest.mark.parametrize("moves", [False, True])
def test_last_values_of_a_softly_deleted_row_do_not_reach_across_a_load_in_any_order(tmp_path: Path, moves: bool) -> None:
    deletion = change("DELETE", 1, at=30, logged_us=30)
    if moves:
        deletion = change("UPDATE", 9, "a4", at=30, old=1, logged_us=30, present={"ID", "name"})
    changes = [[partial("a2", at=20)], [deletion], [change("INSERT", 3, "c", at=25, logged_us=25)]]
    for number, units in enumerate(some_of(itertools.permutations(changes))):
        target = loaded_without_row_1(tmp_path / str(number), deletes="soft")
        apply_settled(target, list(units))
        found = next((row["name"], row["note"], row["_hs_deleted"]) for row in target.stored() if row["ID"] == 1)
        assert found == ("a2", None, True), units


def test_last_values_do_not_reach_across_the_first_of_two_loads_that_end_together(tmp_path: Path) -> None:
    units = [[partial("a2", at=20), load(2, "again", logged_us=31)], [change("INSERT", 3, "c", at=40, logged_us=40)]]
    together = loaded_without_row_1(tmp_path / "together", deletes="soft")
    together.apply(*itertools.chain(*units))
    together.tables.remove_vanished_rows()
    apart = loaded_without_row_1(tmp_path / "apart", deletes="soft")
    apply_settled(apart, units)
    for target in (together, apart):
        found = [(row["name"], row["note"], row["_hs_deleted"]) for row in target.stored() if row["ID"] == 1]
        assert found == [("a2", None, True)]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_last_values_of_a_row_whose_key_changed_are_the_same_when_rows_of_its_load_come_after_a_later_load(
    tmp_path: Path, place: int
) -> None:
    units = [
        [change("INSERT", 9, "z", at=1, logged_us=1), load(9, "first", logged_us=10), load(8, "first", logged_us=12)],
        [change("UPDATE", 2, "moved", at=20, logged_us=20, old=1, present={"ID", "name"})],
        [load(7, "second", logged_us=30)],
        [change("INSERT", 3, "c", at=40, logged_us=40)],
    ]
    units.insert(place, [change("REFRESH", 1, "a", "1", "of its load", logged_us=11)])
    target = Target(tmp_path, deletes="soft")
    for unit in units:
        target.apply(*unit)
        target.tables.remove_vanished_rows()
        target.maintain(may_forget=False)
    rows = {row["ID"]: (row["name"], row["note"]) for row in target.stored() if row["_hs_deleted"]}
    assert rows == {1: ("a", "of its load"), 2: ("moved", "of its load"), 8: ("first", None), 9: ("first", None)}
    assert len(KeyLog(target.tombstones, ["ID"])) > 0
    target.maintain(may_forget=True)
    assert len(KeyLog(target.tombstones, ["ID"])) == 0


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("ends_first", [True, False])
def test_an_update_that_changed_nothing_brings_no_row_back_but_ends_the_load(
    tmp_path: Path, scd_type: int, ends_first: bool
) -> None:
    target = Target(tmp_path, scd_type=scd_type)
    rows = [change("INSERT", 1, "a", "1", at=1, logged_us=1), change("INSERT", 2, "b", at=2, logged_us=2)]
    target.apply(*rows, load(2, "loaded", logged_us=10), metadata=WITHOUT_LOBS)
    idle = change("UPDATE", 1, "a", "1", at=20, logged_us=20, changed=b"\0")
    later = change("DELETE", 9, at=21, logged_us=21)
    for unit in [[later], [idle]] if ends_first else [[idle], [later]]:
        target.apply(*unit, metadata=WITHOUT_LOBS)
        target.tables.remove_vanished_rows()
        assert [row["ID"] for row in target.stored() if row.get("_hs_current", not row.get("_hs_deleted"))] == [2]
