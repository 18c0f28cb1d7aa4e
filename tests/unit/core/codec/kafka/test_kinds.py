"""Unit tests of headstream.core.codec.kafka.kinds."""

from __future__ import annotations

import pytest

import headstream as hs
from headstream.core.codec.kafka import KafkaRecord, decode_record, encode_record
from headstream.core.model.constructors import bool_
from headstream.core.model.header_values import HeaderValue

_ALL = [
    ("name", hs.string("Zoë")), ("empty", hs.string("")), ("bytes", hs.raw(b"\x00\xff")), ("no bytes", hs.raw(b"")),
    ("yes", bool_(True)), ("no", bool_(False)), ("i8", hs.int8(-128)), ("i64", hs.int64(-(2**63))),
    ("i128", hs.int128(-(2**127))), ("u8", hs.uint8(3)), ("u128", hs.uint128(2**128 - 1)), ("f32", hs.float32(0.1)),
    ("f64", hs.float64(1e300)), ("minus", hs.float64(-0.0)), ("nan", hs.float64(float("nan"))),
    ("inf", hs.float32(float("-inf"))),
    ("null", hs.null()), ("char", hs.char("é")), ("half", hs.char("\ud800")), ("odd nan", HeaderValue(15, b"\x01" + b"\xff" * 7)),
    ("future", HeaderValue(200, b"\x01\x02")), ("a&b=c,d%", hs.uint16(7)), ("again", hs.int32(1)), ("again", hs.string("1")),
    ("again", hs.raw(b"1")), ("again", hs.null()),
]  # fmt: skip


def test_encode_record_gives_back_every_kind_when_it_is_decoded() -> None:
    message = hs.Message(
        payload=b"p",
        key=b"",
        headers=hs.Headers(_ALL),
        id=77,
        state=hs.MessageState.POISONED,
        timestamp=1_700_000_000_123_456,
        checksum=5,
    )
    record = encode_record(message)
    assert decode_record(record) == message
    assert record.timestamp_ms == 1_700_000_000_123
    assert [key for key, _ in record.headers[-5:]] == ["hs.kinds", "hs.id", "hs.state", "hs.appended", "hs.checksum"]


def test_encode_record_adds_nothing_when_no_header_is_typed() -> None:
    record = encode_record(hs.Message(payload=b"", headers=hs.Headers({"a": b"1", "b": None}), timestamp=5_000))
    assert record.headers == (("a", b"1"), ("b", None))
    assert (record.value, record.key, record.timestamp_ms) == (b"", None, 5)


@pytest.mark.parametrize(
    ("headers", "kinds", "expected"),
    [
        ([("a", b"x")], b"a=uint8", [("a", hs.raw(b"x"))]),  # rewritten on the way
        ([("a", b"300")], b"a=uint8", [("a", hs.raw(b"300"))]),
        ([("a", None)], b"a=uint8", [("a", hs.null())]),
        ([("a", b"1"), ("a", b"2")], b"a=uint8", [("a", hs.raw(b"1")), ("a", hs.raw(b"2"))]),  # one was added
        ([("b", b"1"), ("a", b"2")], b"a=uint8", [("b", hs.raw(b"1")), ("a", hs.uint8(2))]),
        ([("a", b"1")], b"a=uint8&gone=string", [("a", hs.uint8(1))]),
        ([("a", b"1")], b"\xff\x00&=&a&%zz=bool", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], b"a=decimal", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], b"a=0", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], b"a=999", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], "a=²".encode(), [("a", hs.raw(b"1"))]),
        ([("a", b"0x1p3")], b"a=float64", [("a", hs.raw(b"0x1p3"))]),
        ([("a", b"1_0")], b"a=float64", [("a", hs.raw(b"1_0"))]),
        ([("a", b"1e39")], b"a=float32", [("a", hs.raw(b"1e39"))]),
        ([("a", b"\xff")], b"a=string", [("a", hs.raw(b"\xff"))]),
        ([("a", b"nan")], b"a=float64:01ff", [("a", hs.raw(b"nan"))]),
        ([("a", b"5")], b"a=float64:01ffffffffffffff", [("a", hs.raw(b"5"))]),  # the text was changed, the bits were not
        ([("a", b"True")], b"a=bool", [("a", hs.raw(b"True"))]),
    ],
)
def test_decode_record_guesses_nothing_when_the_kinds_do_not_fit(
    headers: list[tuple[str, bytes | None]], kinds: bytes, expected: list[tuple[str, HeaderValue]]
) -> None:
    message = decode_record(KafkaRecord(value=b"", headers=(*headers, ("hs.kinds", kinds))))
    assert list(message.headers.items()) == expected
