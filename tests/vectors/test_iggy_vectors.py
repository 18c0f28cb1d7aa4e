"""The messages in frames that real clients exchanged: decoded as recorded, and encoded to the same bytes again."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.batch.stored.scan import scan
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import decode_polled, decode_sent, encode_polled, encode_sent
from headstream.core.model.message import Message

RECORDS: list[dict[str, Any]] = [
    record for record in json.loads((Path(__file__).parent / "iggy-vectors.json").read_text()) if record["dialect"] == "seed"
]
SENDS = [record for record in RECORDS if record["direction"] == "client_to_server" and record["decoded"].get("code") == 101]
POLLS = [record for record in RECORDS if "messages" in record["decoded"] and "current_offset" in record["decoded"]]


def name_of(record: dict[str, Any]) -> str:
    return f"{record['client'].split()[1]}-{record['name']}"


def sent_part(record: dict[str, Any]) -> bytes:
    """Return a send request's bytes after the frame's head, stream, topic and partitioning."""
    frame = bytes.fromhex(record["hex"])
    length, code = struct.unpack_from("<II", frame)
    assert (length, code) == (len(frame) - 4, 101)
    at = 8
    for _ in range(3):  # each is kind u8 | length u8 | value
        at += 2 + frame[at + 1]
    return frame[at:]


def polled_part(record: dict[str, Any]) -> bytes:
    """Return a poll response's bytes after the frame's head and the head of the reply."""
    frame = bytes.fromhex(record["hex"])
    status, length = struct.unpack_from("<II", frame)
    assert (status, length) == (0, len(frame) - 8)
    return frame[24:]


def headers_of(message: Message) -> dict[str, dict[str, Any]]:
    return {key: {"kind_code": value.kind, "value_hex": value.data.hex()} for key, value in message.headers.items()}


def test_the_vectors_carry_messages_of_every_seed_client() -> None:
    for records in (SENDS, POLLS):
        assert {record["client"].split()[1] for record in records} == {"0.2.0", "0.2.7", "0.4.0"}
    assert len(POLLS) >= 17
    states = {message["state"] for record in POLLS for message in record["decoded"]["messages"]}
    assert states == {1, 10, 20, 30}


@pytest.mark.parametrize("record", SENDS, ids=name_of)
def test_sent_messages_decode_as_recorded_and_encode_to_the_same_bytes(record: dict[str, Any]) -> None:
    data = sent_part(record)
    messages = decode_sent(data)
    expected = record["decoded"]["messages"]
    assert [(m.payload, m.id, len(m.headers)) for m in messages] == [(m["payload"].encode(), int(m["id"]), 0) for m in expected]
    assert encode_sent(messages) == data
    assert stamp(data, 0, 0, bytes(16), False).count == len(expected)


@pytest.mark.parametrize("record", POLLS, ids=name_of)
def test_polled_messages_decode_as_recorded_and_encode_to_the_same_bytes(record: dict[str, Any]) -> None:
    data = polled_part(record)
    messages = decode_polled(data)
    expected = record["decoded"]["messages"]
    assert len(messages) == record["decoded"]["count"]
    for message, recorded in zip(messages, expected, strict=True):
        assert message.payload == bytes.fromhex(recorded["payload_hex"])
        assert (message.offset, message.state) == (recorded["offset"], recorded["state"])
        assert (message.timestamp, message.id) == (recorded["timestamp"], int(recorded["id"]))
        assert message.checksum == recorded["checksum"] == zlib.crc32(message.payload or b"")
        assert headers_of(message) == recorded["headers"]
    assert encode_polled(messages) == data
    found = scan(data)
    assert (found.count, found.end, found.fault) == (len(expected), len(data), None)
