"""Unit tests of headstream.replicate.schemas.explanation."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.replicate.codec import Change, ColumnMetadata, TableMetadata, data_message, encode_mask, metadata_message
from tests.unit.cli.replicate.test_inspection import CHANGE, COLUMNS, LINEAGE, METADATA, ROW, explain


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("with_schema_id", [True, False])
def test_metadata_is_explained_as_a_table(form: Any, with_schema_id: bool) -> None:
    explained = explain(metadata_message(METADATA, form=form, with_schema_id=with_schema_id))
    assert (explained["type"], explained["form"], explained["fault"]) == ("MD", form, None)
    assert (explained["table"], explained["schema_id"], explained["key"]) == ("SHOP.ORDERS", "A1" * 16, ["ID"])
    assert [(row["name"], row["ordinal"], row["table_type"]) for row in explained["columns"]] == [
        ("ID", 1, "INT"), ("NAME", 2, "STRING"), ("TOTAL", 4, "DECIMAL(10,2)"), ("DAY", 9, "DATE"), ("AT", 10, "TIMESTAMP"),
        ("PHOTO", 11, "BINARY"), ("RATE", 12, "DOUBLE"),
    ]  # fmt: skip
    assert explained["lineage"]["table_version"] == 3


def test_metadata_with_a_type_or_schema_of_no_use_is_broken_and_still_explained() -> None:
    odd = ColumnMetadata("X", 13, "BFILE")
    explained = explain(metadata_message(TableMetadata("B", LINEAGE, (*COLUMNS, odd), METADATA.data_schema)))
    assert "'BFILE'" in explained["fault"]
    assert explained["columns"][-1]["table_type"] is None
    explained = explain(metadata_message(TableMetadata("B", LINEAGE, COLUMNS, "{")))
    assert "the Avro schema is not JSON" in explained["fault"]
    assert (explained["type"], explained["schema_id"]) == ("MD", "B")


def test_metadata_without_a_key_is_noted() -> None:
    explained = explain(metadata_message(TableMetadata("B", LINEAGE, COLUMNS[1:], METADATA.data_schema)))
    assert "no primary key" in explained["note"]


def test_data_is_explained_by_the_metadata_before_it() -> None:
    explained = explain(metadata_message(METADATA), data_message(METADATA, CHANGE, headers={"h": "1"}))
    assert (explained["type"], explained["table"], explained["fault"], explained["note"]) == ("DT", "SHOP.ORDERS", None, None)
    assert explained["operation"] == "UPDATE"
    assert explained["changed"] == ["TOTAL", "DAY"]
    assert explained["present"] == ["ID", "TOTAL", "DAY", "AT", "PHOTO", "RATE", "#16"]
    assert explained["data"] == {
        "ID": 7, "NAME": None, "TOTAL": "12.50", "DAY": "2026-01-31", "AT": "2026-01-31T12:00:00", "PHOTO": "00FF", "RATE": "inf",
    }  # fmt: skip
    assert explained["before"]["ID"] == 7
    assert explained["envelope_headers"] == {"h": "1"}
    assert explained["transaction_last_event"] is True


def test_data_is_explained_by_metadata_known_from_elsewhere_and_not_by_another() -> None:
    message = data_message(METADATA, CHANGE)
    assert explain(message, known=METADATA)["table"] == "SHOP.ORDERS"
    other = TableMetadata("B2", LINEAGE, COLUMNS, METADATA.data_schema)
    explained = explain(message, known=other)
    assert "unknown schema" in explained["note"]
    assert explained["fault"] is None
    assert "data" not in explained


def test_masks_are_read_in_the_order_that_is_given_in_avro_alone() -> None:
    big = Change("UPDATE", ROW, None, change_mask=encode_mask([4, 9], order="big"))
    assert explain(data_message(METADATA, big), known=METADATA, mask_order="big")["changed"] == ["TOTAL", "DAY"]
    finite = Change("UPDATE", {**ROW, "RATE": 1.5}, None, change_mask=encode_mask([4, 9]))
    explained = explain(data_message(METADATA, finite, form="json"), known=METADATA, mask_order="big")
    assert explained["changed"] == ["TOTAL", "DAY"]


def test_masks_without_metadata_are_read_by_the_order_of_the_columns_and_that_is_noted() -> None:
    change = Change("UPDATE", {"ID": 7}, None, change_mask=encode_mask([1, 3]))
    explained = explain(data_message(METADATA, change, form="json"))
    assert explained["changed"] == ["ID", "TOTAL"]
    assert "order" in explained["note"]


def test_data_with_a_schema_of_its_own_needs_no_other() -> None:
    explained = explain(data_message(METADATA.data_schema, CHANGE, own_schema=METADATA.data_schema))
    assert explained["data"]["ID"] == 7
    assert explained["own_schema"] is True


def test_data_in_avro_that_names_no_schema_is_broken() -> None:
    assert "neither a schema nor a schema id" in explain(data_message(METADATA, CHANGE, schema_id=None))["fault"]


def test_data_that_its_schema_does_not_fit_is_broken_at_a_byte() -> None:
    explained = explain(data_message(METADATA, CHANGE)[:-1] + b"\x7f", known=METADATA)
    assert "at byte" in explained["fault"]
    assert explained["table"] == "SHOP.ORDERS"
