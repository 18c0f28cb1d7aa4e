"""Debezium's messages for tests: real ones of a PostgreSQL, and envelopes made of a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from headstream.core.model.headers import Headers

__all__ = ["SAMPLE", "envelope", "key_of", "read_sample", "with_headers"]

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
    fields = fields or [{"type": _TYPES[type(value)], "optional": True, "field": name} for name, value in row.items()]
    struct = {"type": "struct", "optional": True, "fields": fields}
    members = [{**struct, "field": name} for name in ("before", "after")]
    members += [{"type": "struct", "fields": [], "field": "source"}, {"type": "string", "field": "op"}]
    place = {
        "connector": "postgresql",
        "name": "shop",
        "snapshot": "false",
        "schema": "shop",
        "table": "kit",
        "ts_ms": 1,
        **source,
    }
    payload = {"before": before, "after": after, "source": place, "op": operation, "transaction": None}
    document = {"schema": {"type": "struct", "fields": members}, "payload": payload}
    return json.dumps(document, separators=(",", ":")).encode()
