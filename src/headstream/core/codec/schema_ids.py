"""Reads a schema id of a schema registry, which is stored before a payload or key, or in a header.

    00 | number int32, big-endian        a number
    01 | 16 bytes                        a GUID

Serializers of Confluent's clients write these bytes before a payload, or into the headers `__key_schema_id` and
`__value_schema_id`. As in Confluent's deserializers, a header takes precedence. The bytes after an id in a header (the message
indexes of Protobuf) are skipped.
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from headstream.core.model.headers import Headers

KEY_SCHEMA_HEADER: Final = "__key_schema_id"
VALUE_SCHEMA_HEADER: Final = "__value_schema_id"
_NUMBER_BYTES: Final = 5
_GUID_BYTES: Final = 17


class SchemaId(NamedTuple):
    """A schema id: a number or a GUID.

    Args:
        begin: Position in the payload or key at which the value begins; 0 for an id in a header.
    """

    number: int | None
    guid: str | None
    begin: int

    def to_bytes(self) -> bytes:
        """Encode the id for a header."""
        return b"\0" + (self.number or 0).to_bytes(4, "big") if self.guid is None else b"\1" + uuid.UUID(self.guid).bytes

    def __str__(self) -> str:
        return str(self.number) if self.guid is None else self.guid


def read_schema_id(data: bytes) -> SchemaId | None:
    """Return the id at the beginning of bytes; None if they do not begin with an id."""
    if len(data) >= _NUMBER_BYTES and data[0] == 0:
        return SchemaId(int.from_bytes(data[1:_NUMBER_BYTES], "big"), None, _NUMBER_BYTES)
    if len(data) >= _GUID_BYTES and data[0] == 1:
        return SchemaId(None, str(uuid.UUID(bytes=bytes(data[1:_GUID_BYTES]))), _GUID_BYTES)
    return None


def find_schema_id(data: bytes, headers: Headers, *, is_key: bool = False) -> SchemaId | None:
    """Return the schema id of a value, from the last header for schema ids or the bytes before the value, or None."""
    named = headers.getall(KEY_SCHEMA_HEADER if is_key else VALUE_SCHEMA_HEADER)
    found = read_schema_id(named[-1].data) if named else None
    if found is not None:
        return found._replace(begin=0)
    before = read_schema_id(data)
    return before if before is not None and before.guid is None else None
