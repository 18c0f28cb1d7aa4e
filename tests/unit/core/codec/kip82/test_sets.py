"""Unit tests of headstream.core.codec.kip82.sets."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace

import pyarrow as pa
import pytest

import headstream as hs
from headstream.core.codec.kip82 import STRICT, Kip82Message, decode_message, decode_set, encode_message, encode_set, wrap
from headstream.errors import DecodeError, MissingExtraError
from tests.support.messages.kip82 import message
from tests.unit.core.codec.kip82.test_message import BLOCK


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
        (message(b"no gzip", attributes=1), "the bytes are not valid gzip"),
        (message(gzip.compress(message(b"v"))[:-9], attributes=1), "cut short"),
        (message(None, attributes=1), "is null"),
        (message(gzip.compress(b""), attributes=1), "contains no message"),
        (message(gzip.compress(b"?"), attributes=1), r"a message header is cut short \(byte 0 of the decompressed set\)"),
        (message(gzip.compress(message(gzip.compress(b""), attributes=1)), attributes=1), "contains another compressed"),
        (message(gzip.compress(message(b"v")), BLOCK, attributes=0x11), "must not have headers"),
        (message(b"v", attributes=5), "gzip, snappy or lz4, not 5"),
        (message(gzip.compress(bytes(1 << 20)), attributes=1), "decompress to more than 100000 bytes"),
    ],
    ids=["no gzip", "cut", "null", "empty", "no messages", "nested", "headers", "compression", "too much"],
)
def test_a_broken_wrapper_is_refused_by_its_place(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text) as caught:
        decode_set(message(b"before") + data, max_bytes=100_000)
    assert caught.value.at == len(message(b"before"))
