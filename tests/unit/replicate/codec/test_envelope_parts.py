"""Unit tests of headstream.replicate.codec.envelope_parts."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from types import ModuleType

import pytest

from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec import Envelope, decode_envelope, encode_envelope
from headstream.replicate.codec.avro.values import encode_long, encode_string
from headstream.replicate.codec.envelope_parts import BROKEN, DATA, JSON, METADATA, NEITHER, REGISTRY, UNKNOWN, Envelopes
from tests.unit.replicate.codec.test_envelopes import ID, START, envelopes, split

__all__ = ["envelopes"]  # fixtures

SAMPLES = Path(__file__).parents[3] / "samples" / "replicate"


def part(found: Envelopes, data: bytes, name: str, row: int = 0) -> bytes | None:
    start, end = getattr(found, f"{name}_start")[row], getattr(found, f"{name}_end")[row]
    assert (start < 0) == (end < 0)
    return None if start < 0 else data[start:end]


PAIRS = encode_string("a") + encode_string("1") + encode_string("") + encode_string("")
GOOD = [
    Envelope("DT", b"row", None, ID),
    Envelope("MD", b"", None, ID, "{}"),
    Envelope("DT", bytes(70_000), {"a": "1", "": ""}, "", ""),
    Envelope("DT", b"row", {}, None, None),
    Envelope("MD", b"\xff" * 100, {str(number): "v" for number in range(256)}, "ü" * 100, "s" * 10_000),
]


def test_split_envelopes_finds_the_parts_of_each(envelopes: ModuleType) -> None:
    found, data = split(envelopes, *map(encode_envelope, GOOD))
    assert found.count == len(GOOD)
    assert found.faults == {}
    for row, envelope in enumerate(GOOD):
        assert found.form[row] == (METADATA if envelope.type == "MD" else DATA)
        for name, value in (("id", envelope.schema_id), ("schema", envelope.schema)):
            assert part(found, data, name, row) == (None if value is None else value.encode())
        assert part(found, data, "payload", row) == envelope.message
        pairs = "".join(f"{chr(len(key))}{key}{chr(len(value))}{value}" for key, value in (envelope.headers or {}).items())
        headers = part(found, data, "headers", row)
        assert (headers is None) == (envelope.headers is None)
        assert headers is None or len(headers) == len(pairs) + (3 if len(envelope.headers or {}) > 63 else 2 if pairs else 1)


@pytest.mark.parametrize(
    ("message", "form"),
    [
        (b"", NEITHER),
        (b"atMS", NEITHER),
        (b"atMSg\x04DT", NEITHER),
        (b"text", NEITHER),
        (b"\x00\x00\x00\x07", NEITHER),
        (b" \t\r\n", NEITHER),
        (b"\x0b{}", NEITHER),
        (b"atMSG", BROKEN),
        (START, BROKEN),
        (START + b"\0\0\0", BROKEN),
        (START + b"\0\0\0\x04r", BROKEN),
        (START + b"\0\0\0\x02rs", BROKEN),
        (START + b"\0\0\0\x01", BROKEN),
        (START + b"\0\0\x04\x02r", BROKEN),
        (START + b"\0\x02\x02\xff\0\x02r", BROKEN),
        (START + b"\0\x02" + encode_long(2**62), BROKEN),
        (START + b"\x02" + encode_long(2**60) + b"\0\0\0\0", BROKEN),
        (START + b"\x02" + encode_long(-(2**63)) + b"\0\0\0\0\0", BROKEN),
        (START + b"\x02" + encode_long(257) + b"\0\0" * 257 + b"\0\0\0\0", BROKEN),
        (START + b"\x02\x04" + (encode_string("k") + encode_string("v")) * 2 + b"\0\0\0\0", BROKEN),
        (START + b"\x02\x02\x02k\x02\xff\0\0\0\0", BROKEN),
        (START + b"\x02\x01\x7f\x02k\x02v\0\0\0\0", BROKEN),
        (b"atMSG\x04dt\0\0\0\0", UNKNOWN),
        (b"atMSG\x00\0\0\0\0", UNKNOWN),
        (b"atMSG\x06DTX\0\0\0\0", UNKNOWN),
    ],
)
def test_split_envelopes_says_what_is_wrong_as_decode_envelope_does(envelopes: ModuleType, message: bytes, form: int) -> None:
    good = encode_envelope(GOOD[0])
    found, data = split(envelopes, good, message, good)
    assert list(found.form) == [DATA, form, DATA]
    assert list(found.faults) == [1]
    with pytest.raises(DecodeError) as caught:
        decode_envelope(message)
    assert str(found.faults[1]) == str(caught.value)
    assert all(part(found, data, name, 1) is None for name in ("id", "schema", "payload", "headers"))
    assert part(found, data, "payload", 0) == part(found, data, "payload", 2) == b"row"


@pytest.mark.parametrize("blocks", [b"\x04" + PAIRS, b"\x02" + PAIRS[:4] + b"\x02" + PAIRS[4:], b"\x03" + b"\x0c" + PAIRS])
def test_split_envelopes_walks_over_headers_in_any_blocks(envelopes: ModuleType, blocks: bytes) -> None:
    message = START + b"\x02" + blocks + b"\0" + b"\x02\x02i\0\x02r"
    found, data = split(envelopes, message)
    assert list(found.form) == [DATA]
    assert part(found, data, "headers") == blocks + b"\0"
    assert (part(found, data, "id"), part(found, data, "payload")) == (b"i", b"r")
    assert decode_envelope(message).headers == {"a": "1", "": ""}


def test_split_envelopes_knows_json_and_registry_framing(envelopes: ModuleType) -> None:
    messages = [b' \t\r\n{"data": 1}', b"\x00\x00\x00\x00\x07row", b"\x00\x00\x00\x00\x07"]
    found, data = split(envelopes, *messages)
    assert list(found.form) == [JSON, REGISTRY, REGISTRY]
    assert [part(found, data, "payload", row) for row in range(3)] == [messages[0], b"row", b""]
    assert found.faults == {}


def test_split_envelopes_takes_offsets_that_begin_later_and_none_at_all(envelopes: ModuleType) -> None:
    message = encode_envelope(GOOD[0])
    found = envelopes.split_envelopes(array("i", [3, 3 + len(message)]).tobytes(), b"xyz" + message + b"more")
    assert (list(found.form), found.payload_start[0]) == ([DATA], 3 + len(message) - 3)
    for offsets in (b"", array("i", [0]).tobytes()):
        found = envelopes.split_envelopes(offsets, b"")
        assert (found.count, list(found.form), list(found.payload_start), found.faults) == (0, [], [], {})
        assert envelopes.group_by_schema(found, b"") == {}
        assert envelopes.ungrouped_rows(found) == []


@pytest.mark.parametrize("offsets", [[0, 2], [1, 0], [-1, 1], [0, -1]])
def test_split_envelopes_refuses_offsets_that_are_not_in_the_data(envelopes: ModuleType, offsets: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="message 0"):
        envelopes.split_envelopes(array("i", offsets).tobytes(), b"x")
    with pytest.raises(InvalidInputError, match="int32"):
        envelopes.split_envelopes(b"12345", b"x")


def test_split_envelopes_reads_the_samples(envelopes: ModuleType) -> None:
    names = ["synth_MD_employees_salaries.avro.bin", "synth_DT_employees_salaries_refresh.avro.bin", "db2_item_DT_update.json"]
    found, data = split(envelopes, *((SAMPLES / name).read_bytes() for name in names))
    assert list(found.form) == [METADATA, DATA, JSON]
    assert part(found, data, "id", 0) == part(found, data, "id", 1) == ID.encode()
    assert json.loads(part(found, data, "schema", 0) or b"")["name"] == "MetadataMessage"
    assert part(found, data, "schema", 1) is None
