"""Messages as bytes, spelled out field by field: what the kernels and the codec are tested against."""

from __future__ import annotations

import struct
import zlib


def header(key: str | bytes, kind: int, value: bytes) -> bytes:
    name = key.encode() if isinstance(key, str) else key
    return struct.pack("<I", len(name)) + name + struct.pack("<BI", kind, len(value)) + value


def sent(payload: bytes, headers: bytes = b"", message_id: int = 0) -> bytes:
    body = struct.pack("<I", len(headers)) + headers + struct.pack("<I", len(payload)) + payload
    return message_id.to_bytes(16, "little") + body


def stored(
    payload: bytes, headers: bytes = b"", *, offset: int = 0, state: int = 1, timestamp_us: int = 0, message_id: int = 1
) -> bytes:
    head = struct.pack("<QBQ", offset, state, timestamp_us) + message_id.to_bytes(16, "little")
    body = struct.pack("<II", zlib.crc32(payload), len(headers)) + headers + struct.pack("<I", len(payload)) + payload
    return head + body


def masked(messages: list[bytes]) -> bytes:
    """Return stored messages with their state bytes set to 0."""
    return b"".join(message[:8] + b"\0" + message[9:] for message in messages)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C by its definition, a byte of a table at a time."""
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = [_entry(value) for value in range(256)]
