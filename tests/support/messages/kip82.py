"""Messages of KIP-82, spelled out field by field: what the codec is tested against."""

from __future__ import annotations

import struct
import zlib


def header(key: str | bytes, code: int | None, body: bytes = b"") -> bytes:
    """Return a header; without a code, null."""
    name = key.encode() if isinstance(key, str) else key
    value = struct.pack(">i", -1) if code is None else struct.pack(">iB", len(body) + 1, code) + body
    return struct.pack(">i", len(name)) + name + value


def message(
    value: bytes | None,
    headers: bytes | None = None,
    *,
    key: bytes | None = None,
    offset: int = 0,
    magic: int = 2,
    attributes: int | None = None,
    timestamp_ms: int = -1,
) -> bytes:
    """Return a message; `headers` None leaves their length out as well."""
    if attributes is None:
        attributes = 0 if headers is None else 0x10
    body = struct.pack(">bB", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp_ms)
    body += _nullable(key)
    if headers is not None:
        body += struct.pack(">i", len(headers)) + headers
    body += _nullable(value)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def _nullable(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
