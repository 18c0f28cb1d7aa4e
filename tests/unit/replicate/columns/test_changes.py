from __future__ import annotations

from typing import Any

from headstream.replicate.columns.changes import Collapsed, collapse
from tests.support.replicate.change_tables import KEYLESS, METADATA, NAMES, change, sequence, table


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


def test_collapse_gives_all_changes_of_the_keys_that_a_change_of_key_connects() -> None:
    changes = [change("UPDATE", 7, "moved", at=4, old=3), change("INSERT", 3, "a", at=1), change("INSERT", 5, "b", at=2)]
    collapsed = collapse(table(*changes), METADATA, NAMES)
    assert set(rows(collapsed)) == {5}
    assert collapsed.events is not None
    assert [(row["ID"], row["_hs_old.ID"], row["_hs_moved"]) for row in collapsed.events.to_pylist()] == [
        (7, 3, True),
        (3, 3, False),
    ]


def test_collapse_leaves_an_update_alone_when_the_key_before_is_the_same_or_not_told() -> None:
    result = rows(collapse(table(change("UPDATE", 1, "a", at=1, old=1), change("UPDATE", 2, "b", at=2)), METADATA, NAMES))
    assert set(result) == {1, 2}


def test_collapse_gives_all_changes_of_a_key_that_has_a_partial_image() -> None:
    changes = [
        change("UPDATE", 1, name="n5", at=5, present={"ID", "name"}),
        change("INSERT", 1, "a", at=3),
        change("INSERT", 2, "b", at=4),
    ]
    collapsed = collapse(table(*changes), METADATA, NAMES)
    assert set(rows(collapsed)) == {2}
    assert collapsed.events is not None
    assert [(row["ID"], row["name"], row["_hs_partial"]) for row in collapsed.events.to_pylist()] == [
        (1, "n5", True),
        (1, "a", False),
    ]
    assert collapsed.present(b"\x03") == {"ID", "name"}


def test_collapse_treats_a_null_outside_the_mask_as_absent_in_updates_alone() -> None:
    collapsed = collapse(table(change("INSERT", 1, "a", at=1, present={"ID", "name"})), METADATA, NAMES)
    assert collapsed.events is None


def test_collapse_gives_all_updates_when_the_table_has_columns_that_the_schema_lacks() -> None:
    changes = [change("UPDATE", 1, "a", at=1), change("INSERT", 2, "b", at=2)]
    collapsed = collapse(table(*changes), METADATA, [*NAMES, "dropped"])
    assert collapsed.events is not None
    assert collapsed.events["ID"].to_pylist() == [1]
    assert set(rows(collapsed)) == {2}


def test_collapse_gives_what_comes_before_a_deletion_when_deletions_are_soft() -> None:
    changes = [change("INSERT", 1, "a", at=1), change("DELETE", 1, at=2), change("DELETE", 2, at=3)]
    collapsed = collapse(table(*changes), METADATA, NAMES, soft=True)
    assert collapsed.events is not None
    assert collapsed.events["ID"].to_pylist() == [1, 1]
    assert set(rows(collapsed)) == {2}


def test_collapse_names_the_highest_deletion_of_each_key_though_an_insert_follows() -> None:
    changes = [change("DELETE", 1, at=1), change("DELETE", 1, at=2), change("INSERT", 1, "a", at=3), change("DELETE", 2, at=4)]
    deletions = collapse(table(*changes), METADATA, NAMES).deletions
    assert deletions is not None
    assert {row["ID"]: row["_hs_sequence"] for row in deletions.to_pylist()} == {1: sequence(2), 2: sequence(4)}


def test_collapse_drops_an_update_that_changed_nothing() -> None:
    present = {"ID", "name", "total"}
    idle = change("UPDATE", 1, "a", "1", at=5, present=present, changed=b"\x00")
    assert collapse(table(idle), METADATA, NAMES).changes.num_rows == 0
    large_object = change("UPDATE", 1, "a", "1", "note", at=5, changed=b"\x00")  # no change mask speaks of a CLOB
    assert rows(collapse(table(large_object), METADATA, NAMES))[1]["note"] == "note"
    moved = change("UPDATE", 2, "a", "1", at=5, present=present, changed=b"\x00", old=1)
    events = collapse(table(moved), METADATA, NAMES).events
    assert events is not None
    assert events["_hs_old.ID"].to_pylist() == [1]


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
