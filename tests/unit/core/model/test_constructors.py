"""Unit tests of headstream.core.model.constructors."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.core.model.constructors import CONSTRUCTORS, header_value
from headstream.core.model.header_values import KIND_NAMES
from tests.unit.core.model.test_header_values import EXAMPLES

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
    with pytest.raises(hs.HeaderError, match=f"{name} value must be"):
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
    with pytest.raises(hs.HeaderError, match="character 2 of the string cannot be encoded as UTF-8"):
        hs.string("ab\ud800")


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
