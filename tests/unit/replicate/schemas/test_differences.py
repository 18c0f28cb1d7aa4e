"""Differences of two versions of a table."""

from __future__ import annotations

from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata
from headstream.replicate.schemas.differences import find_differences


def version(*columns: ColumnMetadata) -> TableMetadata:
    return TableMetadata("id", Lineage("server", "task", "shop", "kit"), columns, "{}")


ID = ColumnMetadata("id", 1, "INT8", primary_key_position=1, nullable=False)
NAME = ColumnMetadata("name", 2, "WSTRING", length=20)


def test_equal_versions_do_not_differ() -> None:
    assert find_differences(version(ID, NAME), version(ID, NAME)) == []


def test_added_removed_and_changed_columns_and_keys_are_named_with_their_types() -> None:
    wider = ColumnMetadata("name", 2, "WSTRING", length=40)
    price = ColumnMetadata("price", 3, "NUMERIC", precision=10, scale=2, primary_key_position=2, nullable=False)
    found = find_differences(version(ID, NAME, ColumnMetadata("old", 3, "INT4")), version(ID, wider, price))
    assert [tuple(one.values()) for one in found] == [
        ("removed", "old", "INT4", None),
        ("added", "price", None, "NUMERIC(10, 2) not null"),
        ("changed", "name", "WSTRING(20)", "WSTRING(40)"),
        ("key", None, "id", "id, price"),
    ]


def test_a_column_that_becomes_nullable_or_changes_its_type_has_changed() -> None:
    nullable = ColumnMetadata("id", 1, "INT8", primary_key_position=1)
    as_text = ColumnMetadata("id", 1, "STRING", primary_key_position=1, nullable=False)
    (one,) = find_differences(version(ID), version(nullable))
    assert (one["before"], one["after"]) == ("INT8 not null", "INT8")
    (other,) = find_differences(version(ID), version(as_text))
    assert (other["before"], other["after"]) == ("INT8 not null", "STRING not null")
