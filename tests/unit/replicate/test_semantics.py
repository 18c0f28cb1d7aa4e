"""What a table comes to in the cases that pipelines get wrong, where no other file has them; see docs/proof.md."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from tests.support.replicate.change_tables import change
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table
from tests.support.replicate.target_tables import Target

ORDERS = ("shop", "orders")


def test_a_newer_upsert_ends_a_deletion_and_older_changes_do_not_end_it(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1), change("DELETE", 1, at=10))
    target.apply(change("INSERT", 1, "late", at=5))
    assert target.names() == {}
    target.apply(change("INSERT", 1, "again", at=12))
    target.apply(change("DELETE", 1, at=10), change("UPDATE", 1, "late", at=11))
    assert target.names() == {1: "again"}


def test_a_deletion_that_comes_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1))
    assert target.apply(change("DELETE", 1, at=5)).counts[ORDERS] == RowCounts(deleted=1)
    assert target.apply(change("DELETE", 1, at=5)).counts[ORDERS] == RowCounts()
    assert target.apply(change("DELETE", 9, at=5), change("DELETE", 9, at=5)).counts[ORDERS] == RowCounts()


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("first", ["a", "b"])
def test_of_two_changes_with_one_sequence_the_first_is_the_one(tmp_path: Path, scd_type: int, apart: bool, first: str) -> None:
    target = Target(tmp_path, scd_type=scd_type)
    changes = [change("INSERT", 1, first, at=5), change("INSERT", 1, "c", at=5)]
    for unit in [[one] for one in changes] if apart else [changes]:
        target.apply(*unit)
    assert [(row["ID"], row["name"]) for row in target.stored()] == [(1, first)]


NAMES = ("a.b", "c`d", 'e"f', "g\\h", "i'j", "Größe")


@pytest.mark.parametrize("scd_type", [1, 2])
def test_keys_of_several_columns_may_have_any_names(tmp_path: Path, scd_type: Any) -> None:
    keys = [ColumnMetadata(name, place, "WSTRING", 20, primary_key_position=place) for place, name in enumerate(NAMES, 1)]
    columns = (*keys, ColumnMetadata("v.a`l", len(NAMES) + 1, "INT4"))
    table = make_table(*columns)
    work = Work(tmp_path, rules=TableRules(defaults=TableSettings(scd_type=scd_type)))

    def row(number: int, value: int) -> dict[str, Any]:
        return {**{name: f"'{number}\\\"`{name}" for name in NAMES}, "v.a`l": value}

    def send(*changes: Any) -> None:
        work.send(*(data_message(table, made) for made in changes))

    work.send(metadata_message(table))
    send(*(make_change(number, data=row(number, 0)) for number in range(3)))
    send(make_change(7, "UPDATE", data=row(1, 1)), make_change(8, "DELETE", data=row(2, 0)))
    send(make_change(6, "UPDATE", data=row(1, 9)), make_change(5, "UPDATE", data=row(2, 9)))
    found = [found for found in work.rows("shop", "kit") if found.get("_hs_current", True)]
    assert sorted((row[NAMES[0]], row["v.a`l"]) for row in found) == [("'0\\\"`a.b", 0), ("'1\\\"`a.b", 1)]
    work.close()


def test_a_column_that_is_gone_at_the_source_stays_in_old_rows_and_is_null_in_new_ones(tmp_path: Path) -> None:
    older, newer = make_table(), make_table(COLUMNS[0], schema_id="F" * 32, table_version=2)
    work = Work(tmp_path)
    work.send(metadata_message(older), data_message(older, make_change(1)))
    work.send(metadata_message(newer), data_message(newer, make_change(2, data={"id": 2})))
    work.send(data_message(newer, make_change(3, "UPDATE", data={"id": 1})))
    assert {row["id"]: row["name"] for row in work.rows("shop", "kit")} == {1: "n1", 2: None}
    work.close()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_a_table_of_another_pipeline_beside_it_is_not_touched(tmp_path: Path, order: tuple[int, ...]) -> None:
    works = [Work(tmp_path / name) for name in ("one", "two")]
    table = make_table()
    messages = [metadata_message(table), data_message(table, make_change(1)), data_message(table, make_change(2))]
    works[0].send(*(messages[place] for place in order))
    works[1].send(messages[0], messages[1])
    assert [len(work.rows("shop", "kit")) for work in works] == [2, 1]
    for work in works:
        work.close()


def moved(new: int, old: int, total: str, *, at: int) -> dict[str, Any]:
    """A change of key that carries one column beside it."""
    return change("UPDATE", new, None, total, at=at, present={"ID", "total"}, old=old)


def test_a_row_that_takes_a_deleted_ones_key_keeps_the_columns_it_brings(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "brought", "1", at=1), change("INSERT", 2, "stale", "2", at=2))
    target.apply(moved(2, 1, "4", at=4))
    late = change("UPDATE", 2, None, "5", at=5, present={"ID", "total"})
    target.apply(change("DELETE", 2, at=3), late)
    assert {key: row[0] for key, row in target.rows().items()} == {2: "brought"}


def test_late_changes_of_both_keys_reach_a_row_whose_key_changed(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(moved(3, 2, "4", at=4))
    target.apply(moved(2, 1, "2", at=2))
    target.apply(change("INSERT", 1, "first", "1", "note", at=1), change("UPDATE", 2, "second", at=3, present={"ID", "name"}))
    assert {key: (row[0], row[2]) for key, row in target.rows().items()} == {3: ("second", "note")}
