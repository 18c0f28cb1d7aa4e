"""Rows that another row replaces at their key before the change of key that took them away has come."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headstream.replicate.apply.moved_keys.stored_rows import StoredRow, displaced_keys
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.columns.row_merge import KeyEvent, KnownRow, Written
from headstream.replicate.columns.versions import load_floor, version_of
from tests.support.replicate.change_tables import METADATA, TYPES, change, sequence, table
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.tiers import some_of

PARTIAL = [change("INSERT", 7, "x", "1", "y", at=0), change("UPDATE", 7, "z", at=1, present={"ID", "name"})]
"""Of another row: from here on the table is known to have changes that leave columns out."""
FIRST = change("INSERT", 1, "first", "1", "one", at=1)
RENAMED = change("UPDATE", 1, "renamed", at=2, present={"ID", "name"})
MOVED = change("UPDATE", 9, None, "3", at=3, present={"ID", "total"}, old=1)
SECOND = change("INSERT", 1, "second", "4", "two", at=4)
EXPECTED = {1: ("second", Decimal("4.00"), "two"), 9: ("renamed", Decimal("3.00"), "one")}


def open_table(directory: Path, *, soft: bool = False) -> Scd1Table:
    target = Scd1Table(open_plain_engine(directory / "t"), ["ID"], Tombstones(directory / "tombstones", ["ID"]), soft=soft)
    target.prepare(TYPES)
    return target


def read_rows(directory: Path, *batches: list[dict[str, Any]], soft: bool = False) -> dict[int, tuple[Any, ...]]:
    """Merge micro-batches, by a table that is opened anew after the first, and return its rows but for that of PARTIAL."""
    target = open_table(directory, soft=soft)
    for number, batch in enumerate([PARTIAL, *batches]):
        if number == 1:
            target = open_table(directory, soft=soft)
        target.merge(target.collapse(table(*batch), METADATA), "test", number)
    stored = DeltaTable(str(directory / "t")).to_pyarrow_table().to_pylist()
    return {row["ID"]: (row["name"], row["total"], row["note"]) for row in stored if row["ID"] != 7}


@pytest.mark.parametrize("soft", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_merge_gives_a_moved_row_its_columns_when_another_row_was_inserted_at_its_key_first(tmp_path: Path, soft: bool) -> None:
    orders = list(itertools.permutations([FIRST, RENAMED, MOVED, SECOND]))
    for number, order in enumerate(some_of(orders)):
        assert read_rows(tmp_path / f"{number}", *([one] for one in order), soft=soft) == EXPECTED, order


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_merge_gives_a_moved_row_its_columns_when_the_row_and_the_next_one_come_in_one_batch(tmp_path: Path, cut: int) -> None:
    changes = [SECOND, RENAMED, FIRST, MOVED]
    assert read_rows(tmp_path, changes[:cut], changes[cut:]) == EXPECTED


def test_merge_writes_no_older_value_when_the_next_row_was_updated_before_any_insert_came(tmp_path: Path) -> None:
    updated = change("UPDATE", 1, "updated", "5", "two", at=5)
    expected = {1: ("updated", Decimal("5.00"), "two"), 9: EXPECTED[9]}
    for number, later in enumerate([(FIRST, MOVED, SECOND), (MOVED, FIRST, SECOND), (SECOND, FIRST, MOVED)]):
        rows = read_rows(tmp_path / f"{number}", [RENAMED], [updated], *([one] for one in later))
        assert rows == expected
    rows = read_rows(tmp_path / "at once", [RENAMED, updated], [FIRST], [MOVED], [SECOND])
    assert rows == expected


def test_merge_leaves_columns_null_when_an_update_has_replaced_them_before_the_insert_came(tmp_path: Path) -> None:
    updated = change("UPDATE", 1, "updated", "5", "two", at=5)
    rows = read_rows(tmp_path, [FIRST], [RENAMED], [updated], [MOVED], [SECOND])
    assert rows == {1: ("updated", Decimal("5.00"), "two"), 9: (None, Decimal("3.00"), None)}


@pytest.mark.parametrize("apart", [False, True])
def test_merge_leaves_columns_null_and_warns_when_the_row_was_replaced_before_the_first_partial_image(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, apart: bool
) -> None:
    target = open_table(tmp_path)
    for number, batch in enumerate([[FIRST], [SECOND], [MOVED]] if apart else [[FIRST, SECOND], [MOVED]]):
        target.merge(target.collapse(table(*batch), METADATA), "test", number)
    stored = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    rows = {row["ID"]: (row["name"], row["total"], row["note"]) for row in stored}
    assert rows == {1: EXPECTED[1], 9: (None, Decimal("3.00"), None)}
    [record] = [one for one in caplog.records if "are NULL" in one.message]
    assert "key (9,): columns name, note are NULL" in record.message
    target.merge(target.collapse(table(FIRST), METADATA), "test", 9)  # of the row at the old key, read again
    stored = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    rows = {row["ID"]: (row["name"], row["total"], row["note"]) for row in stored}
    assert rows == {1: EXPECTED[1], 9: ("first", Decimal("3.00"), "one")}


def test_merge_takes_the_newest_change_that_came_again_when_the_row_was_replaced_and_only_some_come_again(tmp_path: Path) -> None:
    updated = change("UPDATE", 1, "updated", "5", "two", at=5)
    first = [[FIRST], [RENAMED], [updated], [MOVED], [SECOND]]
    assert read_rows(tmp_path / "some", *first, [FIRST])[9] == ("first", Decimal("3.00"), "one")
    assert read_rows(tmp_path / "all", *first, [FIRST], [RENAMED])[9] == EXPECTED[9]


def swapped(first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    """Two changes of key as the events of one transaction."""
    return [{**first, "_hs_transaction": "T", "_hs_event": 1}, {**second, "_hs_transaction": "T", "_hs_event": 2}]


CROSSED = swapped(
    change("UPDATE", 2, at=5, old=1, present={"ID"}), change("UPDATE", 1, None, "6", at=6, old=2, present={"ID", "total"})
)
"""The rows of keys 1 and 2 swap their keys."""
OTHER = change("INSERT", 2, "other", "2", "its own", at=2)
REPLACED = {
    "deleted": [change("DELETE", 2, at=8)],
    "updated": [change("UPDATE", 2, "first", "8", "eight", at=8)],
    "inserted": [change("DELETE", 2, at=7), change("INSERT", 2, "third", "8", "eight", at=8)],
}
LOST = {1: (None, Decimal("6.00"), None)}
NEXT = {"deleted": {}, "updated": {2: ("first", Decimal("8.00"), "eight")}, "inserted": {2: ("third", Decimal("8.00"), "eight")}}


@pytest.mark.parametrize(
    ("by", "crossed"),
    [
        ("deleted", [CROSSED]),
        ("deleted", [CROSSED[:1], CROSSED[1:]]),
        ("updated", [CROSSED]),
        ("inserted", [CROSSED[1:], CROSSED[:1]]),
    ],
)
def test_merge_takes_no_value_of_the_row_that_crosses_another_when_that_one_was_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, by: str, crossed: list[list[dict[str, Any]]]
) -> None:
    batches = [[FIRST], [OTHER], *([one] for one in REPLACED[by]), *crossed]
    assert read_rows(tmp_path / "lost", *batches) == LOST | NEXT[by]
    [record] = [one for one in caplog.records if "are NULL" in one.message]
    assert f"key (1,): columns name, note are NULL because change {sequence(6)} changed the key" in record.message
    again = read_rows(tmp_path / "again", *batches, [OTHER])
    assert again == {1: ("other", Decimal("6.00"), "its own")} | NEXT[by]


def test_merge_takes_no_value_of_the_row_that_crosses_another_when_that_one_was_deleted_in_its_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = read_rows(tmp_path, [FIRST], [OTHER, *REPLACED["deleted"]], CROSSED)
    assert rows == LOST
    [record] = [one for one in caplog.records if "are NULL" in one.message]
    assert f"key (1,): columns name, note are NULL because change {sequence(6)} changed the key" in record.message


def test_merge_knows_a_softly_deleted_row_that_another_one_crosses(tmp_path: Path) -> None:
    batches = [[FIRST], [OTHER], REPLACED["deleted"], CROSSED]
    assert read_rows(tmp_path, *batches, soft=True)[1] == ("other", Decimal("6.00"), "its own")


@pytest.mark.parametrize("soft", [False, True])
def test_merge_gives_rows_that_cross_their_columns_whatever_comes_first(tmp_path: Path, soft: bool) -> None:
    changes = [[FIRST], [OTHER], CROSSED, REPLACED["updated"]]
    expected = {1: ("other", Decimal("6.00"), "its own"), 2: ("first", Decimal("8.00"), "eight")}
    orders = [order for order in itertools.permutations(range(4)) if order.index(3) < order.index(1) or order[-1] == 3]
    for number, order in enumerate(some_of(orders[soft::2])):  # elsewhere the update can have replaced the row that it crosses
        assert read_rows(tmp_path / f"{number}", *(changes[place] for place in order), soft=soft) == expected, order


def test_merge_leaves_columns_null_when_a_row_there_and_back_cannot_be_told_from_one_that_was_replaced(tmp_path: Path) -> None:
    back = swapped(change("UPDATE", 2, at=5, old=1, present={"ID"}), change("UPDATE", 1, at=6, old=2, present={"ID"}))
    later = change("INSERT", 2, "third", "8", "eight", at=8)
    third = {2: ("third", Decimal("8.00"), "eight")}
    assert read_rows(tmp_path / "in order", [FIRST], back, [later]) == {1: ("first", Decimal("1.00"), "one")} | third
    assert read_rows(tmp_path / "late", [FIRST], [later], back) == {1: (None, None, None)} | third


def test_upserts_gives_a_change_of_key_the_columns_that_are_older_than_it() -> None:
    row = KnownRow(Written(version_of(sequence(1)), 0), {Written(version_of(sequence(5)), 0): frozenset({"note"})})
    events = StoredRow(sequence(5), row, False, "", 0).upserts((1,), frozenset({"name", "total", "note"}))
    assert {event.sequence: set(event.row.columns) for event in events} == {sequence(1): {"name", "total"}, sequence(5): {"note"}}


def test_displaced_keys_passes_over_what_needs_no_other_change() -> None:
    whole = {at: KnownRow(Written(version_of(sequence(at)), 0)) for at in (1, 2, 3)}
    stored = {(1,): StoredRow(sequence(1), whole[1], False, "", 0)}
    update, insert = KeyEvent("upsert", (1,), sequence(3), whole[3]), KeyEvent("upsert", (1,), sequence(3), whole[3])
    assert displaced_keys([update], set(), stored, {}) == set()
    assert displaced_keys([insert], {((1,), sequence(3))}, {}, {}) == set()
    assert displaced_keys([insert], {((1,), sequence(3))}, stored, {(1,): sequence(2)}) == set()
    assert displaced_keys([insert, KeyEvent("delete", (1,), sequence(2))], {((1,), sequence(3))}, stored, {}) == set()
    assert displaced_keys([insert], {((1,), sequence(3))}, stored, {}) == {(1,)}


def test_displaced_keys_passes_over_rows_of_one_load_that_are_logged_again() -> None:
    floor = sequence(1)
    first, again = f"{floor}.0000000000000005", f"{floor}.0000000000000009"
    assert load_floor(first) == floor
    stored = {(1,): StoredRow(again, KnownRow(Written(version_of(again), 0)), False, "", 0)}
    assert displaced_keys([KeyEvent("upsert", (1,), first, KnownRow(Written(version_of(first), 0)))], set(), stored, {}) == set()


def test_a_table_of_whole_images_keeps_no_changes_when_rows_come_late(tmp_path: Path) -> None:
    target = open_table(tmp_path, soft=True)
    for number, one in enumerate([SECOND, FIRST, change("DELETE", 1, at=5), change("UPDATE", 1, "late", at=2)]):
        target.merge(target.collapse(table(one), METADATA), "test", number)
    assert not (tmp_path / "tombstones").exists()
