"""Metadata messages: whatever the table and its columns are called, what is written is read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from headstream.errors import DecodeError, SchemaError
from headstream.replicate import codec

COLUMNS = (
    codec.ColumnMetadata("ID", 1, "NUMERIC", 0, 38, 10, 2, False),
    codec.ColumnMetadata("Name", 2, "WSTRING", 40, 0, 0, 0, True),
    codec.ColumnMetadata("Region", 3, "STRING", 2, 0, 0, 1, False),
)
METADATA = codec.TableMetadata(
    "A" * 32, codec.Lineage("srv", "task", "dbo", "orders", 7, "2024-05-06T07:08:09.123"), COLUMNS, '{"type":"int"}'
)
NAMES = ["Lineage", "TableStructure", "TableColumns", "MetadataMessage", "lineage", "order date", "a-b", "1", "Größe", "", "a.b"]


def document(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(METADATA.to_json())
    made.update(changes)
    return made


def read_json(message: Any) -> codec.TableMetadata:
    return codec.decode_metadata(codec.Envelope("MD", message, form="json"))


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("with_schema_id", [True, False])
@pytest.mark.parametrize("headers", [None, {"a": "b"}])
def test_decode_metadata_reads_what_metadata_message_writes(form: Any, with_schema_id: bool, headers: Any) -> None:
    envelope = codec.decode_envelope(codec.metadata_message(METADATA, form=form, with_schema_id=with_schema_id, headers=headers))
    assert (envelope.type, envelope.form, envelope.headers) == ("MD", form, headers)
    assert envelope.schema_id == (METADATA.schema_id if with_schema_id else None)
    assert envelope.schema is not None
    assert codec.decode_metadata(envelope) == METADATA


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("name", NAMES)
def test_decode_metadata_is_not_confused_by_names(form: Any, name: str) -> None:
    columns = (codec.ColumnMetadata(name, 1, "INT4"), codec.ColumnMetadata("other", 2, "INT8", primary_key_position=1))
    metadata = dataclasses.replace(METADATA, columns=columns, lineage=codec.Lineage("", "", name, name or "t"))
    assert codec.decode_metadata(codec.decode_envelope(codec.metadata_message(metadata, form=form))) == metadata


def test_decode_metadata_of_a_table_without_columns() -> None:
    metadata = dataclasses.replace(METADATA, columns=())
    assert codec.decode_metadata(codec.decode_envelope(codec.metadata_message(metadata))) == metadata
    assert metadata.key_columns == ()


def test_key_columns_are_in_the_order_of_the_key() -> None:
    assert METADATA.key_columns == ("Region", "ID")


def test_to_json_is_one_document_that_from_json_reads() -> None:
    text = METADATA.to_json()
    assert isinstance(json.loads(text), dict)
    assert "\n" not in text
    assert codec.TableMetadata.from_json(text) == METADATA


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schemaId": 1}', "\ud800"])
def test_from_json_refuses_other_documents(text: str) -> None:
    with pytest.raises(SchemaError):
        codec.TableMetadata.from_json(text)


def test_decode_metadata_takes_fields_that_older_versions_leave_out_and_newer_ones_add() -> None:
    column = {"ordinal": 1, "type": "INT4", "collation": "x"}
    lineage = {"schema": "dbo", "table": "orders", "host": "h"}
    found = read_json(
        {
            "schemaId": "I",
            "lineage": lineage,
            "tableStructure": {"tableColumns": {"a": column}},
            "dataSchema": {"type": "int"},
            "x": 1,
        }
    )
    assert found == codec.TableMetadata(
        "I", codec.Lineage("", "", "dbo", "orders", 0, ""), (codec.ColumnMetadata("a", 1, "INT4"),), '{"type":"int"}'
    )
    assert found.columns[0].nullable


def test_decode_metadata_orders_columns_by_ordinal() -> None:
    columns = {"b": {"ordinal": 2, "type": "INT4"}, "a": {"ordinal": 1, "type": "INT4"}}
    assert [column.name for column in read_json(document(tableStructure={"tableColumns": columns})).columns] == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"schemaId": None}, "schemaId"),
        ({"schemaId": 5}, "schemaId"),
        ({"lineage": None}, "lineage .* must be an object, not NoneType"),
        ({"lineage": {"schema": "s"}}, "table of the metadata message must be of type str, not None"),
        ({"lineage": {"schema": "s", "table": ""}}, "the table name in the metadata message is empty"),
        ({"tableStructure": []}, "tableStructure .* must be an object, not list"),
        ({"tableStructure": {}}, "tableColumns .* must be an object, not NoneType"),
        ({"tableStructure": {"tableColumns": {"a": 1}}}, "'a' .* must be an object, not int"),
        (
            {"tableStructure": {"tableColumns": {"a": {"type": "INT4"}}}},
            "ordinal of the metadata message must be of type int, not None",
        ),
        (
            {"tableStructure": {"tableColumns": {"a": {"ordinal": True, "type": "INT4"}}}},
            "ordinal of the metadata message must be of type int, not True",
        ),
        ({"tableStructure": {"tableColumns": {"a": {"ordinal": 0, "type": "INT4"}}}}, "'a' has the ordinal 0"),
        (
            {"tableStructure": {"tableColumns": {"a": {"ordinal": 1, "type": "INT4"}, "b": {"ordinal": 1, "type": "INT4"}}}},
            "'b' has the ordinal 1",
        ),
        ({"dataSchema": None}, "dataSchema"),
        ({"dataSchema": ""}, "dataSchema"),
    ],
)
def test_decode_metadata_names_what_is_missing_or_wrong(changes: Any, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        read_json(document(**changes))


def test_decode_metadata_refuses_an_avro_message_whose_data_schema_does_not_parse() -> None:
    broken = dataclasses.replace(METADATA, data_schema='{"type": "recor')
    with pytest.raises(SchemaError, match="the Avro schema is not JSON"):
        codec.decode_metadata(codec.decode_envelope(codec.metadata_message(broken)))


def test_decode_metadata_refuses_what_is_no_metadata_message() -> None:
    with pytest.raises(SchemaError, match="type DT"):
        codec.decode_metadata(codec.Envelope("DT", {}, form="json"))
    with pytest.raises(SchemaError, match="has no messageSchema"):
        codec.decode_metadata(codec.Envelope("MD", b"", None, "ID", None))
    with pytest.raises(SchemaError, match="not JSON"):
        codec.decode_metadata(codec.Envelope("MD", b"", None, "ID", "{"))
    with pytest.raises(SchemaError, match="must be an object"):
        codec.decode_metadata(codec.Envelope("MD", b"\x02", None, "ID", '"int"'))
    envelope = codec.decode_envelope(codec.metadata_message(METADATA))
    assert isinstance(envelope.message, bytes)
    with pytest.raises(DecodeError, match="1 unexpected bytes"):
        codec.decode_metadata(dataclasses.replace(envelope, message=envelope.message + b"\0"))
