"""HeaderValue and its constructors: every kind, its range, its bytes, its accessors."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.constructors import CONSTRUCTORS, header_value
from headstream.core.model.header_values import KIND_NAMES, KIND_WIDTHS

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
INTEGERS = [(name, int(name.lstrip("uint")), not name.startswith("u")) for name, *_ in EXAMPLES if "int" in name]


@pytest.mark.parametrize(("name", "value", "data", "code"), EXAMPLES)
def test_constructor_makes_the_bytes_that_travel(name: str, value: Any, data: str, code: int) -> None:
    made = CONSTRUCTORS[name](value)
    assert (made.kind, made.kind_name, made.data.hex(), made.value) == (code, name, data, value)
    assert getattr(made, f"as_{name}")() == value if name != "null" else made.value is None
    assert hs.HeaderValue(code, bytes.fromhex(data)) == made
    assert getattr(hs, name)(value) == made


def test_every_kind_has_a_constructor_and_an_example() -> None:
    assert [name for name, *_ in EXAMPLES] == list(CONSTRUCTORS) == list(KIND_NAMES.values())


@pytest.mark.parametrize(("name", "value", "data", "code"), EXAMPLES)
def test_values_survive_repr_pickle_and_copy(name: str, value: Any, data: str, code: int) -> None:
    made = CONSTRUCTORS[name](value)
    assert eval(repr(made), dict(CONSTRUCTORS)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert hash(made) == hash(CONSTRUCTORS[name](value)) == hash(value)


@pytest.mark.parametrize(("name", "bits", "signed"), INTEGERS)
def test_integers_take_their_whole_range_and_nothing_beyond(name: str, bits: int, signed: bool) -> None:
    make = CONSTRUCTORS[name]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    assert (make(low).value, make(high).value) == (low, high)
    for beyond in (low - 1, high + 1):
        with pytest.raises(hs.HeaderError, match=rf"{beyond} is out of range for {name} \({low} to {high}\)\. Use "):
            make(beyond)


def test_an_integer_too_big_is_told_which_kind_takes_it() -> None:
    with pytest.raises(hs.HeaderError, match=r"Use uint64 or int128 or uint128$"):
        hs.int64(1 << 63)
    with pytest.raises(hs.HeaderError, match="Use string or raw"):
        hs.int64(1 << 200)


@pytest.mark.parametrize("name", [name for name, *_ in EXAMPLES if name != "null"])
@pytest.mark.parametrize("wrong", [object(), [], None, 1j])
def test_constructors_refuse_other_types(name: str, wrong: Any) -> None:
    with pytest.raises(hs.HeaderError, match=f"{name} takes"):
        CONSTRUCTORS[name](wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("int64", True), ("uint8", 1.0), ("float64", True), ("bool", 1), ("string", b"x"), ("raw", "x"), ("char", "ab"),
     ("char", "\U0001f600"), ("char", ""), ("null", 0)],
)  # fmt: skip
def test_constructors_refuse_what_only_looks_alike(name: str, wrong: Any) -> None:
    with pytest.raises(hs.HeaderError):
        CONSTRUCTORS[name](wrong)


def test_strings_that_utf8_cannot_spell_are_refused() -> None:
    with pytest.raises(hs.HeaderError, match="character 2 of the text cannot be encoded as UTF-8"):
        hs.string("ab\ud800")


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


@pytest.mark.parametrize(
    ("plain", "kind"),
    [(True, "bool"), (1, "int64"), (-(1 << 63), "int64"), (1.0, "float64"), ("x", "string"), (b"x", "raw"),
     (bytearray(b"x"), "raw"), (memoryview(b"x"), "raw"), (None, "null")],
)  # fmt: skip
def test_each_python_type_has_one_kind(plain: Any, kind: str) -> None:
    assert header_value(plain).kind_name == kind
    assert header_value(hs.uint8(1)).kind_name == "uint8"


@pytest.mark.parametrize("wrong", [object(), [1], {"a": 1}, 1j, {1}])
def test_types_without_a_kind_are_refused(wrong: Any) -> None:
    with pytest.raises(hs.HeaderError, match=f"{type(wrong).__name__} has no header kind. Use str, int"):
        header_value(wrong)


@pytest.mark.parametrize("kind", sorted(KIND_WIDTHS))
def test_bytes_of_the_wrong_length_are_refused(kind: int) -> None:
    width = KIND_WIDTHS[kind]
    for size in {0, 1, 3, 17} - {width}:
        with pytest.raises(hs.HeaderError, match=f"{KIND_NAMES[kind]} header has {width} bytes, this one has {size}"):
            hs.HeaderValue(kind, bytes(size))


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [(3, b"\x02", "a bool header is 0 or 1, this one is 2"), (2, b"a\xff", "UTF-8, byte 1"), (0, b"", "1 to 255, not 0"),
     (256, b"", "1 to 255, not 256"), (-1, b"", "not -1"), ("2", b"", "str and bytes"), (2, "text", "int and str")],
)  # fmt: skip
def test_bytes_that_cannot_be_a_value_are_refused(kind: Any, data: Any, text: str) -> None:
    with pytest.raises(hs.HeaderError, match=text):
        hs.HeaderValue(kind, data)


def test_unknown_kinds_keep_their_bytes() -> None:
    value = hs.HeaderValue(200, b"\x01\x02")
    assert (value.kind, value.kind_name, value.value, str(value)) == (200, "unknown(200)", b"\x01\x02", "b'\\x01\\x02'")
    assert repr(value) == "HeaderValue(200, b'\\x01\\x02')"
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(hs.HeaderError, match=r"the header is unknown\(200\), not raw\. Its bytes are in \.data"):
        value.as_raw()


def test_typed_values_are_equal_when_kind_and_bytes_are() -> None:
    assert hs.uint8(3) == hs.uint8(3) != hs.int64(3)
    assert hs.uint8(3) == 3
    assert hs.string("web") == "web"
    assert hs.string("web") != b"web"
    assert hs.null() == None  # noqa: E711 - that a null header equals None is the point
    assert hs.uint8(3) != object()
    assert hs.bool(True) == True  # noqa: E712


def test_values_are_frozen() -> None:
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


@pytest.mark.parametrize(
    "calculate",
    [
        lambda a: a + 1,
        lambda a: 1 + a,
        lambda a: a - 5,
        lambda a: 5 - a,
        lambda a: a * 2,
        lambda a: 2 * a,
        lambda a: a / 2,
        lambda a: 2 / a,
        lambda a: a // 2,
        lambda a: 20 // a,
        lambda a: a % 2,
        lambda a: 20 % a,
        lambda a: divmod(int(a), 2),
        lambda a: -a,
        lambda a: +a,
        lambda a: abs(-a),
        lambda a: round(a),
        lambda a: round(a, 1),
        lambda a: sum([a, a]),
        lambda a: a + a,
        lambda a: a + 0.5,
    ],
)
@pytest.mark.parametrize(("header", "plain"), [(hs.uint8(255), 255), (hs.int64(-7), -7), (hs.float64(12.0), 12.0)])
def test_numbers_calculate_as_their_plain_value(header: Any, plain: Any, calculate: Any) -> None:
    found = calculate(header)
    assert found == calculate(plain)
    assert type(found) is type(calculate(plain))  # plain: a sum may be beyond the range of its kind


@pytest.mark.parametrize("header", [hs.string("1"), hs.bool(True), hs.raw(b"1"), hs.null()])
def test_what_is_no_number_does_not_calculate(header: Any) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        assert header + 1
    with pytest.raises(TypeError, match="unsupported operand"):
        assert 2.5 * header
    with pytest.raises(TypeError, match="unsupported operand"):
        assert hs.uint8(1) - header
    with pytest.raises(TypeError, match="is not a number"):
        assert -header
    with pytest.raises(TypeError, match="is not a number"):
        abs(header)
    with pytest.raises(TypeError, match="is not a number"):
        round(header)


def test_values_work_where_their_number_does() -> None:
    attempt = hs.uint8(3)
    assert int(attempt) == 3
    assert float(hs.float64(12.5)) == 12.5
    assert f"{attempt:03d} {hs.float64(12.5):.2f} {hs.string('web'):>5}" == "003 12.50   web"
    assert "abcd"[attempt] == "d"
    assert attempt > 2
    assert attempt <= 3
    assert 2 < attempt < hs.int64(4)
    assert sorted([hs.string("b"), hs.string("a")]) == ["a", "b"]
    assert bytes(hs.raw(b"x")) == b"x"
    with pytest.raises(TypeError):
        assert attempt < "x"
    with pytest.raises(TypeError, match="a string header cannot be an index"):
        "abc"[hs.string("1")]
    with pytest.raises(hs.HeaderError, match="cannot be read as a whole number"):
        int(hs.float64(1.5))
