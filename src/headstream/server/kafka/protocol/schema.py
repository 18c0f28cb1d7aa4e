"""Schemas of Kafka's protocol, which list the fields of requests and responses by version and determine the encoding.

    find_coordinator request key=10 versions=0-4 flexible=3+
      key string 0-3                          in versions 0 to 3
      coordinator_keys []string 4+            from version 4 on
      coordinators [] 4+ {                    an array of structures
        error_message string ?                nullable (`?2+`: from version 2 on)
        node_id int32 =-1                     the default, if it is not 0, "" or empty
        leader struct tag=1 {                 a tagged field
      }

A message is a dict of values by field name. Numbers are big-endian. In flexible versions, a length is stored as an unsigned
varint of the length plus 1 (0: null), and a structure ends with tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError
from headstream.server.kafka.protocol.field_reading import Cursor, make_reader
from headstream.server.kafka.protocol.field_writing import Write, make_writer
from headstream.server.kafka.protocol.schema_text import KafkaField, parse_text


@dataclass(frozen=True, eq=False)  # hashed by identity, for each request
class Schema:
    """A request or a response in all versions.

    Args:
        name: Name of the API, for example `list_offsets`.
        flexible_from: The first flexible version, or None.
    """

    name: str
    api_key: int
    first_version: int
    last_version: int
    flexible_from: int | None
    fields: tuple[KafkaField, ...]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version is flexible."""
        return self.flexible_from is not None and version >= self.flexible_from

    def decode(self, version: int, data: BytesLike) -> dict[str, Any]:
        """Decode a message to values by field name; surplus bytes are ignored. Records are views. DecodeError if invalid."""
        cursor = Cursor(memoryview(data))
        try:
            return _reader_of(self, version)(cursor)
        except (struct.error, UnicodeDecodeError) as error:
            raise DecodeError(f"{self.name} version {version}: {error}", cursor.at) from None

    def encode(self, version: int, values: Mapping[str, Any]) -> list[BytesLike]:
        """Encode a message to pieces; missing fields get defaults, and fields of other versions are omitted."""
        pieces: list[BytesLike] = [bytearray()]
        _writer_of(self, version)(pieces, values)
        return [piece for piece in pieces if len(piece)]


@lru_cache(maxsize=1024)
def _reader_of(schema: Schema, version: int) -> Callable[[Cursor], dict[str, Any]]:
    return make_reader(schema.fields, version, is_flexible=schema.is_flexible(version))


@lru_cache(maxsize=1024)
def _writer_of(schema: Schema, version: int) -> Write:
    return make_writer(schema.fields, version, is_flexible=schema.is_flexible(version))


def parse_schemas(text: str) -> dict[tuple[str, str], Schema]:
    """Parse schemas in the notation above; return schemas by name and `request` or `response`. ValueError if invalid."""
    return {
        (name, way): Schema(name, key, first, last, flexible, fields)
        for name, way, key, first, last, flexible, fields in parse_text(text)
    }
