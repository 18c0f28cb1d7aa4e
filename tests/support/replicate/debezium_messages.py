"""Debezium's messages for tests: real ones of a PostgreSQL, and envelopes made of a row."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa

from headstream.core.model.headers import Headers

SAMPLE: Final = Path(__file__).parents[2] / "samples" / "debezium" / "postgres.tsv"
_TYPES: Final[dict[type, str]] = {int: "int64", str: "string", bool: "boolean", float: "double"}


def read_sample(*, schemas: bool = True) -> tuple[list[bytes | None], list[bytes | None]]:
    """Keys and values of the real messages, with or without Connect's schemas."""

    def read(text: str) -> bytes | None:
        if text == "null":
            return None
        return text.encode() if schemas else json.dumps(json.loads(text)["payload"]).encode()

    lines = [line.split("\t") for line in SAMPLE.read_text().splitlines()]
    return [read(key) for _, key, _ in lines], [read(value) for _, _, value in lines]


def with_headers(raw: pa.RecordBatch, headers: dict[int, dict[str, bytes]]) -> pa.RecordBatch:
    """Raw messages, some of them with record headers."""
    blocks = [Headers(headers[row]).as_bytes() if row in headers else b"" for row in range(raw.num_rows)]
    return raw.set_column(raw.schema.get_field_index("headers"), "headers", pa.array(blocks, pa.binary()))


def key_of(**columns: Any) -> bytes:
    """A record key in JSON without its schema."""
    return json.dumps(columns).encode()


def envelope(
    operation: str, after: dict[str, Any] | None = None, before: dict[str, Any] | None = None, *,
    fields: list[dict[str, Any]] | None = None, **source: Any,
) -> bytes:  # fmt: skip
    """A message of the table shop.kit with a schema, as JsonConverter writes it; `fields` are Connect's types of the columns."""
    row = after or before or {}
    fields = fields or [{**_kind(value), "field": name} for name, value in row.items()]
    struct = {"type": "struct", "optional": True, "fields": fields}
    members = [{**struct, "field": name} for name in ("before", "after")]
    place = {
        "connector": "postgresql",
        "name": "shop",
        "snapshot": "false",
        "schema": "shop",
        "table": "kit",
        "ts_ms": 1,
        **source,
    }
    positions = [{"type": _TYPES[type(value)], "field": name} for name, value in place.items()]
    members += [{"type": "struct", "fields": positions, "field": "source"}, {"type": "string", "field": "op"}]
    payload = {"before": before, "after": after, "source": place, "op": operation, "transaction": None}
    document = {"schema": {"type": "struct", "fields": members}, "payload": payload}
    return json.dumps(document, separators=(",", ":")).encode()


def _kind(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"type": "array", "items": _kind(value[0]), "optional": True}
    return {"type": _TYPES[type(value)], "optional": True}


class AvroWriter:
    """Writes messages of JsonConverter, with their schemas, as Connect's Avro converter does.

    Args:
        directory: Gets the schemas, as a registry: `<number>.avsc`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._numbers: dict[str, int] = {}

    def write(self, message: bytes | None) -> tuple[int, bytes]:
        """The number of a message's schema, and the record without framing; 0 and empty for none."""
        if message is None:
            return 0, b""
        document = json.loads(message)
        schema = _avro_schema(document["schema"], set())
        text = json.dumps(schema)
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        (self.directory / f"{number}.avsc").write_text(text)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), _avro_value(document["schema"], document["payload"]))
        return number, out.getvalue()

    def framed(self, message: bytes | None) -> bytes | None:
        """A message with the number of its schema before it."""
        number, record = self.write(message)
        return b"\0" + number.to_bytes(4, "big") + record if number else None


_AVRO: Final = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}


def _avro_schema(schema: dict[str, Any], named: set[str], *, name: str = "Record") -> Any:
    kind, meaning = schema["type"], schema.get("name")
    found: dict[str, Any] = {"type": _AVRO.get(kind, kind)}
    if kind in ("int8", "int16"):
        found["connect.type"] = kind
    if meaning:
        found |= {"connect.version": 1, "connect.name": meaning, "connect.parameters": schema.get("parameters", {})}
    if meaning == "org.apache.kafka.connect.data.Decimal":
        parameters = schema["parameters"]
        digits = {"precision": int(parameters.get("connect.decimal.precision", 64)), "scale": int(parameters["scale"])}
        found |= {"logicalType": "decimal", **digits}
    if kind == "array":
        found["items"] = _avro_schema(schema["items"], named)
    elif kind == "map":
        found["values"] = _avro_schema(schema["values"], named)
    elif kind == "struct":
        full = meaning or name
        namespace, _, last = full.rpartition(".")
        if full in named:
            return ["null", full] if schema.get("optional") else full
        named.add(full)
        members = schema["fields"]
        fields = [{"name": one["field"], "type": _avro_schema(one, named, name=f"{name}_{one['field']}")} for one in members]
        found |= {"type": "record", "name": last, "namespace": namespace, "fields": fields}
    return ["null", found] if schema.get("optional") else found


def _avro_value(schema: dict[str, Any], value: Any) -> Any:
    if value is None:
        return None
    if schema["type"] == "struct":
        return {one["field"]: _avro_value(one, value.get(one["field"])) for one in schema["fields"]}
    if schema["type"] == "array":
        return [_avro_value(schema["items"], item) for item in value]
    if schema["type"] == "bytes":
        return base64.b64decode(value)
    return float(value) if schema["type"] in ("float", "double") else value
