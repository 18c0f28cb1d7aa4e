"""Record batches of Kafka, made field by field for tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headstream.core.codec.batch.checksum import crc32c

_HEAD = struct.Struct(">qiibIhiqqqhii")


class Record(NamedTuple):
    """A record; its time counts from the batch's."""

    key: bytes | None = None
    value: bytes | None = b""
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    time_delta: int = 0


def varint(number: int) -> bytes:
    value, spelled = (number << 1) ^ (number >> 63), bytearray()
    while value > 127:
        spelled.append(value & 127 | 128)
        value >>= 7
    spelled.append(value)
    return bytes(spelled)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def make_records(records: Sequence[Record]) -> bytes:
    parts = []
    for number, record in enumerate(records):
        body = b"\0" + varint(record.time_delta) + varint(number) + _sized(record.key) + _sized(record.value)
        body += varint(len(record.headers)) + b"".join(_sized(name) + _sized(value) for name, value in record.headers)
        parts.append(_sized(body))
    return b"".join(parts)


def make_batch(
    records: bytes, count: int, *, base_ms: int = 1000, attributes: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    """Return a batch of records, which may be compressed, with its checksum."""
    size = _HEAD.size - 12 + len(records)
    head = bytearray(_HEAD.pack(0, size, 0, 2, 0, attributes, count - 1, base_ms, base_ms, *producer, count))
    head[17:21] = crc32c(bytes(head[21:]) + records).to_bytes(4, "big")
    return bytes(head) + records
