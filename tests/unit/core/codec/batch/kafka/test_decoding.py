"""Kafka's headers into header blocks: the kernel does what the record functions do, compiled and interpreted."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.kafka import KafkaHeader, KafkaRecord, decode_record, encode_record
from headstream.core.model.constructors import bool_
from headstream.errors import InvalidInputError
from tests.support import kernels
from tests.support.messages.kafka_columns import kafka_columns, varied

kernel = kernels.fixture("batch.kafka.decoding")


def blocks_of(decoded: Any) -> list[bytes]:
    offsets = struct.unpack(f"<{len(decoded.blocks.offsets) // 4}i", decoded.blocks.offsets)
    return [bytes(decoded.blocks.data[begin:end]) for begin, end in pairwise(offsets)]


def expected(row: Sequence[KafkaHeader]) -> bytes:
    return decode_record(KafkaRecord(value=b"x", headers=tuple(row)), on_loss="drop").headers.as_bytes()


_TYPED = hs.Headers(
    [
        ("name", hs.string("Zoë")), ("empty", hs.string("")), ("bytes", hs.raw(b"\x00\xff")), ("yes", bool_(True)),
        ("no", bool_(False)), ("i8", hs.int8(-128)), ("i16", hs.int16(32767)), ("i64", hs.int64(-(2**63))),
        ("i128", hs.int128(-(2**127))), ("top", hs.int128(2**127 - 1)), ("u8", hs.uint8(255)), ("u64", hs.uint64(2**64 - 1)),
        ("u128", hs.uint128(2**128 - 1)), ("f32", hs.float32(0.1)), ("f64", hs.float64(1e300)), ("minus", hs.float64(-0.0)),
        ("nan", hs.float64(float("nan"))), ("inf", hs.float32(float("-inf"))), ("null", hs.null()), ("char", hs.char("é")),
        ("euro", hs.char("€")), ("ascii", hs.char("x")), ("a&b=c,d%", hs.uint16(7)), ("again", hs.int32(1)),
        ("again", hs.string("1")), ("again", hs.raw(b"1")), ("again", hs.null()),
        ("future", hs.HeaderValue(200, b"\x01\x02")),
        ("hs.timestamp", hs.int64(5)),
    ]
)  # fmt: skip


def test_decode_kafka_headers_gives_every_kind_when_our_own_records_are_read(kernel: Any) -> None:
    message = hs.Message(payload=b"p", headers=_TYPED, id=77, timestamp=1_700_000_000_123_456)
    rows = [encode_record(message).headers, (), (("n", b"3"), ("null", None))]
    decoded = kernel.decode_kafka_headers(*kafka_columns(rows))
    assert blocks_of(decoded) == [_TYPED.as_bytes(), b"", hs.Headers([("n", b"3"), ("null", None)]).as_bytes()]
    assert (bytes(decoded.flags), decoded.dropped_count) == (bytes(3), 0)


_ODD: list[tuple[bytes, list[bytes | None]]] = [
    (b"a=uint8", [b"300"]), (b"a=uint8", [b"-0"]), (b"a=uint8", [b"-1"]), (b"a=int8", [b"-129"]), (b"a=int8", [b"007"]),
    (b"a=int8", [b""]), (b"a=int8", [b"-"]), (b"a=uint64", [b"18446744073709551616"]), (b"a=int64", [b"9223372036854775808"]),
    (b"a=int64", [b"-9223372036854775809"]), (b"a=uint128", [b"340282366920938463463374607431768211456"]),
    (b"a=int128", [b"170141183460469231731687303715884105728"]), (b"a=uint128", [b"9" * 39]), (b"a=uint128", [b"9" * 40]),
    (b"a=int128", [b"-170141183460469231731687303715884105729"]), (b"a=float64", [b"0x1p3"]), (b"a=float64", [b"1_0"]),
    (b"a=float64", [b"1."]), (b"a=float64", [b".5"]), (b"a=float64", [b"1e5"]), (b"a=float64", [b"1e+05"]),
    (b"a=float64", [b"1e1234"]), (b"a=float64", [b"1e999"]), (b"a=float64", [b"-nan"]), (b"a=float64", [b"infinity"]),
    (b"a=float64", [b"in"]), (b"a=float64", [b"1e"]), (b"a=float32", [b"1e39"]), (b"a=float32", [b"-inf"]),
    (b"a=float32", [b"3.4028235677973366e38"]), (b"a=float32", [b"1e-60"]), (b"a=string", [b"\xff"]), (b"a=char", [b"ab"]),
    (b"a=char", [b""]), (b"a=char", ["😀".encode()]), (b"a=char", [b"\xed\xa0\x80"]), (b"a=char", [b"\xc0\x80"]),
    (b"a=char", [b"\xe9"]), (b"a=bool", [b"True"]), (b"a=bool", [b"falsx"]), (b"a=null", [b"x"]), (b"a=raw", [b"x"]),
    (b"a=3", [b"true"]), (b"a=003", [b"true"]), (b"a=0", [b"1"]), (b"a=999", [b"1"]), (b"a=200", [b"1"]), (b"a=256", [b"1"]),
    (b"a=1x", [b"1"]), (b"a=decimal", [b"1"]), (b"a=uint8,uint8", [b"1"]), (b"a=uint8", [b"1", b"2"]),
    (b"a=uint8,", [b"1", b"2"]), (b"a=uint8&a=int8", [b"1"]), (b"a=uint8&a", [b"1"]), (b"&=&a=int8&", [b"1"]),
    (b"%61=int8", [b"1"]), (b"%6=int8&a=", [b"1"]), (b"a=int8=int8", [b"1"]), (b"a%=int8", [b"1"]), (b"", [b"1"]),
    (b"a=uint8,string,null", [b"1", b"x", None]), (b"a=uint8", [None]),
]  # fmt: skip


@pytest.mark.parametrize(("kinds", "values"), _ODD)
def test_decode_kafka_headers_guesses_nothing_when_the_kinds_do_not_fit(
    kernel: Any, kinds: bytes, values: list[bytes | None]
) -> None:
    row = [*(("a", value) for value in values), ("b", b"1"), ("hs.kinds", kinds)]
    decoded = kernel.decode_kafka_headers(*kafka_columns([row]))
    assert bytes(decoded.flags) == b"\0"
    assert blocks_of(decoded) == [expected(row)]


_RARE: list[list[KafkaHeader]] = [
    [("n", b"3"), ("spring_json_header_types", b'{"n":"java.lang.Long"}')],
    [("n", b'{"schema":{"type":"int32"},"payload":3}')],
    [("ce_specversion", b"1.0"), ("ce_id", b"1")],
    [("kafka_dlt-original-offset", bytes(8))],
    [("__connect.errors.topic", b"t")],
    [("a", b"nan"), ("hs.kinds", b"a=float64:010000000000f87f")],
    [("hs.kinds", b"a=int8"), ("a", b"1"), ("hs.kinds", b"a=bool")],
    [("hs.id", b"7")], [("hs.state", b"poisoned")], [("hs.appended", b"-1")], [("hs.id", None)],
    [(f"k{number}", b"1") for number in range(65)],
    [("a", b"1" * 64), ("hs.kinds", b"a=float64")],
    [("a", b"1"), ("hs.kinds", b"&".join([b"a=int8"] * 65))],
    [("a", b"1"), ("hs.kinds", "a=int8&é=bool".encode())],
]  # fmt: skip


@pytest.mark.parametrize("row", _RARE)
def test_decode_kafka_headers_leaves_a_row_when_it_takes_the_record_functions(kernel: Any, row: list[KafkaHeader]) -> None:
    plain = [("n", b"3")]
    decoded = kernel.decode_kafka_headers(*kafka_columns([plain, row, plain]))
    assert bytes(decoded.flags) == bytes([0, kernel.FALLBACK_ROW, 0])
    assert blocks_of(decoded) == [expected(plain), b"", expected(plain)]


def test_decode_kafka_headers_counts_what_no_message_can_have(kernel: Any) -> None:
    rows = [[("a", b"1")], [("", b"1"), ("k" * 256, b"2"), ("a", b"1"), ("k" * 255, b"3"), ("hs.kinds", b"a=int8")]]
    decoded = kernel.decode_kafka_headers(*kafka_columns(rows))
    assert (bytes(decoded.flags), decoded.dropped_count) == (bytes([0, kernel.LOSSY_ROW]), 2)
    assert blocks_of(decoded) == [expected(row) for row in rows]
    strict = kernel.decode_kafka_headers(*kafka_columns(rows), strict=True)
    assert (bytes(strict.flags), strict.dropped_count) == (bytes([0, kernel.FALLBACK_ROW]), 0)


def test_decode_kafka_headers_refuses_buffers_when_they_do_not_fit(kernel: Any) -> None:
    count, lists, keys, values = kafka_columns([[("a", b"1")]])
    with pytest.raises(InvalidInputError, match="keys: the buffers are too short"):
        kernel.decode_kafka_headers(count, lists, varied([]), values)
    with pytest.raises(InvalidInputError, match="values: the offsets of value 0"):
        kernel.decode_kafka_headers(count, lists, keys, values._replace(data=b""))
