"""The envelope of a Replicate message, in Avro or JSON.

    Avro    "atMSG" 5 bytes | type string "MD" or "DT" | headers union null, map of strings
            | messageSchemaId union null, string | messageSchema union null, string | message bytes
            (bare binary, without a container header)
    JSON    {"magic": "atMSG", "type": .., "headers": .., "messageSchemaId": .., "messageSchema": .., "message": {..}}
            or only the message of a DT, in any form of settings.formats

A real MD has both a messageSchema, the schema of its own message, and a messageSchemaId, the id of the data schema that it
announces. The id is an opaque string, 32 hex digits in all known messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from headstream.core.codec.json_text import decode_json, encode_json
from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.values import encode_long, encode_string
from headstream.replicate.settings.formats import MessageFormat, is_flat, read_flat

MAGIC: Final = b"atMSG"
Form = Literal["avro", "json"]
_BLANKS: Final = b" \t\r\n"
_DEFAULT: Final = MessageFormat()


@dataclass(frozen=True, slots=True)
class Envelope:
    """One Replicate message in its envelope.

    Args:
        type: `MD` for metadata, `DT` for data.
        message: The message: bytes in Avro, a dict in JSON.
        headers: The envelope's own headers, or None.
        schema_id: messageSchemaId, or None.
        schema: messageSchema, the Avro schema of this message, or None.
        table: Source schema and table, if a message without an envelope names them.
    """

    type: str
    message: bytes | dict[str, Any]
    headers: dict[str, str] | None = None
    schema_id: str | None = None
    schema: str | None = None
    form: Form = "avro"
    table: tuple[str, str] | None = None


def decode_envelope(value: bytes, layout: MessageFormat = _DEFAULT) -> Envelope:
    """Decode the envelope of a Kafka value that contains a Replicate message.

    Returns:
        The envelope. The message is not decoded, but the parts of a DT in JSON have Replicate's names.

    Raises:
        DecodeError: the value is neither an Avro nor a JSON envelope, or is malformed.
    """
    data = bytes(value)
    if data.startswith(MAGIC):
        return _decode_avro(data)
    if data.lstrip(_BLANKS).startswith(b"{"):
        return _decode_json(data, layout)
    if data.startswith(b"\0") and len(data) >= 5:
        schema = int.from_bytes(data[1:5], "big")
        raise DecodeError(f"the message has schema registry framing (schema {schema}) instead of an envelope", 0)
    raise DecodeError("the bytes are not a Replicate message: they must begin with 'atMSG' or a JSON object", 0)


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the bytes of an envelope in Avro or JSON, by the type of its message.

    Args:
        envelope: An envelope of type `MD` or `DT`, with a message of bytes (Avro) or a dict (JSON).

    Raises:
        InvalidInputError: the type or the message is invalid, or a string cannot be encoded as UTF-8.
    """
    if envelope.type not in ("MD", "DT"):
        raise InvalidInputError(f"an envelope must have the type 'MD' or 'DT', not {envelope.type!r}")
    if envelope.form == "json" and isinstance(envelope.message, dict):
        document = {
            "magic": MAGIC.decode(),
            "type": envelope.type,
            "headers": envelope.headers,
            "messageSchemaId": envelope.schema_id,
            "messageSchema": envelope.schema,
            "message": envelope.message,
        }
        return encode_json(document)
    if envelope.form == "avro" and isinstance(envelope.message, bytes):
        parts = [MAGIC, encode_string(envelope.type)]
        parts.append(b"\0" if envelope.headers is None else b"\2" + _encode_headers(envelope.headers))
        for text in (envelope.schema_id, envelope.schema):
            parts.append(b"\0" if text is None else b"\2" + encode_string(text))
        parts.append(encode_string(envelope.message))
        return b"".join(parts)
    raise InvalidInputError(
        f"an envelope of form {envelope.form!r} cannot have a message of type {type(envelope.message).__name__}",
        advice="Use bytes in an Avro envelope, and a dict in a JSON envelope",
    )


def _encode_headers(headers: Mapping[str, str]) -> bytes:
    pairs = b"".join(encode_string(key) + encode_string(value) for key, value in headers.items())
    return (encode_long(len(headers)) + pairs + b"\0") if headers else b"\0"


def _decode_avro(data: bytes) -> Envelope:
    reader = AvroReader(data, len(MAGIC))
    kind = reader.pull_string("the envelope's type")
    if kind not in ("MD", "DT"):
        raise DecodeError(f"the envelope has the unknown type {kind[:40]!r}", len(MAGIC))
    headers = reader.pull_map("the envelope's headers") if reader.pull_index(2, "the envelope's headers") else None
    schema_id = reader.pull_string("messageSchemaId") if reader.pull_index(2, "messageSchemaId") else None
    schema = reader.pull_string("messageSchema") if reader.pull_index(2, "messageSchema") else None
    message = reader.pull_bytes("the envelope's message")
    reader.finish("the envelope")
    return Envelope(kind, message, headers, schema_id, schema, "avro")


def _decode_json(data: bytes, layout: MessageFormat) -> Envelope:
    document = decode_json(data, decimals=True)
    if not isinstance(document, dict):
        raise DecodeError("a Replicate message in JSON must be one object", 0)
    if "magic" not in document and layout.fits(document):
        return Envelope("DT", layout.read(document), form="json")
    if "magic" not in document and is_flat(document):
        schema, table, flat = read_flat(document)
        return Envelope("DT", flat, form="json", table=(schema, table))
    if document.get("magic") != MAGIC.decode():
        raise DecodeError("the JSON object is not a Replicate message: it must have the magic 'atMSG', or data and headers", 0)
    kind, message, headers = document.get("type"), document.get("message"), document.get("headers")
    if kind not in ("MD", "DT"):
        raise DecodeError(f"the envelope has the unknown type {str(kind)[:40]!r}", 0)
    if not isinstance(message, dict):
        raise DecodeError(f"the message of a JSON envelope must be an object, not {type(message).__name__}", 0)
    schema_id, own_schema = document.get("messageSchemaId"), _to_text(document.get("messageSchema"))
    if isinstance(schema_id, bool) or not isinstance(schema_id, (str, int, type(None))):
        raise DecodeError(f"the envelope's messageSchemaId must be a string or null, not {type(schema_id).__name__}", 0)
    if kind == "DT":
        message = layout.read(message)
    return Envelope(kind, message, _to_texts(headers), None if schema_id is None else str(schema_id), own_schema, "json")


def _to_texts(headers: object) -> dict[str, str] | None:
    """Return an envelope's headers as strings; empty if the headers are not an object."""
    if not isinstance(headers, dict):
        return None
    return {name: _to_text(value) or "" for name, value in headers.items()}


def _to_text(value: object) -> str | None:
    """Return a string unchanged, and any other JSON value as JSON text."""
    return value if isinstance(value, str) or value is None else encode_json(value).decode()
