"""Replicate's envelope, in Avro and JSON: what is written is read, what is broken is refused by name."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec import Envelope, decode_envelope, encode_envelope
from headstream.replicate.codec.avro.values import encode_long, encode_string

SCHEMA = fastavro.parse_schema(json.loads((Path(__file__).parents[3] / "samples" / "replicate" / "envelope.avsc").read_text()))
ID = "8FB9D3C10EA4B25751DF9CC8318F0A02"
ENVELOPES = [
    Envelope("DT", b""),
    Envelope("DT", b"row", None, ID),
    Envelope("MD", b"metadata", {}, ID, "{}"),
    Envelope("DT", bytes(300), {"a": "1", "": "", "ü": "é" * 100}, "", ""),
    Envelope("DT", b"row", {str(number): "v" for number in range(256)}, "short"),
    Envelope("MD", b"row", None, "x" * 1000, None),
]
START = b"atMSG\x04DT"


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_encode_envelope_and_fastavro_write_and_read_the_same(envelope: Envelope) -> None:
    encoded = encode_envelope(envelope)
    record = {
        "magic": b"atMSG",
        "type": envelope.type,
        "headers": envelope.headers,
        "messageSchemaId": envelope.schema_id,
        "messageSchema": envelope.schema,
        "message": envelope.message,
    }
    assert fastavro.schemaless_reader(io.BytesIO(encoded), SCHEMA) == record
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, record)
    assert decode_envelope(out.getvalue()) == envelope
    assert decode_envelope(encoded) == envelope


def test_decode_envelope_takes_headers_in_blocks_with_their_sizes() -> None:
    pair = encode_string("a") + encode_string("1")
    blocks = encode_long(-1) + encode_long(len(pair)) + pair + encode_long(1) + encode_string("b") + encode_string("2") + b"\0"
    assert decode_envelope(START + b"\x02" + blocks + b"\0\0\x02r") == Envelope("DT", b"r", {"a": "1", "b": "2"})


@pytest.mark.parametrize(
    ("value", "what", "at"),
    [
        (b"", "not a Replicate message", 0),
        (b"atMS", "not a Replicate message", 0),
        (b"atmsg\x04DT", "not a Replicate message", 0),
        (b"\x00\x00\x00\x00\x07abc", "registry.*schema 7", 0),
        (b"atMSG", "type is cut short", 5),
        (b"atMSG\x04DD\0\0\0\0", "unknown type 'DD'", 5),
        (b"atMSG\x06DTX\0\0\0\0", "unknown type 'DTX'", 5),
        (b"atMSG\x04\xff\xff\0\0\0\0", "not UTF-8", 6),
        (START, "headers is cut short", 8),
        (START + b"\x04", "must be below 2, not 2", 8),
        (START + b"\0\x01", "messageSchemaId must be below 2, not -1", 9),
        (START + b"\0\x02\x02\xc3\0\0", "messageSchemaId is not UTF-8", 11),
        (START + b"\0\0\x02\x01", "messageSchema has the negative length", 12),
        (START + b"\0\0\0\x04r", "message is cut short", 12),
        (START + b"\0\0\0\x02rs", "1 unexpected bytes", 13),
        (START + b"\x02" + encode_long(2**60) + b"\0\0\0\0", "headers has more", 9),
        (START + b"\x02" + encode_long(257) + b"\0\0" * 257 + b"\0\0\0\0", "more than 256 entries", 11),
        (START + b"\x02\x04" + (encode_string("k") + encode_string("v")) * 2 + b"\0\0\0\0", "'k' twice", 14),
        (b"[]", "not a Replicate message", 0),
        (b"{", "not JSON", 1),
        (b'  {"a" 1}', "not JSON", 7),
        (b'{"\xff": 1}', "not UTF-8", 2),
        (b"{}", "must have the magic", 0),
        (b'{"data": {}}', "must have the magic", 0),
        (b'{"magic": "atmsg", "type": "DT", "message": {}}', "must have the magic", 0),
        (b'{"magic": "atMSG", "type": "XX", "message": {}}', "unknown type 'XX'", 0),
        (b'{"magic": "atMSG", "type": "DT", "message": "text"}', "must be an object, not str", 0),
        (b'{"magic": "atMSG", "type": "DT", "message": {}, "messageSchemaId": ["1"]}', "messageSchemaId", 0),
        (b'{"data": {"a": 1, "a": 2}, "headers": {}}', "'a' is repeated", 0),
        (b'{"data": {"a": NaN}, "headers": {}}', "NaN", 0),
        (b'{"data": {"a": 1e99999999999999999999}, "headers": {}}', "out of range", 0),
        (b'{"data": {"a": ' + b"9" * 5000 + b'}, "headers": {}}', "decoded without loss", 0),
        (b'{"data": {"a": "\\ud800"}, "headers": {}}', "surrogate", 0),
        (b'{"data": ' + b"[" * 100_000, "too deeply", 0),
    ],
)
def test_decode_envelope_says_what_is_wrong_and_where(value: bytes, what: str, at: int) -> None:
    with pytest.raises(DecodeError, match=what) as caught:
        decode_envelope(value)
    assert caught.value.at == at


@pytest.mark.parametrize(
    ("members", "envelope"),
    [
        ('"headers": [1]', Envelope("DT", {}, form="json")),
        (
            '"headers": {"a": 1.50, "b": {"c": 2}, "d": null}',
            Envelope("DT", {}, {"a": "1.50", "b": '{"c":2}', "d": ""}, form="json"),
        ),
        ('"messageSchemaId": 7, "messageSchema": {"type": "record"}', Envelope("DT", {}, None, "7", '{"type":"record"}', "json")),
    ],
)
def test_decode_envelope_spells_members_as_text_when_json_has_other_types(members: str, envelope: Envelope) -> None:
    value = f'{{"magic": "atMSG", "type": "DT", "message": {{}}, {members}}}'.encode()
    assert decode_envelope(value) == envelope


def test_envelope_keeps_every_digit_of_a_json_number_when_it_is_written_again() -> None:
    numbers = '{"a":123456789012345678.91,"b":[1E+400,-0,0.10,1.5E-7],"c":"\\u00e9"}'.replace("\\\\", "\\")
    value = f'{{"magic":"atMSG","type":"DT","headers":null,"messageSchemaId":null,"messageSchema":null,"message":{numbers}}}'
    assert encode_envelope(decode_envelope(value.encode())).decode() == value.replace("\\u00e9", "é")


def test_decode_envelope_takes_a_data_message_in_json_without_its_envelope() -> None:
    message: dict[str, Any] = {"data": {"a": 1}, "beforeData": None, "headers": {"operation": "INSERT"}}
    assert decode_envelope(b" \r\n\t" + json.dumps(message).encode()) == Envelope("DT", message, form="json")


def test_encode_envelope_writes_json_with_all_its_members() -> None:
    envelope = Envelope("DT", {"data": {"ü": "é"}}, {"a": "b"}, None, None, "json")
    encoded = encode_envelope(envelope)
    assert list(json.loads(encoded)) == ["magic", "type", "headers", "messageSchemaId", "messageSchema", "message"]
    assert decode_envelope(encoded) == envelope


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope("XX", b""),
        Envelope("DT", {}),
        Envelope("DT", b"", form="json"),
        Envelope("DT", b"", form="xml"),  # type: ignore[arg-type]
        Envelope("DT", b"", None, "\ud800"),
        Envelope("DT", {"a": float("nan")}, form="json"),
        Envelope("DT", {"a": b""}, form="json"),
        Envelope("DT", {"a": "\ud800"}, form="json"),
    ],
)
def test_encode_envelope_refuses_what_cannot_be_written(envelope: Envelope) -> None:
    with pytest.raises(InvalidInputError):
        encode_envelope(envelope)
