"""Avro bytes by fastavro, laid out in ways that are legal and rare: numbers longer than they must be, maps in several blocks."""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
from fastavro._write_py import write_data
from fastavro.io.binary_encoder import BinaryEncoder


class Encoder(BinaryEncoder):
    """fastavro's own encoder; `padded` numbers have one byte more than they need, which every reader must take."""

    def __init__(self, fo: io.BytesIO, padded: bool) -> None:
        super().__init__(fo)
        self.padded = padded

    def write_long(self, datum: int) -> None:
        rest = (datum << 1) ^ (datum >> 63)
        written = bytearray()
        while rest > 127:
            written.append(rest & 127 | 128)
            rest >>= 7
        written.append(rest)
        if self.padded and len(written) < 5:
            written[-1] |= 128
            written.append(0)
        self._fo.write(bytes(written))

    write_int = write_long

    def content(self) -> bytes:
        """Return what was written so far."""
        return self._fo.getvalue()  # type: ignore[no-any-return]


def encode_avro(schema: Any, value: Any, padded: bool) -> bytes:
    """Return a value by a schema that fastavro parsed; `padded` as in Style."""
    out = io.BytesIO()
    if not padded:
        fastavro.schemaless_writer(out, schema, value)
        return out.getvalue()
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(json.loads(json.dumps(_unparse(schema))), named_schemas=named)
    write_data(Encoder(out, True), value, parsed, named, "", {})
    return out.getvalue()


def _unparse(schema: Any) -> Any:
    """Return a schema without fastavro's own marks, so that it is parsed anew and its names are told."""
    if isinstance(schema, dict):
        return {key: _unparse(value) for key, value in schema.items() if not key.startswith("__")}
    return [_unparse(item) for item in schema] if isinstance(schema, list) else schema


def write_blocks(encoder: Encoder, pairs: Mapping[str, str], blocks: str) -> None:
    """Write a map; `blocks` as in Style."""
    size = 1 if blocks == "many" else len(pairs)
    items = list(pairs.items())
    for at in range(0, len(items), size or 1):
        inner = Encoder(io.BytesIO(), encoder.padded)
        for key, value in items[at : at + size]:
            inner.write_utf8(key)
            inner.write_utf8(value)
        content = inner.content()
        count = len(items[at : at + size])
        if blocks == "sized" or at % 2:
            encoder.write_long(-count)
            encoder.write_long(len(content))
        else:
            encoder.write_long(count)
        encoder._fo.write(content)
    encoder.write_long(0)
