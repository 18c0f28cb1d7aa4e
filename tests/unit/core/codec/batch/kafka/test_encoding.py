"""Header blocks into Kafka's headers: the kernel does what the record functions do, compiled and interpreted."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.kafka import KafkaHeader, encode_record
from headstream.core.model.constructors import bool_
from headstream.core.model.headers import Headers
from headstream.errors import InvalidInputError
from tests.support import kernels
from tests.support.messages.kafka_columns import kafka_rows, varied

kernel = kernels.fixture("batch.kafka.encoding")


def encode(kernel: Any, rows: Sequence[bytes | None]) -> tuple[list[list[KafkaHeader]], bytes]:
    made = kernel.encode_kafka_headers(len(rows), varied(rows))
    return kafka_rows(made.lists, made.keys, made.values), bytes(made.flags)


def expected(headers: Headers) -> list[KafkaHeader]:
    return list(encode_record(hs.Message(payload=b"", headers=headers)).headers)


_TYPED = Headers(
    [
        ("name", hs.string("Zoë")), ("empty", hs.string("")), ("bytes", hs.raw(b"\x00\xff")), ("yes", bool_(True)),
        ("no", bool_(False)), ("i8", hs.int8(-128)), ("i16", hs.int16(-1)), ("i32", hs.int32(0)), ("i64", hs.int64(-(2**63))),
        ("i128", hs.int128(-(2**127))), ("u8", hs.uint8(255)), ("u64", hs.uint64(2**64 - 1)), ("u128", hs.uint128(2**128 - 1)),
        ("f32", hs.float32(0.1)), ("f64", hs.float64(1e300)), ("sixteen", hs.float64(1e16)), ("minus", hs.float64(-0.0)),
        ("nan", hs.float64(float("nan"))), ("nan", hs.float32(float("nan"))), ("inf", hs.float32(float("-inf"))),
        ("null", hs.null()), ("char", hs.char("é")), ("euro", hs.char("€")), ("ascii", hs.char("x")),
        ("a&b=c,d%~_.-", hs.uint16(7)), ("again", hs.raw(b"1")), ("again", hs.string("1")), ("again", hs.null()),
        ("f200", hs.HeaderValue(200, b"\x01")), ("f66", hs.HeaderValue(66, b"")), ("f16", hs.HeaderValue(16, b"x")),
        ("hs.timestamp", hs.int64(5)),
    ]
)  # fmt: skip


def test_encode_kafka_headers_writes_every_kind_as_the_record_functions_do(kernel: Any) -> None:
    plain = Headers([("n", b"3"), ("null", None)])
    rows, flags = encode(kernel, [_TYPED.as_bytes(), None, b"", plain.as_bytes(), Headers({"one": 1}).as_bytes()])
    assert rows == [expected(_TYPED), [], [], expected(plain), expected(Headers({"one": 1}))]
    assert flags == bytes(5)


_RARE = [
    Headers({"hs.kinds": "x"}).as_bytes(),
    Headers({"hs.timestamps": 1}).as_bytes(),
    Headers({"kafka_dlt-original-partition": hs.int32(2)}).as_bytes(),
    Headers({"odd": hs.HeaderValue(15, b"\x01" + b"\xff" * 7)}).as_bytes(),
    Headers({"odd": hs.HeaderValue(14, b"\x01\x00\xc0\x7f")}).as_bytes(),
    Headers({"half": hs.char("\ud800")}).as_bytes(),
    Headers([("n", number) for number in range(65)]).as_bytes(),
    b"\x01\0\0\0a\x04\x02\0\0\0xx",
    b"no block",
]


@pytest.mark.parametrize("block", _RARE)
def test_encode_kafka_headers_leaves_a_row_when_it_takes_the_record_functions(kernel: Any, block: bytes) -> None:
    plain = Headers([("a", 1), ("b", None), ("c", b"")])
    rows, flags = encode(kernel, [plain.as_bytes(), plain.as_bytes() + block, plain.as_bytes()])
    assert flags == b"\0\1\0"
    assert rows == [expected(plain), [], expected(plain)]


def test_encode_kafka_headers_refuses_buffers_when_they_do_not_fit(kernel: Any) -> None:
    with pytest.raises(InvalidInputError, match="headers: the offsets of value 0"):
        kernel.encode_kafka_headers(1, VariableColumn(struct.pack("<2i", 0, 9), b"short"))
    assert encode(kernel, []) == ([], b"")
