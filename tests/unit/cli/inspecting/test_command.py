"""`headstream inspect`: any bytes, recognised, field by field, with the place where they break."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import headstream as hs
from headstream.cli.inspecting.recognition import FORMATS, Recognized, read_as, recognize
from headstream.cli.main import cli
from headstream.cli.shared.lines import encode_line
from headstream.core.codec import json as json_transport
from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.binary import encode_polled, encode_sent
from headstream.core.codec.kip82 import Kip82Message, encode_message, wrap
from headstream.log.segments.layout import IndexEntry, encode_entry
from headstream.log.segments.layout import encode_header as encode_index_header
from tests.support.messages.batches import header
from tests.support.messages.broken import breakages
from tests.support.messages.kip82 import header as typed_header
from tests.support.messages.kip82 import message as typed_message

HEADERS = hs.Headers([("trace", "abc"), ("attempt", hs.uint8(3))])
MESSAGES = [
    hs.Message(payload=b"hello %d" % n, headers=HEADERS, key=b"42", offset=n, timestamp=1700000000000000 + n, id=n + 5)
    for n in range(3)
]
BLOCK = typed_header("attempt", 4, b"\0\0\0\3") + typed_header("trace", 8, b"abc")


def later(reserved: bool, key_kinds: bool = False) -> bytes:
    """Messages of the generation after the states, by its description."""
    block = header("trace", 2, b"abc")
    if key_kinds:
        block = b"\x02" + block
    payload = b"hello"
    head = struct.pack("<Q16sQQQII", 0, bytes(16), 7, 1700000000000000, 1700000000000000, len(block), len(payload))
    return (head + (bytes(8) if reserved else b"") + payload + block) * 2


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def kafka_batch(compression: int = 0) -> bytes:
    """A record batch of Kafka's magic 2, by its description."""
    body = b"\0" + varint(0) + varint(0) + varint(1) + b"k" + varint(5) + b"hello" + varint(2)
    body += varint(5) + b"trace" + varint(3) + b"abc" + varint(4) + b"gone" + varint(-1)
    records = varint(len(body)) + body
    if compression:
        records = gzip.compress(records)
    tail = struct.pack(">hiqqqhii", compression, 0, 1700000000000, 1700000000000, -1, -1, -1, 1) + records
    return struct.pack(">qiibI", 3, len(tail) + 9, 0, 2, crc32c(tail)) + tail


def index() -> bytes:
    entries = [IndexEntry(100 * n, 100, 500 + 5 * n, 5, 1700000000000000 + n, 0xABCD) for n in range(2)]
    return encode_index_header(500) + b"".join(encode_entry(entry, 500) for entry in entries)


def response(data: bytes) -> bytes:
    return struct.pack("<IIIQI", 0, len(data) + 16, 1, 2, 3) + data


INPUTS: dict[str, tuple[str, bytes]] = {
    "stored": ("binary", encode_polled(MESSAGES)),
    "first": ("binary-first", encode_polled(MESSAGES, dialect="binary-first")),
    "sent": ("binary-sent", encode_sent(MESSAGES)),
    "56": ("iggy-56", later(False)),
    "64": ("iggy-64", later(True)),
    "64 with kinds of keys": ("iggy-64", later(True, True)),
    "response": ("iggy-response", response(encode_polled(MESSAGES))),
    "kip82": ("kip82", typed_message(b"hello", BLOCK, key=b"k", timestamp_ms=1700000000000) + typed_message(None, offset=1)),
    "kip82 wrapper": ("kip82", encode_message(wrap([Kip82Message(value=b"hello", offset=9)]))),
    "magic 0": ("kip82", typed_message(b"hello", magic=0)),
    "kafka": ("kafka", kafka_batch() + kafka_batch()),
    "kafka gzip": ("kafka", kafka_batch(1)),
    "index": ("index", index()),
    "json": ("json", json_transport.encode_polled(MESSAGES, 1, 2)),
    "json sent": ("json", json_transport.encode_sent(MESSAGES)),
    "lines": ("lines", "".join(f"{encode_line(message)}\n" for message in MESSAGES).encode()),
    "headers": ("headers", HEADERS.as_bytes()),
    "kip82 headers": ("kip82-headers", BLOCK),
    "replicate": ("replicate", b'{"magic": "atMSG", "type": "DT", "headers": null, "messageSchemaId": null, '
                  b'"messageSchema": null, "message": {"data": {"ID": 1}, "beforeData": null, "headers": '
                  b'{"operation": "INSERT", "changeSequence": "1", "timestamp": "2026-01-31T12:00:00.000"}}}'),
}  # fmt: skip


def run(*arguments: str, input: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["inspect", *arguments], input=input)


def values(found: Recognized) -> dict[str, str]:
    return {field.name: field.value for field in found.reader.fields}


@pytest.mark.parametrize("name", INPUTS)
def test_every_format_is_recognised_whole(name: str) -> None:
    dialect, data = INPUTS[name]
    found = recognize(data)
    assert (found.dialect, str(found.fault)) == (dialect, "None")
    assert found.reader.fields
    for field in found.reader.fields:
        assert 0 <= field.at <= field.at + field.size_bytes <= len(data)


def test_inputs_cover_every_format_that_inspect_recognizes() -> None:
    assert {dialect for dialect, _ in INPUTS.values()} == FORMATS.keys() - {"iggy-request"}


def test_fields_stand_at_their_bytes_and_headers_with_their_kinds() -> None:
    data = INPUTS["kip82"][1]
    found = {field.name: field for field in recognize(data).reader.fields}
    assert found["message 0 value"].value == "hello"
    assert data[found["message 0 value"].at :][:5] == b"hello"
    headers = [field for field in recognize(data).reader.fields if field.name == "message 0 header"]
    assert [field.value for field in headers] == ["attempt=int32:3", "trace=string:abc"]
    assert [data[field.at : field.at + field.size_bytes] for field in headers] == [BLOCK[:20], BLOCK[20:]]
    assert found["message 1 value"].value == "(null)"
    kafka = values(recognize(INPUTS["kafka"][1]))
    assert (kafka["record 0 value"], kafka["record 0 header"]) == ("hello", "gone=null")


@pytest.mark.parametrize(
    ("name", "at", "text"),
    [
        ("stored", 36, "the checksum at byte 33 does not match the payload"),
        ("stored", 8, "the state at byte 8 is unknown: 254"),
        ("kip82", 14, "the checksum at byte 12 does not match the bytes"),
        ("kafka", 18, "the checksum at byte 17 does not match the batch"),
        ("index", 40, "the entry at byte 32 is incomplete"),
    ],
)
def test_inspect_notes_the_place_of_a_wrong_byte_that_decoding_survives(name: str, at: int, text: str) -> None:
    dialect, data = INPUTS[name]
    found = recognize(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    assert (found.dialect, found.fault) == (dialect, None)
    assert any(text in note for note in found.reader.notes)


def test_an_incomplete_last_message_is_noted() -> None:
    for name in ("kip82", "kafka"):
        dialect, data = INPUTS[name]
        found = recognize(data[:-3])
        assert (found.dialect, found.fault) == (dialect, None)
        assert "is truncated, which is normal for a fetch" in found.reader.notes[0]


@pytest.mark.parametrize("name", INPUTS)
def test_every_truncation_and_changed_byte_is_explained(name: str) -> None:
    dialect, data = INPUTS[name]
    for broken in breakages(data[:400], flips=(0x80,)):
        found = read_as(dialect, broken, limit=2)
        assert found.fault is None or (found.fault.what and 0 <= found.fault.at <= len(broken))


def test_the_command_prints_fields_and_fails_where_bytes_break(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.write_bytes(INPUTS["stored"][1])
    broken.write_bytes(INPUTS["stored"][1][:-3])
    result = run(str(whole))
    assert result.exit_code == 0
    assert "Iggy messages with state and checksum" in result.output
    assert "attempt=uint8:3" in result.output
    result = run(str(whole), str(broken), "--output", "json")
    assert result.exit_code == 1
    assert f"payload is cut short at byte {len(INPUTS['stored'][1]) - 7}: 7 bytes needed, 4 available ({broken})" in result.stderr
    one, two = json.loads(result.stdout)
    assert (one["format"], one["count"], one["fault"]) == ("binary", 3, None)
    assert (two["fault"]["need"], two["fault"]["have"]) == (7, 4)
    assert run("-", "--as", "binary-sent", input=INPUTS["sent"][1]).exit_code == 0
    assert run("-", "--limit", "1", input=INPUTS["stored"][1]).output.count("offset") == 1
