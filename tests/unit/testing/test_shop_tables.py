"""Unit tests of headstream.testing.shop_tables."""

from __future__ import annotations

from headstream.testing import REPLICATE_TYPES, SHOP_TABLES


def test_shop_tables_have_every_type_in_every_form() -> None:
    assert len(SHOP_TABLES) >= 5
    assert len(REPLICATE_TYPES) == 21
    for form, logical_types in (("avro", True), ("avro", False), ("json", False)):
        types = {
            column.type
            for table in SHOP_TABLES
            if (table.form, table.has_logical_types) == (form, logical_types)
            for columns in table.versions
            for column in columns
        }
        assert types == REPLICATE_TYPES
    assert any(" " in column.name for table in SHOP_TABLES for column in table.versions[0])
    assert {len(table.key_columns) for table in SHOP_TABLES} == {1, 2}
