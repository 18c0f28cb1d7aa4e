"""Unit tests of headstream.server.kafka.protocol.field_reading."""

from __future__ import annotations

import struct

import pytest

from headstream.errors import DecodeError
from headstream.server.kafka.protocol.field_reading import MAX_ELEMENTS
from headstream.server.kafka.protocol.schema import Schema, parse_schemas
from tests.unit.server.kafka.protocol.test_schema import _schemas, _values


@pytest.mark.parametrize(("schema", "way", "version"), _schemas())
def test_schema_refuses_every_cut_when_a_message_is_not_whole(schema: Schema, way: str, version: int) -> None:
    spelled = b"".join(bytes(piece) for piece in schema.encode(version, _values(schema.fields, version, has_nulls=False)))
    for end in range(len(spelled)):
        with pytest.raises(DecodeError):
            schema.decode(version, spelled[:end])


_LISTS = parse_schemas(
    """
lists request key=99 versions=0-1 flexible=1+
  names []string
  things [] {
    inner [] {
      number int8
    }
  }
"""
)["lists", "request"]


@pytest.mark.parametrize("count", [-2, -1, 5, 1 << 20, (1 << 31) - 1])
def test_schema_refuses_an_array_when_it_says_more_than_is_there(count: int) -> None:
    with pytest.raises(DecodeError):
        _LISTS.decode(0, struct.pack(">i", count) + b"\0\1a")


@pytest.mark.parametrize("spelled", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\xff", b"\0", b"\1\1\5\5\0\0"])
def test_schema_refuses_a_flexible_message_when_its_varints_are_hostile(spelled: bytes) -> None:
    with pytest.raises(DecodeError):
        _LISTS.decode(1, spelled)


def test_schema_refuses_a_message_when_all_its_arrays_have_too_many_elements() -> None:
    half = MAX_ELEMENTS // 2 + 1
    spelled = struct.pack(">ii", 0, 2) + 2 * (struct.pack(">i", half) + bytes(half))
    with pytest.raises(DecodeError, match="more elements"):
        _LISTS.decode(0, spelled)


def test_schema_passes_unknown_tagged_fields_over_when_a_message_has_some() -> None:
    assert _LISTS.decode(1, b"\1\1\1\7\3abc") == {"names": [], "things": []}
