"""decode_header_lists: every header in its place, or each key once as a VARIANT."""

from __future__ import annotations

import itertools
import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from headstream.core.codec.batch.results import HeaderLists
from headstream.core.codec.binary import decode_polled, encode_headers
from headstream.core.model.headers import Headers
from headstream.errors import DecodeError
from tests.support import kernels
from tests.support.messages.batches import header, stored
from tests.support.messages.strategies import all_headers

KEY = header("hs.key", 1, b"key bytes")
NULL = header("hs.null", 3, b"\x01")
MESSAGES = [
    stored(b"none"),
    stored(b"p", KEY + header("b", 9, b"\x07") + header("a", 2, b"xy") + header("b", 2, b"last"), offset=1),
    stored(b"", KEY + NULL + header("future", 200, b"\x01\x02"), offset=2),
    stored(b"", NULL, offset=3),
    stored(b"x", header("n", 64, b"") + header("w", 13, b"\xff" * 16), offset=4),
]
BATCH = b"".join(MESSAGES)
header_lists = kernels.fixture("batch.to_columns.header_lists")


def varied(offsets: bytearray, data: bytearray) -> list[bytes]:
    ends = struct.unpack(f"<{len(offsets) // 4}i", offsets)
    assert ends[-1] == len(data)
    return [bytes(data[begin:end]) for begin, end in itertools.pairwise(ends)]


def lists_of(lists: HeaderLists) -> list[list[tuple[str, int, bytes]]]:
    keys = [key.decode() for key in varied(lists.key_offsets, lists.key_data)]
    pairs = list(zip(keys, lists.kinds, varied(lists.value_offsets, lists.value_data), strict=True))
    ends = struct.unpack(f"<{len(lists.offsets) // 4}i", lists.offsets)
    assert ends[-1] == len(pairs)
    return [pairs[begin:end] for begin, end in itertools.pairwise(ends)]


def maps_of(lists: HeaderLists, module: ModuleType) -> list[dict[str, Any]]:
    return [{key: VariantVal(value, module.EMPTY_METADATA).toPython() for key, _, value in pairs} for pairs in lists_of(lists)]


def test_an_array_holds_every_header_in_its_place(header_lists: ModuleType) -> None:
    lists = header_lists.decode_header_lists(BATCH, "array")
    assert lists_of(lists) == [
        [],
        [("b", 9, b"\x07"), ("a", 2, b"xy"), ("b", 2, b"last")],
        [("future", 200, b"\x01\x02")],
        [],
        [("n", 64, b""), ("w", 13, b"\xff" * 16)],
    ]
    assert list(lists.repeated) == [0, 1, 0, 0, 0]


def test_a_map_holds_each_key_once_with_its_last_value(header_lists: ModuleType) -> None:
    lists = header_lists.decode_header_lists(BATCH, "map")
    assert maps_of(lists, header_lists) == [
        {},
        {"a": "xy", "b": "last"},
        {"future": b"\x01\x02"},
        {},
        {"n": None, "w": str((1 << 128) - 1)},
    ]
    assert [[key for key, _, _ in pairs] for pairs in lists_of(lists)][1] == ["a", "b"]
    assert list(lists.repeated) == [0, 1, 0, 0, 0]


def test_lists_of_no_messages_are_empty(header_lists: ModuleType) -> None:
    for form in ("array", "map"):
        lists = header_lists.decode_header_lists(b"", form)
        assert (lists_of(lists), lists.repeated, lists.kinds) == ([], b"", b"")


@pytest.mark.parametrize("form", ["array", "map"])
def test_every_truncation_is_refused_with_its_place(header_lists: ModuleType, form: str) -> None:
    data = MESSAGES[1] + MESSAGES[2]
    for size in range(1, len(data)):
        if size == len(MESSAGES[1]):
            continue
        with pytest.raises(DecodeError) as caught:
            header_lists.decode_header_lists(data[:size], form)
        assert caught.value.have is not None
        assert caught.value.at + caught.value.have == size


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (header(b"a\xff", 1, b"v"), "a header key is not UTF-8 at byte 92"),
        (header("k", 6, b"123"), "width of its kind at byte 97: 4 bytes needed, 3 available"),
        (header("k", 0, b"v"), "the invalid kind 0 at byte 92"),
    ],
)
def test_malformed_headers_are_refused_with_their_place(header_lists: ModuleType, block: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        header_lists.decode_header_lists(stored(b"p") + stored(b"p", block), "array")


@pytest.mark.parametrize("module", kernels.variants("batch.to_columns.header_lists"), ids=kernels.name_of)
@given(batch=st.lists(all_headers, max_size=6))
@settings(max_examples=80, deadline=None)
def test_lists_agree_with_the_messages(module: ModuleType, batch: list[Headers]) -> None:
    data = b"".join(stored(b"p", encode_headers(headers), offset=i) for i, headers in enumerate(batch))
    messages = decode_polled(data)
    lists = module.decode_header_lists(data, "array")
    assert lists_of(lists) == [[(key, int(value.kind), value.data) for key, value in m.headers.items()] for m in messages]
    assert [bool(flag) for flag in lists.repeated] == [m.headers.repeated for m in messages]
    keys = [[key for key, _, _ in pairs] for pairs in lists_of(module.decode_header_lists(data, "map"))]
    assert keys == [sorted(m.headers.keys(), key=str.encode) for m in messages]
