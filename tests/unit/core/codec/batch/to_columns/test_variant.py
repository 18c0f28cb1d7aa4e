"""Unit tests of headstream.core.codec.batch.to_columns.variant."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from headstream.core.model import constructors as kinds
from headstream.core.model.header_values import HeaderValue
from tests.support.messages.batches import header, stored
from tests.unit.core.codec.batch.to_columns.test_columns import KEY, columns, variants

__all__ = ["columns"]  # fixtures


def variant_of(columns: ModuleType, block: bytes) -> Any:
    (value,) = variants(columns.decode_columns(stored(b"p", block)))
    return value


EVERY_KIND: list[tuple[HeaderValue, Any]] = [
    (kinds.raw(b"\x00\xff"), b"\x00\xff"),
    (kinds.raw(b""), b""),
    (kinds.raw(bytes(300)), bytes(300)),
    (kinds.string(""), ""),
    (kinds.string("s" * 63), "s" * 63),
    (kinds.string("s" * 64), "s" * 64),
    (kinds.string("żółw 🐢" * 50), "żółw 🐢" * 50),
    (kinds.bool_(True), True),
    (kinds.bool_(False), False),
    *((kinds.int8(n), n) for n in (-128, -1, 0, 127)),
    *((kinds.int16(n), n) for n in (-32768, 32767)),
    *((kinds.int32(n), n) for n in (-(1 << 31), (1 << 31) - 1)),
    *((kinds.int64(n), n) for n in (-(1 << 63), (1 << 63) - 1)),
    *((kinds.uint8(n), n) for n in (0, 255)),
    *((kinds.uint16(n), n) for n in (0, 65535)),
    *((kinds.uint32(n), n) for n in (0, (1 << 32) - 1)),
    *((kinds.uint64(n), Decimal(n)) for n in (0, 1 << 63, (1 << 64) - 1)),
    *((kinds.int128(n), Decimal(n)) for n in (0, -1, 1 << 64, 10**38 - 1, -(10**38) + 1)),
    *((kinds.int128(n), str(n)) for n in (10**38, -(10**38), (1 << 127) - 1, -(1 << 127))),
    *((kinds.uint128(n), Decimal(n)) for n in (0, 1 << 100, 10**38 - 1)),
    *((kinds.uint128(n), str(n)) for n in (10**38, (1 << 128) - 1, 340282366920938463463374607431768211400)),
    (kinds.float32(1.5), 1.5),
    (kinds.float32(float("-inf")), float("-inf")),
    (kinds.float64(-0.1), -0.1),
    (kinds.null(), None),
    *((kinds.char(c), c) for c in ("\x00", "a", "\x7f", "\x80", "߿", "ࠀ", "語", "\ud7ff", "\ue000", "\uffff")),
    (HeaderValue(65, b"\x00\xd8"), b"\x00\xd8"),  # half of a surrogate pair is no text
    (HeaderValue(65, b"\xff\xdf"), b"\xff\xdf"),
    (HeaderValue(200, b"of tomorrow"), b"of tomorrow"),
    (HeaderValue(16, b""), b""),
]


@pytest.mark.parametrize(("value", "expected"), EVERY_KIND, ids=[str(i) for i in range(len(EVERY_KIND))])
def test_a_variant_holds_every_kind(columns: ModuleType, value: HeaderValue, expected: Any) -> None:
    result = variant_of(columns, header("k", value.kind, value.data))
    assert result == {"k": expected}
    assert type(result["k"]) is type(expected)


def test_a_variant_is_spelled_as_the_specification_says(columns: ModuleType) -> None:
    result = columns.decode_columns(stored(b"p", header("b", 2, b"xy") + header("a", 9, b"\x07")))
    assert result.metadata_data == bytes([0x11, 2, 0, 1, 2]) + b"ab"
    assert result.headers_data == bytes([2, 2, 0, 1, 0, 3, 6, 4 << 2, 7, 0, 2 << 2 | 1]) + b"xy"
    empty = columns.decode_columns(stored(b"p"))
    assert (empty.headers_data, empty.metadata_data) == (bytes([2, 0, 0]), bytes([0x11, 0, 0]))


def test_a_variant_keeps_the_last_value_of_a_key_and_says_that_one_was_hidden(columns: ModuleType) -> None:
    blocks = [
        header("k", 9, b"\x01") + header("a", 9, b"\x02") + header("k", 2, b"last"),
        header("k", 9, b"\x01") + header("a", 9, b"\x02"),
        header("k", 9, b"\x01") * 3,
        KEY + header("hs.key", 1, b"again"),
    ]
    result = columns.decode_columns(b"".join(stored(b"p", block) for block in blocks))
    assert variants(result) == [{"k": "last", "a": 2}, {"k": 1, "a": 2}, {"k": 1}, {"hs.key": b"again"}]
    assert list(result.repeated) == [1, 0, 1, 0]
    as_blocks = columns.decode_columns(b"".join(stored(b"p", block) for block in blocks), headers="binary")
    assert list(as_blocks.repeated) == [1, 0, 1, 0]


@pytest.mark.parametrize("count", [2, 15, 16, 17, 31, 33, 255, 256, 257, 300, 1000])
def test_a_variant_sorts_any_number_of_keys_bytewise(columns: ModuleType, count: int) -> None:
    random_ = random.Random(count)
    names = [f"{random_.choice('abzéż語🐢')}{i:x}" for i in range(count)]
    random_.shuffle(names)
    names += names[: count // 3]  # repeats
    pairs = [(name, i) for i, name in enumerate(names)]
    block = b"".join(header(name, 6, struct.pack("<i", i)) for name, i in pairs)
    result = columns.decode_columns(stored(b"p", block))
    (value,) = variants(result)
    assert value == dict(pairs)
    assert list(value) == sorted(value, key=str.encode)
    assert list(result.repeated) == [int(count // 3 > 0)]


@pytest.mark.parametrize("total", [200, 243, 244, 245, 246, 250, 255, 256, 300, 65_000, 65_525, 65_530, 65_540, 70_000])
def test_a_variant_of_any_size_has_the_smallest_offsets_that_do(columns: ModuleType, total: int) -> None:
    sizes = [total // 2, total - total // 2]
    block = b"".join(header(f"k{i}", 1, bytes([i]) * size) for i, size in enumerate(sizes)) + header("n", 64, b"")
    result = columns.decode_columns(stored(b"p", block))
    assert variants(result) == [{"k0": bytes(sizes[0]), "k1": b"\x01" * sizes[1], "n": None}]
    bytes_of_values = total + 2 * 5 + 1
    assert (result.headers_data[0] >> 2 & 3) + 1 == (1 if bytes_of_values < 256 else 2 if bytes_of_values < 65_536 else 3)


def test_a_variant_of_very_many_bytes_of_keys(columns: ModuleType) -> None:
    names = [f"{i:03}" + "k" * 252 for i in range(260)]
    block = b"".join(header(name, 3, b"\x01") for name in names)
    assert variant_of(columns, block) == dict.fromkeys(names, True)
