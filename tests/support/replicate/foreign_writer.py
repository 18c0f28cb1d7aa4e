"""A second writer of Replicate's messages, that knows nothing of ours: what it writes is what others may send.

Payloads are written by fastavro, by schemas that are spelled after real samples and Avro's own specification. A `Style`
draws one of the many ways that are legal: how schemas are spelled, which header fields there are and in which order,
what a schema id looks like, how the bytes of numbers and maps are laid out, how JSON is indented.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any

import fastavro

from headstream.testing import LOB_TYPES, SourceChange, SourceColumn, SourceTable
from tests.support.messages.foreign_bytes import Encoder, encode_avro, write_blocks
from tests.support.replicate.foreign_schemas import ENVELOPE, data_schema, metadata_schema
from tests.support.replicate.foreign_style import Style, draw_style


class ForeignWriter:
    """Writes the messages of one version of a table.

    Args:
        table: The table.
        version: Which version of it, from 0.
        style: How.
    """

    def __init__(self, table: SourceTable, version: int, style: Style) -> None:
        self.table, self.version, self.style = table, version, style
        self.columns = table.versions[version]
        self.schema = data_schema(self.columns, style)
        self._parsed = fastavro.parse_schema(self.schema)
        self._text = _dump(self.schema, style.indent)

    def write_metadata(self) -> bytes:
        """Return the metadata message of the version."""
        style = self.style
        message = self._metadata()
        schema = metadata_schema(style, [column.name for column in self.columns])
        text = _dump(schema, style.indent)
        if style.form == "json":
            return self._envelope_json("MD", text, message)
        # Column names may be no names in Avro; the bytes are the same whatever the types are called.
        plain = fastavro.parse_schema(metadata_schema(style, [f"c{place}" for place, _ in enumerate(self.columns)]))
        structure = message["tableStructure"]["tableColumns"]
        renamed = {f"c{place}": structure[column.name] for place, column in enumerate(self.columns)}
        written = {**message, "tableStructure": {"tableColumns": renamed}}
        return self._envelope("MD", text, encode_avro(plain, written, style.padded))

    def write_data(self, change: SourceChange) -> bytes:
        """Return the message of one change."""
        style = self.style
        names = [column.name for column in self.columns]
        keys = self.table.key_columns
        before, after = change.before, change.after
        changed = [n for n in names if before and after and before[n] != after[n]]
        present = names
        if after is None:
            assert before is not None
            present = list(keys) if style.deletes == "key" else names
            row = {name: before[name] for name in present}
            data = {} if style.deletes == "before" else row
            before = row if style.deletes in ("before", "both") else None
        elif before is not None:
            if style.partial and not set(keys) & set(changed):
                present = [n for n in names if n in changed or n in keys]
            data = {name: after[name] for name in present}
            before = {name: before[name] for name in present}
        else:
            data = after
        large = {column.name for column in self.columns if column.type in LOB_TYPES}
        touched = names if before is None and after is not None else keys if after is None else changed
        headers = self._headers(change, [name for name in touched if name not in large], present)
        gone = style.form == "json" and style.empty_data and style.deletes == "before" and after is None
        message = {
            "data": None if gone else self._row(data),
            "beforeData": None if before is None else self._row(before),
            "headers": headers,
        }
        if style.form == "json":
            return self._envelope_json("DT", None, message)
        return self._envelope("DT", self._text if style.own_schema else None, encode_avro(self._parsed, message, style.padded))

    def _row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {column.name: _spell(row.get(column.name), column, self.style) for column in self.columns}

    def _headers(self, change: SourceChange, touched: Sequence[str], present: Sequence[str]) -> dict[str, Any]:
        at = change.committed
        headers: dict[str, Any] = {
            "operation": change.operation,
            "changeSequence": "" if at is None else f"{at:%Y%m%d%H%M%S}{at.microsecond // 10000:02d}{change.change_number:019d}",
            "timestamp": "" if at is None else at.replace(tzinfo=None).isoformat(timespec="milliseconds"),
            "streamPosition": "" if at is None else f"000dac8c:{change.change_number:08x}:0002",
            "transactionId": "" if at is None else f"{change.transaction:032X}",
            "changeMask": None if at is None else self._mask(touched),
            "columnMask": None if at is None else self._mask(present),
            "transactionEventCounter": None if at is None else change.event_counter,
            "transactionLastEvent": None if at is None else change.last_event,
            "externalSchemaId": None,
            "sourceNode": "node-1",
            "retries": 3,
            "trace": _trace(change.change_number),
        }
        unknown = ("sourceNode", "retries", "trace")
        return headers if self.style.form == "avro" else {n: v for n, v in headers.items() if n not in unknown}

    def _mask(self, names: Sequence[str]) -> Any:
        number = sum(1 << place for place, column in enumerate(self.columns) if column.name in names)
        size = (len(self.columns) + 7) // 8
        if self.style.form == "json":
            return f"{number:X}" if self.style.trimmed_masks else f"{number:0{size * 2}x}"
        return number.to_bytes(max(1, (number.bit_length() + 7) // 8) if self.style.trimmed_masks else size, "little")

    def _metadata(self) -> dict[str, Any]:
        columns: dict[str, dict[str, Any]] = {}
        for place, column in enumerate(self.columns):
            columns[column.name] = {
                "ordinal": place + 1,
                "type": column.type,
                "length": column.length,
                "precision": column.precision,
                "scale": column.scale,
                "primaryKeyPosition": column.key_position,
                "nullable": column.nullable,
                "collation": "binary",
            }
            del columns[column.name]["nullable" if self.style.extra else "collation"]
        lineage = {
            "server": "other.example",
            "task": "other-task",
            "schema": self.table.schema,
            "table": self.table.name,
            "tableVersion": self.version + 1,
            "timestamp": "2024-01-15T07:00:00.000",
        }
        if self.style.extra:
            lineage["endpoint"] = "oracle"
        return {
            "schemaId": self.style.schema_id,
            "lineage": lineage,
            "tableStructure": {"tableColumns": columns},
            "dataSchema": self._text,
        }

    def _envelope(self, kind: str, schema: str | None, message: bytes) -> bytes:
        style = self.style
        if style.map_blocks == "one":
            parts = {"magic": b"atMSG", "type": kind, "headers": style.header_map, "messageSchemaId": style.schema_id}
            envelope = {**parts, "messageSchema": schema, "message": message}
            return encode_avro(fastavro.parse_schema(ENVELOPE), envelope, style.padded)
        encoder = Encoder(io.BytesIO(), style.padded)
        encoder.write_fixed(b"atMSG")
        encoder.write_utf8(kind)
        encoder.write_long(0 if style.header_map is None else 1)
        if style.header_map is not None:
            write_blocks(encoder, style.header_map, style.map_blocks)
        for text in (style.schema_id, schema):
            encoder.write_long(0 if text is None else 1)
            if text is not None:
                encoder.write_utf8(text)
        encoder.write_bytes(message)
        return encoder.content()

    def _envelope_json(self, kind: str, schema: str | None, message: dict[str, Any]) -> bytes:
        style = self.style
        names = {"message": message, "messageSchema": schema, "messageSchemaId": style.schema_id}
        document = {**names, "headers": style.header_map, "type": kind, "magic": "atMSG"}
        return _dump(document, style.indent, ascii_only=style.padded).encode()


def _dump(document: Any, indent: int | None, *, ascii_only: bool = True) -> str:
    separators = (",", ":") if indent is None else None
    return json.dumps(document, indent=indent, separators=separators, ensure_ascii=ascii_only)


def _spell(value: Any, column: SourceColumn, style: Style) -> Any:
    """Return a value as fastavro or JSON takes it."""
    json_form = style.form == "json"
    if value is None or (style.logical and not json_form):
        moment = isinstance(value, datetime) and style.local_moments
        return value.replace(tzinfo=None) if moment else value
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None)
        return plain.isoformat("T" if style.wide else " ", timespec="microseconds")
    if isinstance(value, time):
        return value.isoformat("milliseconds" if value.microsecond else "seconds")
    if isinstance(value, date):
        return value.isoformat()
    if json_form and isinstance(value, bytes):
        return value.hex()
    if json_form and isinstance(value, int) and not isinstance(value, bool) and style.wide:
        return str(value)
    return value


def write_history(tables: Sequence[SourceTable], changes: Sequence[SourceChange], seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield a whole history as messages, each version of a table in a style of its own: the role, and the message.

    Args:
        tables: All tables.
        changes: What happened to them.
        seed: The same seed draws the same styles.
    """
    random = Random(seed)
    writers: dict[tuple[str, int], ForeignWriter] = {}
    for table in tables:
        for version, columns in enumerate(table.versions):
            writer = ForeignWriter(table, version, draw_style(random, len(columns)))
            writers[table.qualified_name, version] = writer
            yield "metadata", writer.write_metadata()
    for change in changes:
        yield "data", writers[change.table.qualified_name, change.version].write_data(change)


def _trace(number: int) -> dict[str, Any] | None:
    """Return a value of foreign_schemas.TRACE, or none."""
    hops = [{"node": f"node-{hop}", "delay": [None, 0.5, hop, True][hop % 4]} for hop in range(number % 5)]
    tags = {"first": None, "größe": b"\x00\xff"} | {f"hop {place}": hop for place, hop in enumerate(hops)}
    return None if number % 3 == 0 else {"hops": hops, "tags": tags, "kind": "REPLAY"}
