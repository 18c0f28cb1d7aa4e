"""Avro records, encoded by fastavro in Avro's single-object encoding:

    C3 01 | fingerprint u64, little-endian: CRC-64-AVRO of the writer's schema in parsing canonical form | the record

The payload identifies its schema by the fingerprint, so readers with a newer schema can decode older messages. See "Single object
encoding" in Avro's specification.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headstream.errors import InvalidInputError
from headstream.serializers.serializer import Serializer, missing_package

_MARKER: Final = b"\xc3\x01"
_HEAD_BYTES: Final = 10


def avro(
    schema: str | Mapping[str, Any] | list[Any], *, known: Iterable[str | Mapping[str, Any] | list[Any]] = ()
) -> Serializer[Any]:
    """Return a serializer for Avro records, represented as dicts.

    Args:
        schema: The schema in which values are written and returned, as JSON text or parsed.
        known: Earlier schemas of the topic. Messages with these schemas are resolved to `schema` by Avro's rules.

    Raises:
        MissingExtraError: fastavro is not installed (the extra `avro`).
        InvalidInputError: a schema is invalid.
    """
    try:
        import fastavro
        from fastavro.schema import fingerprint, to_parsing_canonical_form
    except ImportError as error:
        raise missing_package(error, "avro") from None

    def parse(text: Any) -> tuple[Any, bytes]:
        try:
            plain = json.loads(text) if isinstance(text, str) else text
            return fastavro.parse_schema(plain, named_schemas={}), bytes.fromhex(
                fingerprint(to_parsing_canonical_form(plain), "CRC-64-AVRO")
            )
        except Exception as error:  # the library raises several types of exceptions
            raise InvalidInputError(
                f"the schema is not a valid Avro schema: {error}", advice="Pass the schema as a JSON string or a dict"
            ) from error

    reader, own_mark = parse(schema)
    writers = {mark: parsed for parsed, mark in map(parse, known)} | {own_mark: reader}
    head = _MARKER + own_mark

    def encode(value: Any) -> bytes:
        out = io.BytesIO(head)
        out.seek(len(head))
        fastavro.schemaless_writer(out, reader, value, strict=True)
        return out.getvalue()

    def decode(payload: bytes) -> Any:
        if payload[:2] != _MARKER or len(payload) < _HEAD_BYTES:
            raise InvalidInputError("the payload is not in Avro's single-object encoding")
        writer = writers.get(payload[2:_HEAD_BYTES])
        if writer is None:
            mark = payload[2:_HEAD_BYTES].hex()
            raise InvalidInputError(f"the schema {mark} is unknown", advice="Pass the schema in known=")
        body = io.BytesIO(payload)
        body.seek(_HEAD_BYTES)
        value = fastavro.schemaless_reader(body, writer, None if writer is reader else reader)
        if body.tell() != len(payload):
            raise InvalidInputError(f"{len(payload) - body.tell()} bytes follow the record")
        return value

    return Serializer("avro", encode, decode)
