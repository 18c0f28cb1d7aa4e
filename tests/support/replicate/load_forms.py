"""The forms that the messages of a history are written in, beside envelopes with metadata.

bare      JSON without an envelope, whose table the topic names
flat      the flat JSON before version 6: no masks, no number within the transaction, columns in one object or in several
registry  0x00, the number of a schema, the bare Avro record; the message key is framed too, and its schema has the table's key
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from headstream.core.codec.json_text import encode_json
from headstream.replicate.codec import Change
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value
from tests.support.replicate.load_tables import LoadedTable, Row

_NAMESPACE = "com.attunity.queue.msg.task.shop."
_FLAT_OPERATIONS = {"REFRESH": "F", "INSERT": "I", "UPDATE": "U", "DELETE": "D"}
_KEY_NUMBERS = 100
"""The number of a key's schema, less that of its table's first one."""


def bare_message(change: Change) -> bytes:
    """Return a change as JSON without an envelope."""
    headers = {
        "operation": change.operation, "changeSequence": change.change_sequence, "timestamp": change.timestamp,
        "streamPosition": change.stream_position, "transactionId": change.transaction_id,
        "changeMask": None if change.change_mask is None else change.change_mask.hex(),
        "columnMask": None if change.column_mask is None else change.column_mask.hex(),
        "transactionEventCounter": change.transaction_event_counter,
        "transactionLastEvent": change.transaction_last_event,
    }  # fmt: skip
    before = None if change.before is None else dict(change.before)
    return encode_json({"data": dict(change.data) or None, "beforeData": before, "headers": headers})


def flat_message(table: LoadedTable, change: Change, random: Random) -> bytes:
    """Return a change in the flat form."""
    document = {
        "schema": "shop", "table": table.name, "op": _FLAT_OPERATIONS[change.operation],
        "data": _sections(change.data, random), "bu_data": _sections(change.before, random),
        "change_seq": change.change_sequence, "ts": change.timestamp, "stream_position": change.stream_position,
        "transaction_id": change.transaction_id,
    }  # fmt: skip
    return encode_json(document)


def _sections(columns: Mapping[str, Any] | None, random: Random) -> Any:
    if not columns:
        return random.choice([None, []])
    return dict(columns) if random.random() < 0.5 else [{name: value} for name, value in columns.items()]


def framed_message(table: LoadedTable, change: Change, row: Row) -> tuple[bytes, bytes | None]:
    """Return a change with a schema registry's framing, and the message's key; None for a table without a key.

    Args:
        table: Its table.
        change: The change.
        row: A row that has the key's columns.
    """
    headers = {
        "operation": change.operation, "changeSequence": change.change_sequence, "timestamp": change.timestamp,
        "streamPosition": change.stream_position, "transactionId": change.transaction_id, "changeMask": change.change_mask,
        "columnMask": change.column_mask, "transactionEventCounter": change.transaction_event_counter,
        "transactionLastEvent": change.transaction_last_event,
    }  # fmt: skip
    record = {"data": change.data, "beforeData": change.before, "headers": headers}
    number = _number(table) + table.version
    value = _framed(number, encode_value(parse_schema(table.metadata.data_schema), record, "the change"))
    if not table.keys:
        return value, None
    key = encode_value(parse_schema(_key_schema(table)), {name: row[name] for name in table.keys}, "the key")
    return value, _framed(_number(table) + _KEY_NUMBERS, key)


def registry_schemas(tables: Iterable[LoadedTable]) -> dict[int, str]:
    """Return what a registry has for some tables: number -> Avro schema."""
    found = {}
    for table in tables:
        for version, metadata in enumerate(table.versions):
            schema = json.loads(metadata.data_schema) | {"namespace": _NAMESPACE + table.name}
            found[_number(table) + version] = json.dumps(schema)
        if table.keys:
            found[_number(table) + _KEY_NUMBERS] = _key_schema(table)
    return found


def _number(table: LoadedTable) -> int:
    return 10 * (1 + "tun".index(table.name))


def _key_schema(table: LoadedTable) -> str:
    kinds = {"INT8": "long", "INT4": "int", "WSTRING": "string"}
    types = {column.name: kinds[column.type] for column in table.metadata.columns}
    fields = [{"name": name, "type": ["null", types[name]]} for name in table.keys]
    return json.dumps({"type": "record", "name": "KeyRecord", "namespace": _NAMESPACE + table.name, "fields": fields})


def _framed(number: int, record: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + record
