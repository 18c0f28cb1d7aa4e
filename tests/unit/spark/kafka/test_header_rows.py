"""Kafka's header arrays as header columns: what the kernel leaves, what is dropped, and where an error is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pytest

import headstream as hs
from headstream.core.codec.batch.results import WantedHeader
from headstream.core.codec.kafka import KafkaHeader, encode_record
from headstream.core.model.headers import Headers
from headstream.errors import DecodeError, HeaderError
from headstream.spark.kafka.header_rows import HeaderDecoder, encode_header_blocks, encode_header_lists, kafka_headers_type
from headstream.spark.source.options import RowShape

_SPRING: list[KafkaHeader] = [("n", b"3"), ("spring_json_header_types", b'{"n":"java.lang.Long"}')]
_LOSSY: list[KafkaHeader] = [("", b"x"), ("n", b"3"), ("k" * 256, None)]


def arrays(rows: Sequence[Sequence[KafkaHeader] | None]) -> pa.ListArray:
    dicts = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    return pa.array(dicts, kafka_headers_type)


def typed(headers: Headers) -> list[KafkaHeader]:
    return list(encode_record(hs.Message(payload=b"", headers=headers)).headers)


def places(count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    return pa.array(["t"] * count), pa.array([2] * count, pa.int32()), pa.array(range(40, 40 + count), pa.int64())


def test_decode_gives_blocks_in_order_when_some_rows_are_left_to_the_record_functions() -> None:
    ours = Headers([("hs.key", b"k"), ("attempt", hs.uint8(3))])
    rows: list[list[KafkaHeader] | None] = [
        _SPRING,
        [("attempt", b"3"), ("hs.kinds", b"attempt=uint8")],
        None,
        [],
        _SPRING,
        [("hs.key", b"k")],
    ]
    decoded = HeaderDecoder(RowShape(("headers", "headers_repeated"), "binary")).decode(arrays(rows))
    blocks = decoded.field(0).to_pylist()
    spring = Headers([("n", hs.int64(3)), ("spring_json_header_types", _SPRING[1][1].decode())])  # type: ignore[union-attr]
    assert [Headers.from_bytes(block) for block in blocks] == [
        spring, Headers({"attempt": hs.uint8(3)}), Headers(), Headers(), spring, Headers(list(ours.items())[:1]),
    ]  # fmt: skip
    sliced = HeaderDecoder(RowShape(("headers",), "binary")).decode(arrays(rows).slice(1, 4))
    assert sliced.field(0).to_pylist() == blocks[1:5]


def test_decode_warns_with_place_and_count_when_headers_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    decoder = HeaderDecoder(RowShape(("headers",), "binary"))
    with caplog.at_level(logging.WARNING, "headstream.spark"):
        decoder.decode(arrays([[("n", b"3")], _LOSSY, [*_SPRING, ("", b"")]]), places(3))
    assert [record.getMessage() for record in caplog.records] == [
        "topic t, partition 2, offset 41 and after: skipped 3 invalid headers in 2 rows: their keys are empty or "
        "longer than 255 bytes"
    ]


@pytest.mark.parametrize("bad", range(5))
def test_decode_names_the_first_row_that_does_not_fit_when_that_is_an_error(bad: int) -> None:
    good = typed(Headers({"n": hs.int32(3)}))
    rows = [good] * bad + [typed(Headers({"n": "x"}))] + [good, typed(Headers({"n": "x"})), good]
    decoder = HeaderDecoder(RowShape((), "none", (WantedHeader("n", "int32"),), True))
    with pytest.raises(HeaderError, match=rf"topic t, partition 2, offset {40 + bad}\b"):
        decoder.decode(arrays(rows), places(len(rows)))
    with pytest.raises(HeaderError, match=rf"a header has an empty key .*offset {40 + bad}\b"):
        decoder.decode(arrays([*[good] * bad, _LOSSY]), places(bad + 1))


def test_decode_refuses_a_null_key_when_a_column_has_one() -> None:
    with pytest.raises(HeaderError, match="a header, or its key, is null"):
        HeaderDecoder(RowShape(("headers",), "variant")).decode(arrays([[(None, b"x")]]))  # type: ignore[list-item]


_ARRAY = pa.list_(pa.struct([("key", pa.string()), ("kind", pa.string()), ("value", pa.binary())]))


def test_encode_gives_the_record_functions_headers_when_some_rows_take_them() -> None:
    rows = [
        Headers({"attempt": hs.uint8(3), "none": None}), Headers({"half": hs.char("\ud800")}), Headers(),
        Headers({"kafka_dlt-original-partition": hs.int32(2)}), Headers([("n", 1), ("n", 2)]),
    ]  # fmt: skip
    blocks = pa.array([*(headers.as_bytes() for headers in rows), None], pa.binary())
    lists = [[{"key": key, "kind": value.kind_name, "value": value.data} for key, value in row.items()] for row in rows]
    expected = [*([{"key": key, "value": value} for key, value in typed(headers)] for headers in rows), []]
    assert encode_header_blocks(blocks).to_pylist() == expected
    assert encode_header_blocks(blocks.slice(1, 3)).to_pylist() == expected[1:4]
    assert encode_header_lists(pa.array([*lists, None], _ARRAY)).to_pylist() == expected
    assert encode_header_lists(pa.array([*lists, None], _ARRAY).slice(1, 3)).to_pylist() == expected[1:4]


def test_encode_refuses_what_is_no_header_when_it_is_written() -> None:
    with pytest.raises(HeaderError, match=r"'hs\.kinds' is reserved"):
        encode_header_blocks(pa.array([Headers({"hs.kinds": "x"}).as_bytes()]))
    with pytest.raises(DecodeError):
        encode_header_blocks(pa.array([b"no block"]))
    with pytest.raises(HeaderError, match="is of kind decimal"):
        encode_header_lists(pa.array([[{"key": "a", "kind": "decimal", "value": b"1"}]], _ARRAY))
    with pytest.raises(DecodeError, match="a header of kind int32 must have 4 bytes, not 1"):
        encode_header_lists(pa.array([[{"key": "a", "kind": "int32", "value": b"1"}]], _ARRAY))


def test_decode_warns_once_when_a_declared_header_is_there_and_has_another_type(caplog: pytest.LogCaptureFixture) -> None:
    decoder = HeaderDecoder(RowShape((), "none", (WantedHeader("n", "int32"), WantedHeader("missing", "string"))))
    number, text, nothing = (typed(Headers(pairs)) for pairs in ({"n": 3}, {"n": "x", "m": 1}, {"n": None}))
    with caplog.at_level(logging.WARNING, "headstream.spark"):
        decoder.decode(arrays([number, nothing, [], None]), places(4))
        assert caplog.messages == []
        decoded = decoder.decode(arrays([number, text, [("n", b"7")], None, nothing]), places(5))
        decoder.decode(arrays([text]), places(1))
    assert decoded.field("n").to_pylist() == [3, None, None, None, None]
    assert caplog.messages == [
        "topic t, partition 2, offset 41 and after: the header 'n' does not have the type INT32 declared in "
        "headerColumns (2 of 5 rows), so its column is null; a record without hs.kinds has raw headers"
    ]
