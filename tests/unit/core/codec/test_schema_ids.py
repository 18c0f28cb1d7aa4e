"""Unit tests of headstream.core.codec.schema_ids."""

from __future__ import annotations

import uuid

import headstream as hs
from headstream.core.codec.schema_ids import VALUE_SCHEMA_HEADER, SchemaId, find_schema_id, read_schema_id

_GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_read_schema_id_reads_a_number_or_a_guid_and_nothing_else() -> None:
    assert read_schema_id(b"\x00\x00\x00\x01\x02") == (258, None, 5)
    assert read_schema_id(bytes.fromhex("0189791762233641869674299b90a802e2")) == (None, _GUID, 17)
    assert read_schema_id(b"") is read_schema_id(b"\x00\x00\x01") is read_schema_id(b"\x02" * 20) is None


def test_find_schema_id_takes_the_header_before_the_payload() -> None:
    guid = hs.raw(b"\x01" + uuid.UUID(_GUID).bytes)
    assert find_schema_id(b"\x00\x00\x00\x00\x07x", hs.Headers({VALUE_SCHEMA_HEADER: guid})) == SchemaId(None, _GUID, 0)
    assert find_schema_id(b"\x00\x00\x00\x00\x07x", hs.Headers({VALUE_SCHEMA_HEADER: hs.raw(b"?")})) == SchemaId(7, None, 5)
    assert find_schema_id(b"\x00\x00\x00\x00\x07x", hs.Headers({VALUE_SCHEMA_HEADER: guid}), is_key=True) == SchemaId(7, None, 5)
    assert find_schema_id(b"\x01" * 17, hs.Headers({})) is None
