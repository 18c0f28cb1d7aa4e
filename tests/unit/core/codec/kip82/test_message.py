"""Messages and message sets of KIP-82 and of the formats before it."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest

import headstream as hs
from headstream.core.codec import kip82
from headstream.core.codec.batch.stored.scan import crc32c
from headstream.errors import DecodeError
from tests.support.messages.broken import breakages, refusal
from tests.support.messages.kip82 import header, message

BLOCK = header("attempt", 4, b"\0\0\0\3") + header("trace", 8, b"abc") + header("gone", None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (message(b"v"), kip82.Kip82Message(value=b"v")),
        (message(b"", key=b""), kip82.Kip82Message(value=b"", key=b"")),
        (
            message(None, BLOCK, key=b"42"),
            kip82.Kip82Message(value=None, key=b"42", headers=hs.Headers.from_bytes(BLOCK, kip82.STRICT)),
        ),
        (message(b"v", magic=0), kip82.Kip82Message(value=b"v", magic=0, timestamp_ms=None)),
        (
            message(b"v", magic=1, timestamp_ms=5, attributes=8, offset=7),
            kip82.Kip82Message(value=b"v", magic=1, timestamp_ms=5, by_log=True, offset=7),
        ),
    ],
    ids=["least", "empty", "tombstone", "magic 0", "magic 1"],
)
def test_a_message_is_spelled_field_by_field(data: bytes, expected: kip82.Kip82Message) -> None:
    assert kip82.decode_message(b"??" + data + b"!", 2) == (expected, len(data) + 2)
    assert kip82.encode_message(expected) == data
    assert kip82.encode_message(replace(expected)) == data


def test_without_headers_only_the_magic_and_the_checksum_tell_it_from_magic_1() -> None:
    two, one = message(b"v", key=b"k", timestamp_ms=5), message(b"v", key=b"k", timestamp_ms=5, magic=1)
    assert (two[:12], two[17:]) == (one[:12], one[17:])
    assert len(message(b"", key=None)) == 12 + 22


def test_the_checksum_covers_the_headers() -> None:
    data = message(b"v", BLOCK)
    at = data.index(b"abc")
    with pytest.raises(DecodeError, match=r"the stored checksum of a message is 0x.*at byte 12"):
        kip82.decode_message(data[:at] + b"abd" + data[at + 3 :])


def test_a_flag_without_headers_is_read_and_not_written() -> None:
    found, _ = kip82.decode_message(message(b"v", b""))
    assert not found.headers
    assert kip82.encode_message(found) == message(b"v", b"")
    assert kip82.encode_message(replace(found)) == message(b"v")


def test_a_bad_header_block_does_not_keep_the_value_from_being_read() -> None:
    data = message(b"the value", header("k", 4, b"abc"), offset=3)
    found, _ = kip82.decode_message(data)
    assert (found.value, kip82.to_message(found).payload, kip82.to_message(found).offset) == (b"the value", b"the value", 3)
    with pytest.raises(DecodeError, match=r"4 bytes needed, 3 available \(header 'k'\)") as caught:
        found.headers["k"]
    assert data[caught.value.at : caught.value.at + 3] == b"abc"
    assert kip82.encode_message(found) == data


def test_kafkas_own_record_batch_is_told_apart_by_its_checksum() -> None:
    records = bytes(60)
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + records
    batch = struct.pack(">qiib", 0, len(body) + 9, 0, 2) + struct.pack(">I", crc32c(body)) + body
    with pytest.raises(DecodeError, match="the bytes are a Kafka record batch"):
        kip82.decode_message(batch)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (message(b"v", magic=3), "magic 3 is not 0, 1 or 2 at byte 16"),
        (message(b"v")[:20], "cut short"),
        (message(b"v")[:10], "a message header is cut short"),
        (struct.pack(">qiIbB", 0, 5, 0, 2, 0), "must have a size of 22 or more, not 5 at byte 8"),
        (struct.pack(">qiIbB", 0, -1, 0, 0, 0), "must have a size of 14 or more, not -1"),
        (message(b"v", attributes=0x20), "attributes 0x20 have bits that are undefined in magic 2 at byte 17"),
        (message(b"v", b"", magic=1, attributes=0), "the length of the value|unexpected bytes"),
    ],
)
def test_decode_message_refuses_invalid_bytes_with_their_place(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        kip82.decode_message(data)


def test_lenient_passes_over_unknown_attributes_and_forwards_them() -> None:
    data = message(b"v", attributes=0x60)
    found, _ = kip82.decode_message(data, layout=kip82.LENIENT)
    assert kip82.encode_message(found) == data


@pytest.mark.parametrize("layout", [kip82.STRICT, kip82.LENIENT], ids=["strict", "lenient"])
def test_every_truncation_and_changed_byte_is_a_value_or_a_decode_error(layout: kip82.TypedHeaders) -> None:
    data = message(b"value", BLOCK, key=b"k", offset=3) + kip82.encode_message(
        kip82.wrap([kip82.Kip82Message(value=b"w", offset=4)])
    )

    def read(data: bytes) -> None:
        for one in kip82.decode_set(data, layout=layout, max_bytes=1 << 16).messages:
            one.headers.items()

    def read_with_its_checksum_mended(data: bytes) -> None:
        body = data[16:]
        read(data[:8] + struct.pack(">iI", len(body) + 4, zlib.crc32(body)) + body)

    refused = sum(refusal(read, one) is not None for one in breakages(data))
    assert refused > len(data)
    first = message(b"value", BLOCK, key=b"k")
    refused = sum(refusal(read_with_its_checksum_mended, one) is not None for one in breakages(first) if len(one) > 40)
    assert refused > len(first)
