"""The typed header block of KIP-82, strict and lenient."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.kip82 import LENIENT, STRICT, HeaderLimits, TypedHeaders
from headstream.errors import DecodeError, HeaderError, LimitError
from tests.support.messages.kip82 import header

SPELLED = [
    ("boolean", hs.bool(True), 0x00, b"\x01"),
    ("byte", hs.int8(-2), 0x01, b"\xfe"),
    ("char", hs.char("ß"), 0x02, b"\x00\xdf"),
    ("short", hs.int16(-2), 0x03, b"\xff\xfe"),
    ("int", hs.int32(258), 0x04, b"\x00\x00\x01\x02"),
    ("long", hs.int64(123456), 0x05, bytes.fromhex("000000000001e240")),
    ("float", hs.float32(1.5), 0x06, struct.pack(">f", 1.5)),
    ("double", hs.float64(-0.1), 0x07, struct.pack(">d", -0.1)),
    ("string", hs.string("żółw"), 0x08, "żółw".encode()),
    ("empty", hs.string(""), 0x08, b""),
    ("bytes", hs.raw(b"\x00\xff"), 0x09, b"\x00\xff"),
    ("null", hs.null(), None, b""),
]


def read(block: bytes, layout: TypedHeaders = STRICT) -> hs.Headers:
    headers = hs.Headers.from_bytes(block, layout)
    headers.items()
    return headers


@pytest.mark.parametrize(("key", "value", "code", "body"), SPELLED, ids=[row[0] for row in SPELLED])
@pytest.mark.parametrize("layout", [STRICT, LENIENT], ids=["strict", "lenient"])
def test_every_type_is_spelled_as_the_proposal_says(
    layout: TypedHeaders, key: str, value: hs.HeaderValue, code: int | None, body: bytes
) -> None:
    block = header(key, code, body)
    assert hs.Headers({key: value}).as_bytes(layout) == block
    assert read(block, layout)[key] == value


def test_the_block_of_the_fact_sheet_is_spelled_byte_by_byte() -> None:
    assert hs.Headers().put_long("key_3", 123456).as_bytes(STRICT).hex(" ", 1) == (
        "00 00 00 05 6b 65 79 5f 33 00 00 00 09 05 00 00 00 00 00 01 e2 40"
    )


def test_repeats_and_their_whole_order_are_kept() -> None:
    block = header("a", 4, bytes(4)) + header("b", 8, b"x") + header("a", 0, b"\1")
    headers = read(block)
    assert headers.items() == (("a", hs.int32(0)), ("b", hs.string("x")), ("a", hs.bool(True)))
    assert hs.Headers(headers.items()).as_bytes(STRICT) == block


def test_a_nan_keeps_its_bits() -> None:
    block = header("nan", 7, bytes.fromhex("7ff0000000000123"))
    assert hs.Headers(read(block).items()).as_bytes(STRICT) == block


def test_nothing_is_decoded_before_the_first_look_and_only_what_is_looked_at() -> None:
    block = header("good", 8, b"x") + header("bad", 8, b"\xff") + header("long", 5, bytes(8))
    headers = hs.Headers.from_bytes(block, STRICT, at=100)
    assert headers["good"] == "x"
    assert headers.keys() == ("good", "bad", "long")
    assert headers["long"] == 0
    with pytest.raises(DecodeError, match=r"UTF-8, but byte 0 is invalid at byte 126 \(header 'bad'\)"):
        headers["bad"]
    assert headers.as_bytes(STRICT) == block


@pytest.mark.parametrize(
    ("block", "value"),
    [(header("k", code, b""), None) for code in range(8)]
    + [(struct.pack(">i", 1) + b"k" + struct.pack(">i", 0), None), (header("k", 0, b"\x07"), True)],
)
def test_what_the_proposal_contradicts_is_refused_strictly_and_read_leniently(block: bytes, value: object) -> None:
    with pytest.raises(DecodeError, match="header 'k'"):
        read(block)
    headers = read(block, LENIENT)
    assert headers["k"] == value
    assert headers.as_bytes(LENIENT) == headers.as_bytes(STRICT) == block


def test_an_empty_key_is_read_leniently_and_never_written() -> None:
    block = header("", 8, b"x")
    with pytest.raises(DecodeError, match="a header key is empty"):
        read(block)
    assert read(block, LENIENT)[""] == "x"
    with pytest.raises(HeaderError, match="1 to 255 bytes"):
        hs.Headers({"": "x"})


def test_an_unknown_type_is_kept_and_written_leniently_alone() -> None:
    block = header("later", 0x0A, b"\x01\x02\x03")
    headers = read(block)
    assert (headers["later"].kind, headers["later"].kind_name, headers["later"].data) == (266, "kip82(10)", b"\1\2\3")
    assert headers.as_bytes(STRICT) == block
    copied = hs.Headers(headers.items())
    assert copied.as_bytes(LENIENT) == block
    with pytest.raises(HeaderError, match=r"KIP-82 does not support the kind kip82\(10\)"):
        copied.as_bytes(STRICT)
    with pytest.raises(HeaderError, match=r"the binary transport does not support the kind kip82\(10\)"):
        copied.as_bytes()


def test_half_of_a_surrogate_pair_is_read_and_written_leniently_alone() -> None:
    block = header("half", 2, b"\xd8\x00")
    headers = hs.Headers(read(block).items())
    assert headers["half"].value == "\ud800"
    assert headers.as_bytes(LENIENT) == block
    with pytest.raises(HeaderError, match="surrogate"):
        headers.as_bytes(STRICT)


@pytest.mark.parametrize("value", [hs.uint8(1), hs.uint64(1), hs.int128(1), hs.HeaderValue(200, b"x")])
def test_a_kind_that_the_proposal_has_not_is_refused_by_name(value: hs.HeaderValue) -> None:
    with pytest.raises(HeaderError) as caught:
        hs.Headers({"k": value}).as_bytes(STRICT)
    assert f"KIP-82 does not support the kind {value.kind_name} (header 'k')" in str(caught.value)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b"\0\0\0", "the length of a header key is cut short at byte 0: 4 bytes needed, 3 available"),
        (struct.pack(">i", -1), "a header key has the invalid length -1 at byte 0"),
        (struct.pack(">i", 0x7FFFFFFF) + b"k", "a header key is cut short at byte 4: 2147483647 bytes needed, 1 available"),
        (struct.pack(">i", 1) + b"\xff" + struct.pack(">i", -1), "a header key is not UTF-8 at byte 4"),
        (struct.pack(">i", 1) + b"k" + struct.pack(">i", -2), "the value of the header 'k' has the invalid length -2 at byte 5"),
        (struct.pack(">i", 1) + b"k\0\0", "the length of the value of the header 'k' is cut short at byte 5"),
        (header("k", 8, b"abc")[:-1], "the value of the header 'k' is cut short at byte 9: 4 bytes needed, 3 available"),
        (header("k", 4, b"abc"), r"the int32 value \(0x04\) at byte 10: 4 bytes needed, 3 available \(header 'k'\)"),
    ],
)
@pytest.mark.parametrize("layout", [STRICT, LENIENT], ids=["strict", "lenient"])
def test_headers_are_refused_with_the_place_of_the_fault_when_their_block_is_invalid(
    layout: TypedHeaders, block: bytes, text: str
) -> None:
    with pytest.raises(DecodeError, match=text):
        read(block, layout)


def test_limits_bound_what_is_read_and_written() -> None:
    small = TypedHeaders(limits=HeaderLimits(block_bytes=40, count=2, key_bytes=3, value_bytes=5))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"a": 1, "b": 2, "c": 3}, "at most 2 headers|at most 40 bytes"),
        ({"abcd": True}, "a header key must have at most 3 bytes, not 4"),
        ({"a": "123456"}, "the value of the header 'a' must have at most 6 bytes, not 7"),
        ({"a": b"", "b": b"", "c": b""}, "at most 2 headers"),
    ]
    for headers, text in cases:
        with pytest.raises(DecodeError, match=text):
            read(hs.Headers(headers).as_bytes(STRICT), small)
        with pytest.raises(LimitError):
            hs.Headers(headers).as_bytes(small)
    assert hs.Headers({"a": "123"}).as_bytes(small)
    wide = TypedHeaders(limits=HeaderLimits(key_bytes=1000))
    assert read(header("k" * 300, 0, b"\1"), wide)["k" * 300] == True  # noqa: E712
