"""Unit tests of headstream.replicate.schemas.schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headstream.errors import SchemaError
from headstream.replicate.codec import ColumnMetadata
from headstream.replicate.schemas.schemas import table_schema
from headstream.replicate.settings.table_settings import TableSettings
from tests.support.replicate.replicate_messages import COLUMNS, make_table


def test_table_schema_suffixes_columns_that_differ_only_in_case() -> None:
    columns = (COLUMNS[0], *(ColumnMetadata(name, at, "INT4") for at, name in enumerate(("Id", "ID", "a.b", 'q"`'), start=2)))
    schema = table_schema(make_table(*columns))
    assert list(schema.types) == ["id", "Id_2", "ID_3", "a.b", 'q"`']
    assert schema.fields["ID_3"] == "ID"
    assert ["'Id_2'" in finding or "'ID_3'" in finding for finding in schema.findings] == [True, True]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"keys": ("nothing",)}, "'nothing' is not in the table"),
        ({"rename_columns": {"name": "ID"}}, "cannot be renamed to 'ID'"),
    ],
)
def test_table_schema_refuses_settings_that_the_table_cannot_have(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        table_schema(make_table(), TableSettings(**settings))


def test_table_schema_finds_fields_whose_names_avro_made_legal() -> None:
    table = make_table(COLUMNS[0], ColumnMetadata("order date", 2, "DATE"))
    schema = table_schema(replace(table, data_schema=table.data_schema.replace("order date", "order_date")))
    assert schema.fields == {"id": "id", "order date": "order_date"}


def test_table_schema_refuses_rows_with_a_column_that_the_metadata_has_not() -> None:
    table = make_table(*COLUMNS, ColumnMetadata("more", 3, "INT4"))
    with pytest.raises(SchemaError, match="'more'"):
        table_schema(replace(table, columns=COLUMNS))
