from __future__ import annotations

from typing import Any

from headstream.spark.replicate.changes import Collapsed, collapse
from headstream.spark.replicate.versions import ABSENT_VERSION, VERSION_CHARACTERS, moved_version, version_of
from tests.unit.spark.replicate.change_tables import KEYLESS, METADATA, NAMES, change, sequence, table


def rows(collapsed: Collapsed) -> dict[int, dict[str, Any]]:
    return {row["ID"]: row for row in collapsed.changes.to_pylist()}


def test_collapse_keeps_the_last_change_of_each_key_in_any_order() -> None:
    changes = [change("INSERT", 1, "a", at=1), change("UPDATE", 1, "b", at=2), change("INSERT", 2, "c", at=3)]
    for order in (changes, changes[::-1]):
        result = rows(collapse(table(*order), METADATA, NAMES))
        assert {key: row["name"] for key, row in result.items()} == {1: "b", 2: "c"}
        assert result[1]["_hs_sequence"] == sequence(2)
        assert not result[1]["_hs_delete"]


def test_collapse_orders_a_full_load_below_every_change() -> None:
    result = rows(collapse(table(change("UPDATE", 1, "new", at=1), change("REFRESH", 1, "loaded")), METADATA, NAMES))
    assert result[1]["name"] == "new"


def test_collapse_ends_deleted_when_the_delete_is_last_and_not_when_an_insert_follows() -> None:
    gone = rows(collapse(table(change("INSERT", 1, "a", at=1), change("DELETE", 1, at=2)), METADATA, NAMES))
    assert gone[1]["_hs_delete"]
    back = rows(collapse(table(change("DELETE", 1, at=2), change("INSERT", 1, "b", at=3)), METADATA, NAMES))
    assert not back[1]["_hs_delete"]
    assert back[1]["name"] == "b"


def test_collapse_prefers_the_upsert_when_a_delete_has_the_same_sequence() -> None:
    result = rows(collapse(table(change("INSERT", 1, "a", at=5), change("DELETE", 1, at=5)), METADATA, NAMES))
    assert not result[1]["_hs_delete"]


def test_collapse_splits_an_update_of_the_key_into_delete_and_insert() -> None:
    result = rows(collapse(table(change("UPDATE", 7, "moved", at=4, old=3)), METADATA, NAMES))
    assert result[3]["_hs_delete"]
    assert result[3]["_hs_sequence"] == sequence(4)
    assert result[7]["name"] == "moved"
    assert not result[7]["_hs_delete"]


def test_collapse_leaves_an_update_alone_when_the_key_before_is_the_same_or_not_told() -> None:
    result = rows(collapse(table(change("UPDATE", 1, "a", at=1, old=1), change("UPDATE", 2, "b", at=2)), METADATA, NAMES))
    assert set(result) == {1, 2}


def test_collapse_folds_partial_images_column_by_column() -> None:
    collapsed = collapse(
        table(
            change("UPDATE", 1, name="n5", at=5, present={"ID", "name"}),
            change("UPDATE", 1, total="3", at=3, present={"ID", "total"}),
        ),
        METADATA,
        NAMES,
    )
    row = rows(collapsed)[1]
    assert collapsed.partial
    assert (row["name"], str(row["total"]), row["note"]) == ("n5", "3.00", None)
    versions = [row["_hs_versions"][VERSION_CHARACTERS * index : VERSION_CHARACTERS * (index + 1)] for index in range(4)]
    assert versions == [version_of(sequence(5)), version_of(sequence(5)), version_of(sequence(3)), ABSENT_VERSION]


def test_collapse_gives_no_versions_when_a_whole_image_is_last() -> None:
    collapsed = collapse(
        table(change("UPDATE", 1, name="p", at=1, present={"ID", "name"}), change("UPDATE", 1, "w", "1", "x", at=2)),
        METADATA,
        NAMES,
    )
    assert not collapsed.partial
    assert rows(collapsed)[1]["name"] == "w"


def test_collapse_treats_a_null_outside_the_mask_as_absent_in_updates_alone() -> None:
    collapsed = collapse(table(change("INSERT", 1, "a", at=1, present={"ID", "name"})), METADATA, NAMES)
    assert not collapsed.partial


def test_collapse_splits_a_key_change_that_leaves_columns_out_and_takes_them_from_the_row_before() -> None:
    moved = change("UPDATE", 2, name="x", at=9, present={"ID", "name"}, old=1)
    before = change("INSERT", 1, "a", "5", "kept", at=1)
    collapsed = collapse(table(moved, before), METADATA, NAMES)
    result = rows(collapsed)
    assert result[1]["_hs_delete"]
    assert (result[2]["name"], str(result[2]["total"]), result[2]["note"]) == ("x", "5.00", "kept")
    versions = [result[2]["_hs_versions"][VERSION_CHARACTERS * index :][:VERSION_CHARACTERS] for index in range(4)]
    own, brought = version_of(sequence(9)), moved_version(version_of(sequence(1)), sequence(9))
    assert versions == [own, own, brought, brought]
    assert version_of(sequence(8)) < brought < own
    stored = {**before, "ID": 1, "_hs_versions": None}
    again = rows(collapse(table(moved), METADATA, NAMES, lambda keys: {(1,): stored}))
    assert again[2] == result[2]
    alone = rows(collapse(table(moved), METADATA, NAMES))[2]
    assert (alone["name"], alone["total"], alone["note"]) == ("x", None, None)


def test_collapse_takes_nothing_from_a_row_that_is_newer_than_the_key_change() -> None:
    moved = change("UPDATE", 2, name="x", at=9, present={"ID", "name"}, old=1)
    reused = {**change("INSERT", 1, "b", "7", "other", at=10), "_hs_versions": None}
    assert rows(collapse(table(moved), METADATA, NAMES, lambda keys: {(1,): reused}))[2]["note"] is None


def test_collapse_drops_an_update_that_changed_nothing() -> None:
    present = {"ID", "name", "total"}
    idle = change("UPDATE", 1, "a", "1", at=5, present=present, changed=b"\x00")
    assert collapse(table(idle), METADATA, NAMES).changes.num_rows == 0
    large_object = change("UPDATE", 1, "a", "1", "note", at=5, changed=b"\x00")  # no change mask speaks of a CLOB
    assert rows(collapse(table(large_object), METADATA, NAMES))[1]["note"] == "note"
    moved = change("UPDATE", 2, "a", "1", at=5, present=present, changed=b"\x00", old=1)
    assert set(rows(collapse(table(moved), METADATA, NAMES))) == {1, 2}


def test_collapse_appends_new_rows_of_a_table_without_a_key_and_refuses_what_must_find_a_row() -> None:
    changes = [
        change("REFRESH", 1, "a", at=1),
        change("REFRESH", 1, "a", at=2),
        change("INSERT", 1, "a", at=3),
        change("INSERT", 1, "a", at=3),
        change("UPDATE", 1, "b", at=4),
        change("DELETE", 1, at=5),
    ]
    collapsed = collapse(table(*changes), KEYLESS, NAMES)
    assert sorted(row["_hs_change"] for row in collapsed.changes.to_pylist()) == [".cdc/data.1.1", ".cdc/data.1.2", sequence(3)]
    assert [offset for _, _, offset, _ in collapsed.rejected] == [4, 5]
    assert all("no key" in reason and "`keys`" in reason for *_, reason in collapsed.rejected)
