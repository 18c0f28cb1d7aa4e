"""Unit tests of headstream.replicate.apply.type1.resolve."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from deltalake import DeltaTable

from tests.support.replicate.change_tables import NAMES, TYPES, change, sequence
from tests.unit.replicate.apply.type1.test_merge import content, merge, open_table


def test_merge_keeps_absent_columns_when_a_partial_update_comes(tmp_path: Path) -> None:
    target = open_table(tmp_path)
    merge(target, 0, change("INSERT", 1, "a", "1", "keep", at=1))
    merge(target, 1, change("UPDATE", 1, name="b", at=2, present={"ID", "name"}))
    assert content(tmp_path) == {1: ("b", Decimal("1.00"), "keep")}


def test_merge_lets_an_older_whole_image_fill_what_a_newer_partial_one_left_out(tmp_path: Path) -> None:
    merge(open_table(tmp_path), 0, change("UPDATE", 1, name="new", at=5, present={"ID", "name"}))
    again = open_table(tmp_path)  # that columns have versions is known from the table itself
    merge(again, 1, change("INSERT", 1, "old", "7", "n", at=2))
    assert content(tmp_path) == {1: ("new", Decimal("7.00"), "n")}


def test_versions_follow_the_table_when_a_column_is_added_between_partial_updates(tmp_path: Path) -> None:
    target = open_table(tmp_path)
    target.prepare({name: TYPES[name] for name in NAMES[:3]})
    target.prepare(TYPES)
    merge(target, 0, change("UPDATE", 1, note="n9", at=9, present={"ID", "note"}))
    merge(target, 1, change("UPDATE", 1, note="n3", name="x", at=3, present={"ID", "name", "note"}))
    assert content(tmp_path) == {1: ("x", None, "n9")}
    stored = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()[0]
    assert stored["_hs_sequence"] == sequence(9)
