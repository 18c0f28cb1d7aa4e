"""The messages of a simulated source, read by fastavro and json alone and applied by a small interpreter."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro

from headstream.testing import SourceMessage
from tests.support.replicate.foreign_schemas import ENVELOPE as FOREIGN_ENVELOPE

ENVELOPE = fastavro.parse_schema(FOREIGN_ENVELOPE)


def read_avro(data: bytes, schema: Any) -> dict[str, Any]:
    stream = io.BytesIO(data)
    value: Any = fastavro.schemaless_reader(stream, schema)
    assert stream.read() == b""
    return dict(value)


@functools.lru_cache(maxsize=64)
def read_schema(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def read_envelope(message: SourceMessage) -> dict[str, Any]:
    if message.value.startswith(b"{"):
        return dict(json.loads(message.value))
    envelope = read_avro(message.value, ENVELOPE)
    assert envelope["magic"] == b"atMSG"
    return envelope


def read_metadata(messages: Iterable[SourceMessage]) -> dict[str, dict[str, Any]]:
    """Return the metadata message of each schema id."""
    found: dict[str, dict[str, Any]] = {}
    for message in messages:
        if message.role == "metadata":
            envelope = read_envelope(message)
            assert envelope["type"] == "MD"
            body = envelope["message"]
            if isinstance(body, bytes):
                body = read_avro(body, read_schema(envelope["messageSchema"]))
            assert body["schemaId"] == message.schema_id
            assert message.key == message.schema_id.encode()
            found[body["schemaId"]] = body
    return found


READ_TEXT: dict[str, Callable[[str], Any]] = {
    "NUMERIC": Decimal,
    "UINT8": Decimal,
    "DATE": date.fromisoformat,
    "DATETIME": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    "BYTES": bytes.fromhex,
    "BLOB": bytes.fromhex,
}


def read_value(kind: str, value: Any) -> Any:
    """Return a value as the final state has it, by the type in the metadata."""
    if isinstance(value, str):
        return READ_TEXT.get(kind, str)(value)
    if isinstance(value, time):
        return value.isoformat("milliseconds" if value.microsecond else "seconds")
    return value


class DecodedChange:
    """One data message as plain values: rows of the columns that are there."""

    def __init__(self, message: SourceMessage, metadata: dict[str, dict[str, Any]], order: Any = "little") -> None:
        envelope = read_envelope(message)
        assert envelope["type"] == "DT"
        assert envelope["messageSchemaId"] == message.schema_id
        self.metadata = metadata[message.schema_id]
        body = envelope["message"]
        if isinstance(body, bytes):
            body = read_avro(body, read_schema(self.metadata["dataSchema"]))
        self.headers = body["headers"]
        self.envelope_headers = envelope["headers"]
        self.operation: str = self.headers["operation"]
        self.sequence: str = self.headers["changeSequence"]
        columns = self.metadata["tableStructure"]["tableColumns"]
        self.changed = self._ordinals("changeMask", order)
        self.present = self._ordinals("columnMask", order)
        self.data = self._row(body["data"], columns)
        self.before = None if body["beforeData"] is None else self._row(body["beforeData"], columns)
        keyed = [(column["primaryKeyPosition"], name) for name, column in columns.items() if column["primaryKeyPosition"]]
        self.keys = [name for _, name in sorted(keyed)]

    def _ordinals(self, name: str, order: Any) -> set[int] | None:
        mask = self.headers[name]
        if mask is None:
            return None
        number = int(mask, 16) if isinstance(mask, str) else int.from_bytes(mask, order)
        return {place + 1 for place in range(number.bit_length()) if number >> place & 1}

    def _row(self, values: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
        row = {}
        for name, value in values.items():
            if self.present is None or columns[name]["ordinal"] in self.present:
                row[name] = read_value(columns[name]["type"], value)
            else:
                assert value is None
        return row

    def key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.keys)


def replay(messages: Iterable[SourceMessage], order: Any = "little") -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Apply messages, in whatever order they come, one change sequence after the other."""
    messages = list(messages)
    metadata = read_metadata(messages)
    decoded = [DecodedChange(message, metadata, order) for message in messages if message.role == "data"]
    decoded.sort(key=lambda change: change.sequence)
    tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    columns: dict[str, dict[int, Any]] = {}
    for body in metadata.values():
        name = f"{body['lineage']['schema']}.{body['lineage']['table']}"
        columns.setdefault(name, {})[body["lineage"]["tableVersion"]] = body["tableStructure"]["tableColumns"]
        tables.setdefault(name, {})
    applied = set()
    for change in decoded:
        lineage = change.metadata["lineage"]
        rows = tables[f"{lineage['schema']}.{lineage['table']}"]
        if change.sequence in applied:
            continue
        if change.sequence:
            applied.add(change.sequence)
        if change.operation == "DELETE":
            row = change.data if change.data[change.keys[0]] is not None else change.before
            assert row is not None
            del rows[change.key(row)]
            continue
        old: dict[str, Any] = {}
        if change.operation == "UPDATE":
            old = rows.pop(change.key(change.before or change.data))
        rows[change.key(change.data)] = {**old, **change.data}
    return {
        name: {key: {column: row.get(column) for column in columns[name][max(columns[name])]} for key, row in rows.items()}
        for name, rows in tables.items()
    }
