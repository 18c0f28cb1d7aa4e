from __future__ import annotations

from typing import Any

from headstream.spark.replicate.changes import Collapsed, collapse
from tests.unit.spark.replicate.change_tables import METADATA, NAMES, change, sequence, table


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
    versions = [row["_hs_versions"][35 * index : 35 * index + 35] for index in range(4)]
    assert versions == [sequence(5), sequence(5), sequence(3), " " * 35]


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


def test_collapse_rejects_a_key_change_that_leaves_columns_out_with_its_coordinates() -> None:
    collapsed = collapse(
        table(change("UPDATE", 2, name="x", at=9, present={"ID", "name"}, old=1), change("INSERT", 5, "ok", at=1)),
        METADATA,
        NAMES,
    )
    assert [(topic, partition, offset) for topic, partition, offset, _ in collapsed.rejected] == [("cdc/data", 1, 9)]
    assert set(rows(collapsed)) == {5}
