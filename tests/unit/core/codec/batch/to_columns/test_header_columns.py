"""decode_header_columns: what fits a column and what does not, against a plain statement of the rule."""

from __future__ import annotations

import itertools
import math
import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.results import HeaderColumn, HeaderType, WantedHeader
from headstream.core.codec.binary import encode_headers
from headstream.core.model import constructors as kinds
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.errors import DecodeError, HeaderError
from tests.support import kernels
from tests.support.messages.batches import header, stored
from tests.support.messages.strategies import known_values, value_of

KEY = header("hs.key", 1, b"key bytes")
NULL = header("hs.null", 3, b"\x01")
LAYOUTS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}
WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
header_columns = kernels.fixture("batch.to_columns.header_columns")


def values_of(column: HeaderColumn, wanted: WantedHeader, count: int) -> list[Any]:
    present = [column.validity is None or bool(column.validity[i >> 3] >> (i & 7) & 1) for i in range(count)]
    values: list[Any]
    if column.offsets is not None:
        ends = struct.unpack(f"<{count + 1}i", column.offsets)
        assert ends[-1] == len(column.data)
        pieces = [bytes(column.data[begin:end]) for begin, end in itertools.pairwise(ends)]
        values = [piece.decode() for piece in pieces] if wanted.type == "string" else list(pieces)
    elif wanted.type == "decimal":
        values = [int.from_bytes(column.data[i : i + 16], "little", signed=True) for i in range(0, 16 * count, 16)]
    else:
        values = list(struct.unpack(f"<{count}{LAYOUTS[wanted.type]}", column.data))
    return [value if there else None for value, there in zip(values, present, strict=True)]


def fitting(value: HeaderValue | None, wanted: WantedHeader) -> tuple[Any, bool]:
    """Return what a column holds for a header, and whether it fits."""
    if value is None or value.kind == HeaderKind.NULL:
        return None, True
    plain, type_ = value.value, wanted.type
    fits = False
    if type_ == "bool":
        fits = value.kind == HeaderKind.BOOL
    elif type_ == "string":
        fits = value.kind == HeaderKind.STRING or (value.kind == HeaderKind.CHAR and not "\ud800" <= str(plain) <= "\udfff")
    elif type_ == "binary":
        fits = value.kind == HeaderKind.RAW or value.kind not in set(HeaderKind)
    elif HeaderKind.INT8 <= value.kind <= HeaderKind.UINT128:
        assert isinstance(plain, int)
        if type_ in WIDTHS:
            fits = -(1 << WIDTHS[type_] - 1) <= plain < 1 << WIDTHS[type_] - 1
        else:
            fits = abs(plain) < {"decimal": 10**wanted.digits, "float32": (1 << 24) + 1, "float64": (1 << 53) + 1}[type_]
    else:
        fits = (type_, value.kind) in {
            ("float32", HeaderKind.FLOAT32), ("float64", HeaderKind.FLOAT32), ("float64", HeaderKind.FLOAT64),
        }  # fmt: skip
    return (plain, True) if fits else (None, False)


def same(a: Any, b: Any) -> bool:
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


EVERY_TYPE: list[WantedHeader] = [
    *(
        WantedHeader("h", type_)
        for type_ in ("bool", "int8", "int16", "int32", "int64", "float32", "float64", "string", "binary")
    ),
    *(WantedHeader("h", "decimal", digits) for digits in (1, 10, 20, 38)),
]


@pytest.mark.parametrize("wanted", EVERY_TYPE, ids=[f"{column.type}{column.digits or ''}" for column in EVERY_TYPE])
def test_a_column_holds_what_fits_and_nothing_else(header_columns: ModuleType, wanted: WantedHeader) -> None:
    edges = [0, 1, -1, 9, 10, -9, -10, 10**10, 10**19, 10**38 - 1, 10**38, -(10**38) + 1, -(10**38), (1 << 24) + 1, -(1 << 24)]
    edges += [
        sign * (1 << bits) + more for bits in (7, 8, 15, 31, 32, 53, 63, 64, 127) for sign in (1, -1) for more in (-1, 0, 1)
    ]
    values: list[HeaderValue] = [kinds.raw(b"\x00\xff"), kinds.string("żółw 🐢"), kinds.string(""), kinds.bool_(True)]
    values += [kinds.null(), kinds.float32(1.5), kinds.float64(0.1), kinds.float32(float("nan")), kinds.float64(float("-inf"))]
    values += [kinds.char(char) for char in "a\x80߿語"] + [HeaderValue(65, b"\x00\xd8"), HeaderValue(200, b"of tomorrow")]
    for number in edges:
        for bits in (8, 16, 32, 64, 128):
            if -(1 << bits - 1) <= number < 1 << bits - 1:
                values.append(getattr(kinds, f"int{bits}")(number))
            if 0 <= number < 1 << bits:
                values.append(getattr(kinds, f"uint{bits}")(number))
    data = b"".join(stored(b"p", header("h", value.kind, value.data), offset=i) for i, value in enumerate(values))
    (column,) = header_columns.decode_header_columns(data, [wanted])
    found = values_of(column, wanted, len(values))
    for value, here in zip(values, found, strict=True):
        expected, fits = fitting(value, wanted)
        assert same(here, expected), (value, wanted)
        single = stored(b"p", header("h", value.kind, value.data), offset=77)
        if fits:
            header_columns.decode_header_columns(single, [wanted], fail=True)
        else:
            with pytest.raises(HeaderError, match=r"the header 'h' is .*, which a column of type .* cannot hold \(offset 77\)"):
                header_columns.decode_header_columns(single, [wanted], fail=True)


def test_the_last_header_of_a_name_counts_and_reserved_ones_are_none(header_columns: ModuleType) -> None:
    data = b"".join(
        [
            stored(b"p", KEY + header("a", 2, b"first") + header("ab", 2, b"other") + header("a", 9, b"\x05"), offset=0),
            stored(b"", KEY + NULL, offset=1),
            stored(b"p", header("hs.key", 2, b"a string is no key"), offset=2),
            stored(b"p", KEY + header("hs.key", 1, b"again"), offset=3),
        ]
    )
    wanted = [
        WantedHeader("a", "int32"),
        WantedHeader("hs.key", "binary"),
        WantedHeader("hs.null", "bool"),
        WantedHeader("ab", "string"),
    ]
    columns = header_columns.decode_header_columns(data, wanted)
    assert [values_of(made, column, 4) for made, column in zip(columns, wanted, strict=True)] == [
        [5, None, None, None],
        [None, None, None, b"again"],
        [None] * 4,
        ["other", None, None, None],
    ]


def test_a_validity_is_left_out_where_every_value_fits(header_columns: ModuleType) -> None:
    data = b"".join(stored(b"p", header("a", 9, bytes([i]))) for i in range(20))
    (column,) = header_columns.decode_header_columns(data, [WantedHeader("a", "int8")])
    assert column.validity is None
    assert list(column.data) == list(range(20))


def test_no_messages_and_no_columns_are_empty(header_columns: ModuleType) -> None:
    wanted = [WantedHeader("a", "string"), WantedHeader("b", "int32")]
    assert [
        values_of(made, column, 0) for made, column in zip(header_columns.decode_header_columns(b"", wanted), wanted, strict=True)
    ] == [[], []]
    assert header_columns.decode_header_columns(stored(b"p"), []) == []


def test_a_misfit_is_named_with_the_first_message_that_has_one(header_columns: ModuleType) -> None:
    data = b"".join(stored(b"p", header("a", 10, struct.pack("<H", 100 * i)), offset=5 + i) for i in range(5))
    with pytest.raises(HeaderError) as raised:
        header_columns.decode_header_columns(data, [WantedHeader("a", "int8")], fail=True)
    assert str(raised.value).startswith("the header 'a' is uint16(200), which a column of type int8 cannot hold (offset 7)")


def test_every_truncation_is_refused_with_its_place(header_columns: ModuleType) -> None:
    first = stored(b"p", KEY + header("a", 2, b"xy"))
    data = first + stored(b"", KEY + NULL + header("a", 200, b"\x01\x02"))
    for size in range(1, len(data)):
        if size == len(first):
            continue
        with pytest.raises(DecodeError) as caught:
            header_columns.decode_header_columns(data[:size], [WantedHeader("a", "string")])
        assert caught.value.have is not None
        assert caught.value.at + caught.value.have == size


@pytest.mark.parametrize(
    ("block", "type_", "text"),
    [
        (header("k", 2, b"a\xff"), "string", "a string header value is not UTF-8 at byte 98"),
        (header("k", 6, b"123"), "int32", "width of its kind at byte 97: 4 bytes needed, 3 available"),
        (header("k", 3, b"\x02"), "bool", "not 0 or 1 at byte 97"),
        (header("k", 0, b"v"), "binary", "the invalid kind 0 at byte 92"),
    ],
)
def test_a_malformed_value_is_refused_with_its_place(
    header_columns: ModuleType, block: bytes, type_: HeaderType, text: str
) -> None:
    with pytest.raises(DecodeError, match=text):
        header_columns.decode_header_columns(stored(b"p") + stored(b"p", block), [WantedHeader("k", type_)])


@pytest.mark.parametrize("module", kernels.variants("batch.to_columns.header_columns"), ids=kernels.name_of)
@given(
    batch=st.lists(
        st.lists(st.tuples(st.sampled_from(["a", "b", "żółw"]), st.one_of(known_values, value_of(200))), max_size=5), max_size=8
    ),
    wanted=st.lists(st.tuples(st.sampled_from(["a", "b", "żółw", "c"]), st.sampled_from(EVERY_TYPE)), min_size=1, max_size=4).map(
        lambda chosen: [WantedHeader(name, column.type, column.digits) for name, column in chosen]
    ),
)
@settings(max_examples=150, deadline=None)
def test_columns_agree_with_the_messages(
    module: ModuleType, batch: list[list[tuple[str, HeaderValue]]], wanted: list[WantedHeader]
) -> None:
    messages = [Headers(pairs) for pairs in batch]
    data = b"".join(stored(b"p", encode_headers(headers), offset=i) for i, headers in enumerate(messages))
    columns = module.decode_header_columns(data, wanted)
    for column, made in zip(wanted, columns, strict=True):
        expected = [fitting(headers.get(column.name), column)[0] for headers in messages]
        found = values_of(made, column, len(messages))
        assert all(same(a, b) for a, b in zip(found, expected, strict=True)), (found, expected)
