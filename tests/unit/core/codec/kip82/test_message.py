"""Messages and message sets of KIP-82 and of the formats before it."""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings

import headstream as hs
from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.kip82 import (
    LENIENT,
    STRICT,
    Kip82Message,
    TypedHeaders,
    decode_message,
    decode_set,
    down_convert,
    encode_message,
    encode_set,
    from_message,
    to_message,
    wrap,
)
from headstream.errors import DecodeError, HeaderError, InvalidInputError, MissingExtraError
from tests.support.messages.broken import breakages, refusal
from tests.support.messages.headers import MESSAGES
from tests.support.messages.kip82 import header, message

BLOCK = header("attempt", 4, b"\0\0\0\3") + header("trace", 8, b"abc") + header("gone", None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (message(b"v"), Kip82Message(value=b"v")),
        (message(b"", key=b""), Kip82Message(value=b"", key=b"")),
        (message(None, BLOCK, key=b"42"), Kip82Message(value=None, key=b"42", headers=hs.Headers.from_bytes(BLOCK, STRICT))),
        (message(b"v", magic=0), Kip82Message(value=b"v", magic=0, timestamp_ms=None)),
        (
            message(b"v", magic=1, timestamp_ms=5, attributes=8, offset=7),
            Kip82Message(value=b"v", magic=1, timestamp_ms=5, by_log=True, offset=7),
        ),
    ],
    ids=["least", "empty", "tombstone", "magic 0", "magic 1"],
)
def test_a_message_is_spelled_field_by_field(data: bytes, expected: Kip82Message) -> None:
    assert decode_message(b"??" + data + b"!", 2) == (expected, len(data) + 2)
    assert encode_message(expected) == data
    assert encode_message(replace(expected)) == data


def test_without_headers_only_the_magic_and_the_checksum_tell_it_from_magic_1() -> None:
    two, one = message(b"v", key=b"k", timestamp_ms=5), message(b"v", key=b"k", timestamp_ms=5, magic=1)
    assert (two[:12], two[17:]) == (one[:12], one[17:])
    assert len(message(b"", key=None)) == 12 + 22


def test_the_checksum_covers_the_headers() -> None:
    data = message(b"v", BLOCK)
    at = data.index(b"abc")
    with pytest.raises(DecodeError, match=r"the checksum of a message is 0x.*at byte 12"):
        decode_message(data[:at] + b"abd" + data[at + 3 :])


def test_a_flag_without_headers_is_read_and_not_written() -> None:
    found, _ = decode_message(message(b"v", b""))
    assert not found.headers
    assert encode_message(found) == message(b"v", b"")
    assert encode_message(replace(found)) == message(b"v")


def test_a_bad_header_block_does_not_keep_the_value_from_being_read() -> None:
    data = message(b"the value", header("k", 4, b"abc"), offset=3)
    found, _ = decode_message(data)
    assert (found.value, to_message(found).payload, to_message(found).offset) == (b"the value", b"the value", 3)
    with pytest.raises(DecodeError, match=r"4 bytes needed, 3 there \(header 'k'\)") as caught:
        found.headers["k"]
    assert data[caught.value.at : caught.value.at + 3] == b"abc"
    assert encode_message(found) == data


def test_kafkas_own_record_batch_is_told_apart_by_its_checksum() -> None:
    records = bytes(60)
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + records
    batch = struct.pack(">qiib", 0, len(body) + 9, 0, 2) + struct.pack(">I", crc32c(body)) + body
    with pytest.raises(DecodeError, match="a Kafka record batch of format 2"):
        decode_message(batch)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (message(b"v", magic=3), "magic 3 is not 0, 1 or 2 at byte 16"),
        (message(b"v")[:20], "cut short"),
        (message(b"v")[:10], "the head of a message is cut short"),
        (struct.pack(">qiIbB", 0, 5, 0, 2, 0), "has a size of 22 or more, not 5 at byte 8"),
        (struct.pack(">qiIbB", 0, -1, 0, 0, 0), "has a size of 14 or more, not -1"),
        (message(b"v", attributes=0x20), "attributes 0x20 have bits that are undefined in magic 2 at byte 17"),
        (message(b"v", b"", magic=1, attributes=0), "the length of the value|too many"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode_message(data)


def test_lenient_passes_over_unknown_attributes_and_forwards_them() -> None:
    data = message(b"v", attributes=0x60)
    found, _ = decode_message(data, layout=LENIENT)
    assert encode_message(found) == data


@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_says_what_it_drops(magic: int) -> None:
    found, _ = decode_message(message(b"v", BLOCK, key=b"k", timestamp_ms=5, offset=9))
    converted, lost = down_convert(found, magic)
    assert encode_message(converted) == message(b"v", key=b"k", timestamp_ms=5, magic=magic, offset=9)
    names = ["header 'attempt' (int32)", "header 'trace' (string)", "header 'gone' (null)"]
    assert list(lost) == names + (["timestamp 5 ms"] if magic == 0 else [])
    with pytest.raises(InvalidInputError, match="cannot be converted down"):
        down_convert(converted, 2)


def test_a_set_ends_with_a_message_that_is_cut_off() -> None:
    data = message(b"first") + message(b"second", BLOCK, offset=1)
    for size in range(len(data) + 1):
        found = decode_set(data[:size])
        ends = [0, len(message(b"first")), len(data)]
        whole = sum(end <= size for end in ends) - 1
        assert [m.value for m in found.messages] == [b"first", b"second"][:whole]
        assert (found.end, found.incomplete_bytes) == (ends[whole], size - ends[whole])
    assert encode_set(decode_set(data).messages) == data


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_gzip_wrapper_is_unpacked_with_the_offsets_of_its_magic(magic: int) -> None:
    messages = [Kip82Message(value=b"v%d" % n, offset=40 + n, magic=magic, timestamp_ms=n if magic else None) for n in range(3)]
    if magic == 2:
        messages[1] = replace(messages[1], headers=hs.Headers.from_bytes(BLOCK, STRICT))
    wrapper = wrap(messages)
    assert wrapper.offset == 42
    assert decode_set(encode_message(wrapper) + message(b"after", magic=magic, offset=43)).messages == [
        *messages, decode_message(message(b"after", magic=magic, offset=43))[0],
    ]  # fmt: skip
    inner = gzip.decompress(wrapper.value or b"")
    assert [struct.unpack_from(">q", inner)[0]] == [40 if magic == 0 else 0]


def test_messages_in_a_wrapper_with_the_logs_time_have_that_time() -> None:
    inner = message(b"a", magic=1, timestamp_ms=5) + message(b"b", magic=1, offset=1, timestamp_ms=6)
    data = message(gzip.compress(inner), magic=1, attributes=0x09, timestamp_ms=99, offset=11)
    assert [(m.offset, m.timestamp_ms, m.by_log) for m in decode_set(data).messages] == [(10, 99, True), (11, 99, True)]


@pytest.mark.parametrize(("compression", "name"), [(2, "snappy"), (3, "lz4")])
def test_snappy_and_lz4_are_unpacked_by_what_is_given_and_else_name_the_package(compression: int, name: str) -> None:
    inner = message(b"a", BLOCK) + message(b"b", offset=1)
    packed = pa.Codec(name).compress(inner, asbytes=True)
    data = message(packed, attributes=compression, offset=1)
    codec = pa.Codec(name)
    found = decode_set(data, decompressors={compression: lambda packed, most: codec.decompress(packed, len(inner), asbytes=True)})
    assert [m.value for m in found.messages] == [b"a", b"b"]
    try:
        __import__(name)
    except ImportError:
        with pytest.raises(MissingExtraError, match=f"compressed with {name} need a package.*pip install"):
            decode_set(data)
    else:
        assert [m.value for m in decode_set(data).messages] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (message(b"no gzip", attributes=1), "bytes that are not gzip"),
        (message(gzip.compress(message(b"v"))[:-9], attributes=1), "cut short"),
        (message(None, attributes=1), "is null"),
        (message(gzip.compress(b""), attributes=1), "without a message"),
        (message(gzip.compress(b"?"), attributes=1), r"the head of a message is cut short \(byte 0 of the decompressed set\)"),
        (message(gzip.compress(message(gzip.compress(b""), attributes=1)), attributes=1), "in another one"),
        (message(gzip.compress(message(b"v")), BLOCK, attributes=0x11), "has headers of its own"),
        (message(b"v", attributes=5), "the compression 5 is not one of"),
        (message(gzip.compress(bytes(1 << 20)), attributes=1), "decompress to more than 100000 bytes"),
    ],
    ids=["no gzip", "cut", "null", "empty", "no messages", "nested", "headers", "compression", "too much"],
)
def test_a_broken_wrapper_is_refused_by_its_place(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text) as caught:
        decode_set(message(b"before") + data, max_bytes=100_000)
    assert caught.value.at == len(message(b"before"))


@settings(max_examples=100)
@given(MESSAGES)
def test_a_message_comes_back_with_all_it_has(given: hs.Message) -> None:
    headers = hs.Headers([(key, value) for key, value in given.headers.items() if spellable(value)])
    given = replace(given, headers=headers, checksum=7 if given.id % 3 == 0 else given.checksum)
    (again,) = [to_message(m) for m in decode_set(encode_set([from_message(given)])).messages]
    assert again == given


def spellable(value: hs.HeaderValue) -> bool:
    return value.kind in (1, 2, 3, 4, 5, 6, 7, 14, 15, 64) or (value.kind == 65 and not "\ud800" <= str(value) <= "\udfff")


def test_carried_headers_count_only_in_their_places_and_when_they_fit() -> None:
    plain = [
        ("hs.id", hs.raw(b"short")),
        ("hs.state", hs.int16(300)),
        ("hs.checksum", hs.int64(-1)),
        ("hs.appended", hs.int64(5)),
    ]
    for pair in plain:
        block = hs.Headers([pair]).as_bytes(STRICT)
        assert to_message(decode_message(message(b"v", block))[0]).headers == hs.Headers([pair])
    later = hs.Headers([("a", True), ("hs.id", hs.raw(bytes(16)))])
    assert to_message(from_message(hs.Message(payload=b"v", headers=later, offset=0))).headers == later
    with pytest.raises(HeaderError, match=r"'hs\.id' is reserved in the first position"):
        from_message(hs.Message(payload=b"v", headers=hs.Headers([("hs.id", hs.raw(bytes(16)))])))


@pytest.mark.parametrize("layout", [STRICT, LENIENT], ids=["strict", "lenient"])
def test_every_truncation_and_changed_byte_is_a_value_or_a_decode_error(layout: TypedHeaders) -> None:
    data = message(b"value", BLOCK, key=b"k", offset=3) + encode_message(wrap([Kip82Message(value=b"w", offset=4)]))

    def read(data: bytes) -> None:
        for one in decode_set(data, layout=layout, max_bytes=1 << 16).messages:
            one.headers.items()

    def read_with_its_checksum_mended(data: bytes) -> None:
        body = data[16:]
        read(data[:8] + struct.pack(">iI", len(body) + 4, zlib.crc32(body)) + body)

    refused = sum(refusal(read, one) is not None for one in breakages(data))
    assert refused > len(data)
    first = message(b"value", BLOCK, key=b"k")
    refused = sum(refusal(read_with_its_checksum_mended, one) is not None for one in breakages(first) if len(one) > 40)
    assert refused > len(first)
