"""HeaderValue and its constructors: every kind, its range, its bytes, its accessors."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.constructors import CONSTRUCTORS

EXAMPLES: list[tuple[str, Any, str, int]] = [
    ("raw", b"\x00\xff", "00ff", 1),
    ("string", "ü✓", "c3bce29c93", 2),
    ("bool", True, "01", 3),
    ("int8", -2, "fe", 4),
    ("int16", -2, "feff", 5),
    ("int32", -2, "feffffff", 6),
    ("int64", -2, "feffffffffffffff", 7),
    ("int128", -2, "fe" + "ff" * 15, 8),
    ("uint8", 200, "c8", 9),
    ("uint16", 200, "c800", 10),
    ("uint32", 200, "c8000000", 11),
    ("uint64", 200, "c800000000000000", 12),
    ("uint128", 200, "c8" + "00" * 15, 13),
    ("float32", 1.5, "0000c03f", 14),
    ("float64", 1.5, "000000000000f83f", 15),
    ("null", None, "", 64),
    ("char", "ß", "df00", 65),
]


@pytest.mark.parametrize(("name", "value", "data", "code"), EXAMPLES)
def test_values_survive_repr_pickle_and_copy(name: str, value: Any, data: str, code: int) -> None:
    made = CONSTRUCTORS[name](value)
    assert eval(repr(made), dict(CONSTRUCTORS)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert hash(made) == hash(CONSTRUCTORS[name](value)) == hash(value)


def test_floats_keep_their_bits() -> None:
    assert hs.float32(0.1).value == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    with pytest.raises(hs.HeaderError, match=r"1e\+40 is out of range for float32\. Use float64 or string"):
        hs.float32(1e40)
    assert hs.float64(math.inf).value == math.inf
    assert hs.float64(-0.0) != hs.float64(0.0)
    odd = hs.HeaderValue(15, bytes.fromhex("010000000000f87f"))
    assert math.isnan(float(str(odd)))
    assert eval(repr(odd), {"HeaderValue": hs.HeaderValue}) == odd
    assert odd != hs.float64(math.nan)
    assert hash(odd) == hash(hs.HeaderValue(15, odd.data))
    assert len({hs.float64(math.nan), hs.float64(math.nan)}) == 1


def test_typed_values_are_equal_when_kind_and_bytes_are() -> None:
    assert hs.uint8(3) == hs.uint8(3) != hs.int64(3)
    assert hs.uint8(3) == 3
    assert hs.string("web") == "web"
    assert hs.string("web") != b"web"
    assert hs.null() == None  # noqa: E711 - that a null header equals None is the point
    assert hs.uint8(3) != object()
    assert hs.bool(True) == True  # noqa: E712


def test_header_values_cannot_be_changed() -> None:
    value = hs.uint8(3)
    with pytest.raises(AttributeError, match="frozen: data cannot be set"):
        value.data = b"x"
    with pytest.raises(AttributeError, match="frozen: kind cannot be deleted"):
        del value.kind


def test_truth_and_text_are_those_of_the_value() -> None:
    assert not hs.uint8(0)
    assert hs.string("x")
    assert not hs.null()
    assert str(hs.float64(1.5)) == "1.5"


@pytest.mark.parametrize(("name", "value", "data", "code"), EXAMPLES)
def test_exact_accessors_take_their_own_kind_only(name: str, value: Any, data: str, code: int) -> None:
    made = CONSTRUCTORS[name](value)
    for other in CONSTRUCTORS:
        if other not in (name, "null"):
            with pytest.raises(hs.HeaderError, match=rf"the header is {name}, not {other}\. Use as_{name}\(\)"):
                getattr(made, f"as_{other}")()


@pytest.mark.parametrize(
    ("value", "accessor", "expected"),
    [
        (hs.uint8(3), "to_int", 3), (hs.bool(True), "to_int", 1), (hs.float64(2.0), "to_int", 2),
        (hs.string(" 12 "), "to_int", 12), (hs.string("-5"), "to_int", -5),
        (hs.int128(1 << 100), "to_float", float(1 << 100)), (hs.uint8(3), "to_float", 3.0),
        (hs.string("1e3"), "to_float", 1000.0), (hs.float32(0.5), "to_float", 0.5), (hs.uint8(1), "to_bool", True),
        (hs.float64(0.0), "to_bool", False), (hs.string("TRUE"), "to_bool", True), (hs.uint8(7), "to_str", "7"),
        (hs.bool(False), "to_str", "false"), (hs.raw(b"caf\xc3\xa9"), "to_str", "café"), (hs.char("x"), "to_str", "x"),
        (hs.uint16(258), "to_bytes", b"\x02\x01"), (hs.null(), "to_bytes", b""), (hs.string("x"), "to_bytes", b"x"),
    ],
)  # fmt: skip
def test_converting_accessors_take_what_means_the_same(value: hs.HeaderValue, accessor: str, expected: Any) -> None:
    result = getattr(value, accessor)()
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "accessor"),
    [
        (hs.float64(2.5), "to_int"), (hs.float64(math.inf), "to_int"), (hs.string("x"), "to_int"), (hs.raw(b"1"), "to_int"),
        (hs.null(), "to_int"), (hs.int64((1 << 53) + 1), "to_float"), (hs.string("x"), "to_float"), (hs.raw(b""), "to_float"),
        (hs.uint8(2), "to_bool"), (hs.string("yes"), "to_bool"), (hs.null(), "to_bool"), (hs.raw(b"\xff"), "to_str"),
        (hs.null(), "to_str"),
    ],
)  # fmt: skip
def test_converting_accessors_refuse_what_would_lose(value: hs.HeaderValue, accessor: str) -> None:
    with pytest.raises(hs.HeaderError, match=r"cannot be read as .* without loss"):
        getattr(value, accessor)()
