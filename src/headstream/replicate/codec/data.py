"""Data messages: one change of one row, and the Avro schema that Replicate publishes for a table's changes.

DataRecord   data {<column>: null or value} | beforeData null or {<column>: null or value} | headers {...}
headers      operation enum INSERT UPDATE DELETE REFRESH | changeSequence timestamp streamPosition transactionId
             strings (empty in a full load) | changeMask columnMask null or bytes (JSON: hex digits) | in later
             versions transactionEventCounter null or long, transactionLastEvent null or boolean,
             externalSchemaId null or string. Fields are identified by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Final

from headstream.core.codec.json_text import encode_json
from headstream.errors import DecodeError, InvalidInputError, SchemaError
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.schema import AvroType, parse_schema
from headstream.replicate.codec.avro.values import decode_value, encode_value, to_text
from headstream.replicate.codec.envelope import Envelope, Form, encode_envelope
from headstream.replicate.codec.masks import mask_from_hex, mask_to_hex
from headstream.replicate.codec.metadata import ColumnMetadata, TableMetadata
from headstream.replicate.codec.types import avro_type

OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "REFRESH")
_TEXTS: Final = (
    ("changeSequence", "change_sequence"),
    ("timestamp", "timestamp"),
    ("streamPosition", "stream_position"),
    ("transactionId", "transaction_id"),
)
_MASKS: Final = (("changeMask", "change_mask"), ("columnMask", "column_mask"))
_OTHERS: Final = (
    ("transactionEventCounter", "transaction_event_counter"),
    ("transactionLastEvent", "transaction_last_event"),
    ("externalSchemaId", "external_schema_id"),
)
_SEQUENCE_DIGITS: Final = 35
_LOGICALS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row.

    Args:
        data: The row after the change, or its known columns.
        before: The row before the change, or None.
        change_sequence: 35 digits that order the changes of a task, compared as strings; empty in a full load.
        timestamp: Time of the change at the source, in ISO format, or "".
        stream_position: The position in the source's own log, or "".
        transaction_id: Id of the source's transaction, or "".
        change_mask: The columns that changed, as little-endian bits by ordinal, or None.
        column_mask: The columns in the message, as little-endian bits by ordinal, or None; a null in any other column is ignored.
        transaction_event_counter: Number of the event in its transaction, from 1, or None.
        transaction_last_event: Whether the event is the last of its transaction, or None.
        external_schema_id: The schema's id in another registry, or None.
    """

    operation: str
    data: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    change_sequence: str = ""
    timestamp: str = ""
    stream_position: str = ""
    transaction_id: str = ""
    change_mask: bytes | None = None
    column_mask: bytes | None = None
    transaction_event_counter: int | None = None
    transaction_last_event: bool | None = None
    external_schema_id: str | None = None


def data_schema(columns: Sequence[ColumnMetadata], *, logical_types: bool, transaction_fields: bool = True) -> str:
    """Return the Avro schema that Replicate publishes for the data messages of a table.

    Args:
        logical_types: Whether the endpoint's setting "Use logical data types" is on.
        transaction_fields: Whether the headers have transactionEventCounter and transactionLastEvent, as in later versions.

    Raises:
        SchemaError: a column has an unknown type.
    """
    data = [_nullable(column.name, avro_type(column, logical_types=logical_types)) for column in columns]
    headers: list[dict[str, Any]] = [{"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": OPERATIONS}}]
    headers += [{"name": name, "type": {"type": "string"}} for name, _ in _TEXTS]
    headers += [_nullable(name, {"type": "bytes"}) for name, _ in _MASKS]
    if transaction_fields:
        headers.append(_nullable("transactionEventCounter", {"type": "long"}))
        headers.append(_nullable("transactionLastEvent", {"type": "boolean"}))
    fields = [
        {"name": "data", "type": {"type": "record", "name": "Data", "fields": data}},
        {"name": "beforeData", "type": [{"type": "null"}, "Data"]},
        {"name": "headers", "type": {"type": "record", "name": "Headers", "fields": headers}},
    ]
    return encode_json({"type": "record", "name": "DataRecord", "fields": fields}).decode()


def data_message(
    metadata: TableMetadata | str,
    change: Change,
    *,
    form: Form = "avro",
    schema_id: str | None | EllipsisType = ...,
    own_schema: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return a complete data message in its envelope, as Replicate publishes it.

    Args:
        change: Missing columns are null; header fields that the schema lacks are omitted.
        form: `avro` or `json`.
        schema_id: The envelope's messageSchemaId, or None; by default the id of the metadata, or None for a schema.
        own_schema: A messageSchema for the envelope, which then determines the encoding of the message.

    Raises:
        InvalidInputError: a value does not fit its column, or the schema lacks a column.
        SchemaError: the schema is not a schema of data messages.
    """
    if isinstance(schema_id, EllipsisType):
        schema_id = metadata.schema_id if isinstance(metadata, TableMetadata) else None
    text = metadata.data_schema if isinstance(metadata, TableMetadata) else metadata
    record = parse_schema(text if own_schema is None else own_schema)
    sections = _sections(record)
    kept = None if headers is None else dict(headers)
    body: bytes | dict[str, Any]
    if form == "json":
        body = {"data": _row_to_json(sections["data"], change.data), "beforeData": None}
        if change.before is not None:
            body["beforeData"] = _row_to_json(sections["data"], change.before)
        body["headers"] = _headers_to_json(change)
    else:
        row = {"data": change.data, "beforeData": change.before, "headers": _header_fields(change, sections["headers"])}
        body = encode_value(record, {name: value for name, value in row.items() if name in sections}, "the change")
    return encode_envelope(Envelope("DT", body, kept, schema_id, own_schema, form))


def decode_data(envelope: Envelope, schema: str | None = None) -> Change:
    """Decode one data message to Python values.

    Args:
        envelope: An envelope of type DT.
        schema: The Avro schema of the table's version (TableMetadata.data_schema). Not needed for JSON, or if the envelope has a
            messageSchema, which takes precedence.

    Returns:
        The change. Avro values are converted by codec.avro.values.decode_value(). JSON values are unchanged, except that numbers
        with a fraction or exponent are Decimals with all digits. Masks are little-endian bytes in both forms. An optional header,
        such as the timestamp, is "" or None if it has an invalid type.

    Raises:
        SchemaError: the envelope is not a DT, or the schema is missing or not a schema of data messages.
        DecodeError: the message does not match its schema.
    """
    if envelope.type != "DT":
        raise SchemaError(f"an envelope of type {envelope.type} is not a data message")
    if isinstance(envelope.message, dict):
        message = envelope.message
    else:
        text = schema if envelope.schema is None else envelope.schema
        if text is None:
            raise SchemaError("there is no schema to decode the Avro data message", where=f"schema {envelope.schema_id}")
        record = parse_schema(text)
        _sections(record)
        reader = AvroReader(envelope.message)
        message = decode_value(reader, record, "the data message")
        reader.finish("the data message")
    before = None if message.get("beforeData") is None else _section(message, "beforeData")
    # A deleted row can be only in beforeData.
    data = {} if before is not None and message.get("data") is None else _section(message, "data")
    return _change(data, before, _section(message, "headers"))


def _section(message: dict[str, Any], name: str) -> dict[str, Any]:
    value = message.get(name)
    if not isinstance(value, dict):
        raise DecodeError(f"{name} of a data message must be a record, not {type(value).__name__}", 0)
    return value


def _change(data: dict[str, Any], before: dict[str, Any] | None, headers: dict[str, Any]) -> Change:
    operation = headers.get("operation")
    if operation not in OPERATIONS:
        raise DecodeError(f"a data message has the unknown operation {str(operation)[:40]!r}", 0)
    found: dict[str, Any] = {}
    for name, attribute in _TEXTS:
        value = headers.get(name)
        if name == "changeSequence" and not _is_sequence(value):
            raise DecodeError(f"{name} of a data message must be a string or a number of 35 digits, not {str(value)[:40]}", 0)
        found[attribute] = (value if isinstance(value, str) else to_text(value)) or ""
    for name, attribute in _MASKS:
        value = headers.get(name)
        if not isinstance(value, (str, bytes, type(None))):
            raise DecodeError(f"{name} of a data message must be hex digits or bytes", 0)
        found[attribute] = mask_from_hex(value) if isinstance(value, str) else value
    found["transaction_event_counter"] = _pull_count(headers.get("transactionEventCounter"))
    last = headers.get("transactionLastEvent")
    found["transaction_last_event"] = last if last is None or isinstance(last, bool) else _LOGICALS.get(str(last).lower())
    found["external_schema_id"] = to_text(headers.get("externalSchemaId"))
    return Change(operation, data, before, **found)


def _is_sequence(value: object) -> bool:
    """Return whether a value is a change sequence, which orders changes as a string; a number must have all digits."""
    return value is None or isinstance(value, str) or (type(value) is int and len(str(value)) == _SEQUENCE_DIGITS)


def _pull_count(value: object) -> int | None:
    """Return a 64-bit number that was sent as a number or a string; None for other values."""
    if value is None:
        return None
    text = to_text(value) or ""
    count = int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else None
    return count if count is None or -(1 << 63) <= count < 1 << 63 else None


def _sections(record: AvroType) -> dict[str, AvroType]:
    """Return the types of data, headers and, if it exists, beforeData."""
    sections = {member.name: _without_null(member.type) for member in record.fields}
    for name in ("data", "headers"):
        if name not in sections or sections[name].kind != "record":
            raise SchemaError(f"the Avro schema of data messages must have a record {name!r}", where=record.name or None)
    return sections


def _without_null(section: AvroType) -> AvroType:
    others = [branch for branch in section.branches if branch.kind != "null"]
    return others[0] if len(others) == 1 else section


def _header_fields(change: Change, headers: AvroType) -> dict[str, Any]:
    fields: dict[str, Any] = {"operation": change.operation}
    fields.update((name, getattr(change, attribute)) for name, attribute in (*_TEXTS, *_MASKS))
    fields.update((name, getattr(change, attribute)) for name, attribute in _OTHERS)
    known = {member.name for member in headers.fields}
    return {name: value for name, value in fields.items() if name in known}


def _headers_to_json(change: Change) -> dict[str, Any]:
    fields: dict[str, Any] = {"operation": change.operation}
    fields.update((name, getattr(change, attribute)) for name, attribute in _TEXTS)
    for name, attribute in _MASKS:
        mask = getattr(change, attribute)
        fields[name] = None if mask is None else mask_to_hex(mask)
    fields.update((name, getattr(change, attribute)) for name, attribute in _OTHERS)
    return fields


def _row_to_json(row: AvroType, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON values; every value must fit the schema, as in Avro."""
    encode_value(row, values, "the row")
    return {member.name: _value_to_json(member.type, values.get(member.name), member.name) for member in row.fields}


def _value_to_json(column: AvroType, value: Any, name: str) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex().upper()
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError(f"{name} is {value}, which JSON cannot represent as a number")
    plain = {branch.kind for branch in column.branches or (column,) if branch.logical_type is None}
    if (
        value is None
        or isinstance(value, (str, bool, float))
        or (isinstance(value, int) and plain & {"int", "long", "float", "double"})
    ):
        return value
    return to_text(value)


def _nullable(name: str, kind: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": [{"type": "null"}, kind]}
