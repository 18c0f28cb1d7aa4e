"""Unit tests of headstream.core.codec.batch.from_columns.blocks."""

from __future__ import annotations

import itertools
import struct
from types import ModuleType

import pytest

from headstream.core.codec.batch.results import VariableColumn
from headstream.errors import InvalidInputError
from tests.support import kernels
from tests.support.messages.batches import header
from tests.unit.core.codec.batch.from_columns.test_keys_and_ids import varied

blocks = kernels.fixture("batch.from_columns.blocks")


def test_build_writes_contributions_one_after_the_other(blocks: ModuleType) -> None:
    there = header("old", 1, b"1")
    builder = blocks.BlockBuilder(3)
    builder.add_blocks(varied([there, None, b""]))
    keys, values = [b"a", b"b", b"a"], [b"x", b"", b"yz"]
    builder.add_lists(
        VariableColumn(struct.pack("<4i", 0, 2, 2, 3), b"", b"\x05"), varied([*keys]), bytes([1, 2, 77]), varied([*values])
    )
    builder.add_column(b"text", 2, varied([None, b"one", b"two"]))
    builder.add_numbers(b"n", 5, 2, struct.pack("<3h", 1, -2, 3), b"\x06")
    offsets, data = builder.build()
    expected = [
        there + header("a", 1, b"x") + header("b", 2, b""),
        header("text", 2, b"one") + header("n", 5, struct.pack("<h", -2)),
        header("a", 77, b"yz") + header("text", 2, b"two") + header("n", 5, struct.pack("<h", 3)),
    ]
    ends = struct.unpack("<4i", offsets)
    assert [bytes(data[begin:end]) for begin, end in itertools.pairwise(ends)] == expected


def test_build_of_nothing_is_empty_blocks(blocks: ModuleType) -> None:
    assert blocks.BlockBuilder(2).build() == (bytearray(12), bytearray())
    assert blocks.BlockBuilder(0).build() == (bytearray(4), bytearray())


def test_blocks_refuse_buffers_that_do_not_fit(blocks: ModuleType) -> None:
    builder = blocks.BlockBuilder(2)
    with pytest.raises(InvalidInputError, match="too short for 2 values"):
        builder.add_blocks(varied([b"a"]))
    with pytest.raises(InvalidInputError, match="blocks: the offsets of value 1 decrease or exceed the data size of 1 bytes"):
        builder.add_blocks(VariableColumn(struct.pack("<3i", 0, 1, 2), b"a"))
    lists = VariableColumn(struct.pack("<3i", 0, 1, 2), b"")
    with pytest.raises(InvalidInputError, match="lists: the offsets of value 1 decrease or exceed the data size of 1 bytes"):
        builder.add_lists(lists, varied([b"a"]), b"\1", varied([b"a"]))
    with pytest.raises(InvalidInputError, match="2 values of 8 bytes do not fit in 8 data bytes"):
        builder.add_numbers(b"n", 7, 8, bytes(8), None)
    with pytest.raises(InvalidInputError, match="0 validity bytes are too few for 2 values"):
        builder.add_numbers(b"n", 7, 8, bytes(16), b"")
    for width in (0, -1):
        with pytest.raises(InvalidInputError, match=f"must be at least 1 byte, not {width}"):
            builder.add_numbers(b"n", 7, width, bytes(16), None)
    assert builder.build() == (bytearray(12), bytearray())  # nothing of what was refused is in it
