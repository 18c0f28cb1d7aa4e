from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.cli.shared.header_text import decode_base64, decode_header_value, encode_header_value, format_header, parse_header
from headstream.core.model.constructors import CONSTRUCTORS, float64, int64, raw, string, uint8
from headstream.core.model.header_block import check_key
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.errors import HeaderError
from tests.support.cli_inputs import ALL_KINDS, header_values


def test_all_kinds_has_every_kind() -> None:
    assert {value.kind for value in ALL_KINDS.values()} == set(HeaderKind)


@settings(max_examples=200)
@given(header_values())
def test_header_value_keeps_its_bits_through_json(value: HeaderValue) -> None:
    assert decode_header_value(value.kind_name, encode_header_value(value)) == value


@settings(max_examples=200)
@given(st.text(min_size=1, max_size=5).filter(lambda key: "=" not in key), header_values())
def test_header_keeps_its_bits_through_text(key: str, value: HeaderValue) -> None:
    assert parse_header(format_header(key, value)) == (check_key(key), value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("source=web", ("source", string("web"))),
        ("empty=", ("empty", string(""))),
        ("page=http://host:80/a=b", ("page", string("http://host:80/a=b"))),
        ("attempt=uint8:3", ("attempt", uint8(3))),
        ("big=int64:+7", ("big", int64(7))),
        ("rate=float64:1e-3", ("rate", float64(0.001))),
        ("digest=raw:AP8=", ("digest", raw(b"\x00\xff"))),
        ("text=string:int:5", ("text", string("int:5"))),
        ("gone=null:", ("gone", CONSTRUCTORS["null"]())),
        ("letter=char:5", ("letter", CONSTRUCTORS["char"]("5"))),
        ("new=unknown(77):AA==", ("new", HeaderValue(77, b"\0"))),
    ],
)
def test_parse_header_reads(text: str, expected: tuple[str, HeaderValue]) -> None:
    assert parse_header(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attempt", "k=kind:value"),
        ("=web", "1 to 255 bytes"),
        ("a=int:5", "Use int64, or string:int:5"),
        ("a=uint8:256", "out of range for uint8"),
        ("a=uint8:x", "not a whole number"),
        ("a=int64:" + "9" * 41, "not a whole number"),
        ("a=bool:yes", "true or false"),
        ("a=float64:1e999", "out of range"),
        ("a=float64:1_0", "not a float64"),
        ("a=float32:nan(0x7ff8000000000001)", "not a float32"),
        ("a=float32:nan(0x00000001)", "not a float32"),
        ("a=raw:?", "not base64"),
        ("a=raw:grün", "not base64"),
        ("a=null:x", "no value after its colon"),
        ("a=char:ab", "one character"),
        ("a=unknown(9):AA==", "is the kind uint8"),
        ("a=unknown(0):AA==", "1 to 255"),
    ],
)
def test_parse_header_refuses_and_says_why(text: str, message: str) -> None:
    with pytest.raises(HeaderError) as caught:
        parse_header(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("uint9", 1), ("raw", 5), ("raw", None), ("int8", "1"), ("int8", True), ("int8", 1.0), ("string", 1), ("bool", 1),
        ("float64", None), ("float64", "1.5"), ("null", 0), ("char", 65), ("char", True), ("unknown(77)", 1), ("int8", []),
    ],
)  # fmt: skip
def test_decode_header_value_refuses_what_is_not_of_its_kind(kind: str, value: object) -> None:
    with pytest.raises(HeaderError):
        decode_header_value(kind, value)


def test_decode_base64_refuses_characters_that_are_passed_over_elsewhere() -> None:
    with pytest.raises(HeaderError):
        decode_base64("AP\n8=")
