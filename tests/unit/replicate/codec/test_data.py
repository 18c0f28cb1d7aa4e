"""Data messages: changes that are written are read, in Avro and JSON, with the schema that counts."""

from __future__ import annotations

import dataclasses
import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from headstream.errors import DecodeError, InvalidInputError, SchemaError
from headstream.replicate.codec import (
    Change,
    ColumnMetadata,
    Envelope,
    Lineage,
    TableMetadata,
    data_message,
    data_schema,
    decode_data,
    decode_envelope,
)
from tests.support.replicate.replicate_rows import COLUMNS, ROW

SCHEMA = data_schema(COLUMNS, logical_types=True)
CHANGE = Change(
    "UPDATE",
    {**ROW, "uint8": Decimal(2**64 - 1)},
    {**dict.fromkeys(ROW), "int4": 5},
    "20230321213416580000000000000000017",
    "2023-03-21T21:34:19.511",
    "000dac8c:000fc98a:0002",
    "0000000066DA0202A903000000000000",
    b"\x04\x00\x00",
    b"\xff\xff\x1f",
    3,
    True,
)
TEXTS = {
    "uint8": "18446744073709551615",
    "numeric": "-1234567890123456.7890",
    "date": "1600-02-29",
    "time": "23:59:59.999000",
    "datetime": "2024-05-06 07:08:09.123456",
}


def rows(schema: str = SCHEMA, **options: Any) -> Envelope:
    return decode_envelope(data_message(schema, CHANGE, **options))


def test_decode_data_reads_what_data_message_writes() -> None:
    assert decode_data(rows(), SCHEMA) == CHANGE


def test_decode_data_gives_texts_where_logical_types_are_off() -> None:
    schema = data_schema(COLUMNS, logical_types=False)
    found = decode_data(rows(schema), schema)
    assert found.data == {**CHANGE.data, **TEXTS}


@pytest.mark.parametrize("logical_types", [True, False])
def test_decode_data_gives_json_as_it_stands(logical_types: bool) -> None:
    envelope = rows(data_schema(COLUMNS, logical_types=logical_types), form="json")
    found = decode_data(envelope)
    numbers = {"real8": Decimal("-0.1")}
    assert found.data == {**CHANGE.data, **TEXTS, **numbers, "bytes": "00FF", "blob": bytes(range(256)).hex().upper()}
    assert dataclasses.replace(found, data=CHANGE.data) == CHANGE
    assert isinstance(envelope.message, dict)
    assert envelope.message["headers"]["changeMask"] == "000004"
    assert envelope.message["headers"]["columnMask"] == "1FFFFF"


def test_decode_data_reads_a_message_by_its_own_schema_first() -> None:
    own = data_schema([ColumnMetadata("a", 1, "INT4")], logical_types=True)
    change = Change("INSERT", {"a": 1})
    envelope = decode_envelope(data_message(SCHEMA, change, own_schema=own))
    assert envelope.schema == own
    assert decode_data(envelope, SCHEMA) == decode_data(envelope) == change


def test_data_message_names_the_schema_of_its_table_unless_told() -> None:
    metadata = TableMetadata("I" * 32, Lineage("", "", "s", "t"), tuple(COLUMNS), SCHEMA)
    assert decode_envelope(data_message(metadata, CHANGE)).schema_id == "I" * 32
    assert decode_envelope(data_message(metadata, CHANGE, schema_id=None)).schema_id is None
    assert decode_envelope(data_message(metadata, CHANGE, schema_id="")).schema_id == ""
    assert decode_envelope(data_message(SCHEMA, CHANGE)).schema_id is None
    assert decode_envelope(data_message(SCHEMA, CHANGE, schema_id="other", headers={"a": "b"})).headers == {"a": "b"}


@pytest.mark.parametrize("form", ["avro", "json"])
def test_data_message_leaves_out_header_fields_that_the_schema_has_not(form: Any) -> None:
    schema = data_schema(COLUMNS, logical_types=True, transaction_fields=False)
    found = decode_data(rows(schema, form=form), schema)
    expected = None if form == "avro" else 3
    assert (found.transaction_event_counter, found.change_sequence) == (expected, CHANGE.change_sequence)


def test_data_message_takes_columns_that_are_not_given_as_null() -> None:
    found = decode_data(decode_envelope(data_message(SCHEMA, Change("DELETE", {"int4": 1}))), SCHEMA)
    assert found.data == {**dict.fromkeys(ROW), "int4": 1}
    assert (found.before, found.timestamp, found.change_mask) == (None, "", None)


def test_data_message_writes_an_external_schema_id_where_there_is_a_field() -> None:
    schema = json.loads(SCHEMA)
    schema["fields"][2]["type"]["fields"].append({"name": "externalSchemaId", "type": ["null", "string"]})
    change = dataclasses.replace(CHANGE, external_schema_id="42")
    assert decode_data(decode_envelope(data_message(json.dumps(schema), change)), json.dumps(schema)) == change


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"nothing": 1}, "nothing"),
        ({"int4": "1"}, "int4"),
        ({"int4": 2**31}, "int4"),
        ({"numeric": 1.5}, "numeric"),
        ({"string": "\ud800"}, "surrogate|UTF-8"),
        ({"datetime": datetime.date(2024, 1, 1)}, "datetime"),
    ],
)
def test_data_message_refuses_values_that_do_not_fit_their_column(form: Any, data: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        data_message(SCHEMA, Change("INSERT", data), form=form)


def test_data_message_refuses_what_only_json_cannot_say() -> None:
    with pytest.raises(InvalidInputError, match="real8"):
        data_message(SCHEMA, Change("INSERT", {"real8": float("nan")}), form="json")
    with pytest.raises(InvalidInputError, match="operation"):
        data_message(SCHEMA, Change("UPSERT", {}))


@pytest.mark.parametrize("schema", ['"int"', '{"type": "record", "name": "R", "fields": []}'])
def test_data_messages_need_a_schema_of_data_messages(schema: str) -> None:
    with pytest.raises(SchemaError, match="data"):
        data_message(schema, CHANGE)
    with pytest.raises(SchemaError, match="data"):
        decode_data(rows(), schema)


def test_decode_data_refuses_what_is_no_data_message() -> None:
    with pytest.raises(SchemaError, match="type MD"):
        decode_data(Envelope("MD", {}, form="json"))
    with pytest.raises(SchemaError, match="no schema to decode"):
        decode_data(rows())
    message = rows().message
    assert isinstance(message, bytes)
    with pytest.raises(DecodeError, match="1 unexpected bytes"):
        decode_data(Envelope("DT", message + b"\0"), SCHEMA)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"data": None}, "data of a data message must be a record, not NoneType"),
        ({"headers": []}, "headers of a data message must be a record, not list"),
        ({"beforeData": 1}, "beforeData of a data message must be a record, not int"),
        ({"headers": {}}, "operation"),
        ({"headers": {"operation": "UPSERT"}}, "'UPSERT'"),
        ({"headers": {"operation": ["UPDATE"]}}, "operation"),
        ({"headers": {"operation": "UPDATE", "changeSequence": 5}}, "changeSequence"),
        ({"headers": {"operation": "UPDATE", "changeMask": 5}}, "changeMask"),
        ({"headers": {"operation": "UPDATE", "changeMask": "xy"}}, "hex digit"),
        ({"headers": {"operation": "UPDATE", "changeSequence": ["5"]}}, "changeSequence"),
    ],
)
def test_decode_data_names_what_is_wrong_in_json(changes: dict[str, Any], what: str) -> None:
    message = {"data": {}, "beforeData": None, "headers": {"operation": "INSERT"}}
    assert decode_data(Envelope("DT", message, form="json")) == Change("INSERT")
    with pytest.raises(DecodeError, match=what):
        decode_data(Envelope("DT", {**message, **changes}, form="json"))


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"timestamp": 1700000000123}, {"timestamp": "1700000000123"}),
        ({"timestamp": Decimal("1700000000.123")}, {"timestamp": "1700000000.123"}),
        ({"timestamp": True, "streamPosition": [1], "transactionId": {}}, {}),
        ({"streamPosition": 7, "transactionId": 12}, {"stream_position": "7", "transaction_id": "12"}),
        ({"changeSequence": int("2" * 35)}, {"change_sequence": "2" * 35}),
        (
            {"transactionEventCounter": "3", "transactionLastEvent": "True"},
            {"transaction_event_counter": 3, "transaction_last_event": True},
        ),
        (
            {"transactionEventCounter": Decimal("3"), "transactionLastEvent": 0},
            {"transaction_event_counter": 3, "transaction_last_event": False},
        ),
        ({"transactionEventCounter": True, "transactionLastEvent": "maybe", "externalSchemaId": 4}, {"external_schema_id": "4"}),
        ({"transactionEventCounter": 1 << 63}, {}),
    ],
)
def test_decode_data_reads_headers_of_other_types_when_no_table_needs_them(
    headers: dict[str, Any], found: dict[str, Any]
) -> None:
    message = {"data": {}, "beforeData": None, "headers": {"operation": "UPDATE", **headers}}
    assert decode_data(Envelope("DT", message, form="json")) == Change("UPDATE", **found)


def test_decode_data_takes_a_deleted_row_that_stands_in_before_data_alone() -> None:
    headers = {"operation": "DELETE", "changeSequence": "1"}
    change = decode_data(Envelope("DT", {"data": None, "beforeData": {"ID": 7}, "headers": headers}, form="json"))
    assert (change.data, change.before) == ({}, {"ID": 7})
    with pytest.raises(DecodeError, match="data of a data message must be a record, not NoneType"):
        decode_data(Envelope("DT", {"data": None, "beforeData": None, "headers": headers}, form="json"))
