"""Unit tests of headstream.spark.sink.header_blocks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headstream.core.model import constructors as kinds
from headstream.core.model.header_values import HeaderValue
from headstream.errors import HeadstreamError
from headstream.spark.sink.packing import BadRow
from tests.unit.spark.sink.test_packing import WIDE, decode, pack


def headers_of(value: Any, kind: pa.DataType) -> list[tuple[str, HeaderValue]]:
    [packed] = pack({"payload": pa.array(["p"]), "headers": pa.array([value], kind)}, WIDE)
    if isinstance(packed, BadRow):
        raise packed.reason
    [message] = decode(packed, WIDE)
    return list(message.headers.items())


ARRAY = pa.list_(pa.struct([("key", pa.string()), ("kind", pa.string()), ("value", pa.binary())]))


def test_headers_of_every_shape_keep_what_they_say() -> None:
    entries = [("a", "uint8", b"\x07"), ("a", "string", b"x"), ("b", "unknown(77)", b"?"), ("n", "null", None)]
    value = [dict(zip(("key", "kind", "value"), entry, strict=True)) for entry in entries]
    expected = [("a", kinds.uint8(7)), ("a", kinds.string("x")), ("n", kinds.null())]
    assert headers_of([value[0], value[1], value[3]], ARRAY) == expected
    assert headers_of(None, ARRAY) == []
    with pytest.raises(HeadstreamError, match=r"unknown\(77\)"):
        headers_of(value, ARRAY)
    with pytest.raises(HeadstreamError, match="the value of header 'a' is null"):
        headers_of([{"key": "a", "kind": "string", "value": None}], ARRAY)
    with pytest.raises(HeadstreamError, match="header 'a' is of kind uint7"):
        headers_of([{"key": "a", "kind": "uint7", "value": b""}], ARRAY)
    with pytest.raises(HeadstreamError, match="width of its kind"):
        headers_of([{"key": "a", "kind": "int64", "value": b"1"}], ARRAY)
    pairs = [("a", 1), ("b", None)]
    assert headers_of(pairs, pa.map_(pa.string(), pa.int16())) == [("a", kinds.int16(1)), ("b", kinds.null())]
    assert headers_of([("a", "x")], pa.map_(pa.string(), pa.string())) == [("a", kinds.string("x"))]
    assert headers_of([("a", True)], pa.map_(pa.string(), pa.bool_())) == [("a", kinds.bool_(True))]
