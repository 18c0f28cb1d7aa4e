"""The picture of one message in four dialects; its bytes and texts are what the codecs write."""

from __future__ import annotations

import json
from typing import Final

from tools.svg_picture import Picture

import headstream as hs
from headstream.core.codec import binary
from headstream.core.codec import json as json_transport
from headstream.core.codec.kafka.messages import encode_record

__all__ = ["draw_dialects", "split_binary"]

_MESSAGE: Final = hs.Message(
    payload=b"hello",
    key=b"42",
    headers=hs.Headers({"attempt": hs.uint8(3)}),
    id=162,
    offset=42,
    timestamp=1_700_000_000_000_000,
)
_BYTE: Final = 19
"""Pixels of a byte."""

_FIELDS: Final = (
    ("offset", 8, "box"),
    ("state", 1, "done"),
    ("timestamp", 8, "box"),
    ("id", 16, "box"),
    ("CRC-32", 4, "done"),
    ("headers", 4, "box"),
    ("length, “hs.key”", 10, "main"),
    ("raw, 2 bytes", 5, "main"),
    ("42", 2, "main"),
    ("length, “attempt”", 11, "main"),
    ("uint8, 1 byte", 5, "main"),
    ("3", 1, "main"),
    ("length", 4, "box"),
    ("hello", 5, "done"),
)
_ROWS: Final = (6, 8)
"""How many of the fields are in each row: what each message has, then its headers and its payload."""


def split_binary() -> list[tuple[str, bytes, str]]:
    """Return label, bytes and kind of each field of the message in Iggy's binary form."""
    data, found, at = binary.encode_polled([_MESSAGE]), [], 0
    for label, size, kind in _FIELDS:
        found.append((label, data[at : at + size], kind))
        at += size
    if at != len(data):
        raise AssertionError(f"the fields have {at} of {len(data)} bytes")
    return found


def draw_dialects() -> Picture:
    """Draw the message in each dialect."""
    picture = Picture(
        850,
        460,
        "One message in four dialects: Iggy's binary form byte by byte, Iggy's JSON, a Kafka record, and a row of Spark",
    )
    picture.text(10, 22, "Iggy, binary", "title")
    picture.text(112, 22, "80 bytes, little-endian: as it is sent, stored and polled", "small")
    fields, y = split_binary(), 34
    for count in _ROWS:
        x = 10
        for number, (label, data, kind) in enumerate(fields[:count]):
            width = _BYTE * len(data)
            picture.box(x, y, width, 30, kind=kind)
            for at, byte in enumerate(data):
                picture.text(x + _BYTE * at + _BYTE // 2, y + 20, f"{byte:02x}", "code", anchor="middle")
            drop = 15 if len(data) == 1 and number else 0  # the label is wider than its byte
            picture.text(x + width // 2, y + 44 + drop, label, "small", anchor="middle")
            x += width
        fields, y = fields[count:], y + 70
    _draw_texts(picture, y + 14)
    return picture


def _draw_texts(picture: Picture, y: int) -> None:
    document = json.loads(json_transport.encode_polled([_MESSAGE], 1, 42))["messages"][0]
    pairs = [f'"{name}": {json.dumps(value)}' for name, value in document.items()]
    picture.text(10, y, "Iggy, JSON", "title")
    picture.text(112, y, "header values and payload in base64", "small")
    picture.box(10, y + 10, 830, 66)
    for number, line in enumerate((", ".join(pairs[:5]), pairs[5], ", ".join(pairs[6:]))):
        picture.text(22, y + 30 + 18 * number, line, "code")
    y += 108
    record = encode_record(_MESSAGE)
    picture.text(10, y, "Kafka", "title")
    picture.text(64, y, "values as text; kinds and id are headers of their own", "small")
    picture.box(10, y + 10, 400, 118)
    lines = [f"key    {_text(record.key)}", f"value  {_text(record.value)}"]
    lines += [f"header {name} = {_text(value)}" for name, value in record.headers]
    lines.append(f"timestamp {record.timestamp_ms} ms")
    for number, line in enumerate(lines):
        picture.text(22, y + 30 + 17 * number, line, "code")
    picture.text(440, y, "Spark", "title")
    picture.text(490, y, "declared headers are typed columns", "small")
    picture.box(440, y + 10, 400, 118)
    columns = (
        "offset BIGINT 42, partition INT 1",
        "timestamp TIMESTAMP 2023-11-14 22:13:20",
        f"state STRING available, checksum BIGINT {_MESSAGE.checksum}",
        "id STRING a2000000-0000-…-000000000000",
        "key BINARY 42, payload BINARY hello",
        "attempt TINYINT 3",
    )
    for number, line in enumerate(columns):
        picture.text(452, y + 30 + 17 * number, line, "code")


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode()
