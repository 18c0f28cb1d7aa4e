"""placing, grouping, blocks: what columns become on their way to sent messages, against the plain ways."""

from __future__ import annotations

import itertools
import struct
import uuid
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.batch.stored.stamp import find_fault
from headstream.core.model.partitioning import partition_of
from headstream.errors import DecodeError, InvalidInputError, LimitError
from tests.support import kernels
from tests.support.messages.batches import header, sent


@pytest.fixture(params=kernels.variants("batch.from_columns.keys_and_ids"), ids=kernels.name_of)
def placing(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture(params=kernels.variants("batch.from_columns.grouping"), ids=kernels.name_of)
def grouping(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture(params=kernels.variants("batch.from_columns.blocks"), ids=kernels.name_of)
def blocks(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def varied(values: list[bytes | None]) -> VariableColumn:
    validity, offsets, data = pa.array(values, pa.binary()).buffers()
    return VariableColumn(offsets.to_pybytes()[: 4 * len(values) + 4], data.to_pybytes() if data else b"", validity)


KEYS = [None, b"", b"a", b"abc", b"abcd", b"0123456789abcdef", b"0123456789abcdefg", bytes(range(256)) * 3]


@pytest.mark.parametrize("partitions", [1, 2, 7, 1000])
def test_hash_keys_places_as_the_producer_does(placing: ModuleType, partitions: int) -> None:
    column = varied(KEYS)
    found = struct.unpack(f"<{len(KEYS)}i", placing.hash_keys(*column, partitions))
    assert found == tuple(0 if key is None else partition_of(key, partitions) for key in KEYS)


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=70), max_size=20), st.integers(1, 1000))
def test_hash_keys_is_xxhash32(keys: list[bytes], partitions: int) -> None:
    for module in kernels.variants("batch.from_columns.keys_and_ids"):
        found = module.hash_keys(*varied(list(keys)), partitions)
        assert struct.unpack(f"<{len(keys)}i", found) == tuple(partition_of(key, partitions) for key in keys)


def test_parse_ids_reads_uuids_and_says_which_is_none(placing: ModuleType) -> None:
    ids = [uuid.UUID(int=number) for number in (0, 1, (1 << 128) - 1, 0x0123456789ABCDEF << 64)]
    texts: list[bytes | None] = [
        str(each).upper().encode() if number % 2 else str(each).encode() for number, each in enumerate(ids)
    ]
    assert placing.parse_ids(*varied([None, *texts])) == bytes(16) + b"".join(each.bytes for each in ids)
    for wrong in (b"", b"123", b"0" * 36, str(ids[0]).replace("-", "_").encode(), b"g" + str(ids[0]).encode()[1:]):
        assert placing.parse_ids(*varied([texts[0], wrong])) == 1


def test_placing_refuses_buffers_that_do_not_fit(placing: ModuleType) -> None:
    with pytest.raises(InvalidInputError, match="key 0 do not ascend within 2 bytes"):
        placing.hash_keys(struct.pack("<2i", 0, 3), b"ab", None, 2)
    with pytest.raises(InvalidInputError, match="do not fit"):
        placing.hash_keys(struct.pack("<10i", *[0] * 10), b"", b"\1", 2)
    assert placing.parse_ids(struct.pack("<2i", 0, 36), b"ab", None) == 0


MESSAGES = [sent(bytes([i]) * i, header("k", 2, b"v" * i) if i % 2 else b"", i) for i in range(1, 30)]


def test_group_sent_keeps_the_order_within_each_group(grouping: ModuleType) -> None:
    targets = [number * 7 % 5 for number in range(len(MESSAGES))]
    data, sizes, counts = grouping.group_sent(b"".join(MESSAGES), struct.pack(f"<{len(targets)}i", *targets), 6)
    expected = [[m for m, target in zip(MESSAGES, targets, strict=True) if target == group] for group in range(6)]
    assert data == b"".join(b"".join(group) for group in expected)
    assert sizes == tuple(len(b"".join(group)) for group in expected)
    assert counts == tuple(len(group) for group in expected)


@pytest.mark.parametrize(
    ("data", "targets"), [(MESSAGES[0][:-1], [0]), (MESSAGES[0], [2]), (MESSAGES[0], []), (MESSAGES[0], [0, 0]), (b"short", [0])]
)
def test_group_sent_refuses_what_does_not_fit(grouping: ModuleType, data: bytes, targets: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="is cut short, or has no group"):
        grouping.group_sent(data, struct.pack(f"<{len(targets)}i", *targets), 2)


def test_cut_sent_takes_what_fits_and_one_at_least(grouping: ModuleType) -> None:
    data = b"".join(MESSAGES)
    assert grouping.cut_sent(data, 1 << 40) == (len(data), len(MESSAGES))
    assert grouping.cut_sent(data, 1) == (len(MESSAGES[0]), 1)
    assert grouping.cut_sent(data, len(MESSAGES[0] + MESSAGES[1])) == (len(MESSAGES[0] + MESSAGES[1]), 2)
    assert grouping.cut_sent(data, len(data), 4, 1 << 40).messages_count == 4  # values of 1, 0, 3 and 0 bytes
    assert grouping.cut_sent(data, len(data), 1 << 40, 9).messages_count == 3  # payloads of 1, 2, 3, 4 bytes
    assert grouping.cut_sent(data, len(data), 0, 0).messages_count == 1
    assert grouping.cut_sent(b"", 5) == (0, 0)


@pytest.mark.parametrize("limits", [(), (1 << 40, 1 << 40)])
def test_cut_sent_refuses_messages_when_their_lengths_are_wrong(grouping: ModuleType, limits: tuple[int, ...]) -> None:
    for broken in (b"\1", MESSAGES[0][:-1], bytes(16) + b"\xff\xff\xff\xff" + bytes(4)):
        with pytest.raises(InvalidInputError, match="is cut short"):
            grouping.cut_sent(broken, 1 << 40, *limits)
        assert grouping.cut_sent(MESSAGES[0] + broken, 1 << 40, *limits) == (len(MESSAGES[0]), 1)


def test_cut_sent_refuses_headers_when_they_reach_beyond_their_block(grouping: ModuleType) -> None:
    for headers in (b"\xff\xff\xff\x7f" + bytes(5), header("k", 1, b"v")[:-1], header("k", 1, b"v") + b"\1"):
        with pytest.raises(InvalidInputError, match="its headers are"):
            grouping.cut_sent(sent(b"a", headers), 1 << 40, 1 << 40, 1 << 40)


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
    with pytest.raises(InvalidInputError, match="blocks: the offsets of value 1 do not ascend within 1 bytes"):
        builder.add_blocks(VariableColumn(struct.pack("<3i", 0, 1, 2), b"a"))
    lists = VariableColumn(struct.pack("<3i", 0, 1, 2), b"")
    with pytest.raises(InvalidInputError, match="lists: the offsets of value 1 do not ascend within 1 bytes"):
        builder.add_lists(lists, varied([b"a"]), b"\1", varied([b"a"]))
    with pytest.raises(InvalidInputError, match="2 values of 8 bytes are more than 8 bytes"):
        builder.add_numbers(b"n", 7, 8, bytes(8), None)
    with pytest.raises(InvalidInputError, match="0 bytes of validity are too few for 2 values"):
        builder.add_numbers(b"n", 7, 8, bytes(16), b"")
    for width in (0, -1):
        with pytest.raises(InvalidInputError, match=f"has 1 byte or more, not {width}"):
            builder.add_numbers(b"n", 7, width, bytes(16), None)
    assert builder.build() == (bytearray(12), bytearray())  # nothing of what was refused is in it


def test_find_fault_names_the_first_message_that_a_topic_does_not_take() -> None:
    assert find_fault(b"".join(MESSAGES), wide=False) is None
    long = sent(b"a", header("k", 1, b"v" * 256))
    found = find_fault(b"".join([*MESSAGES[:3], long, long]), wide=False)
    assert found is not None
    assert found[0] == 3
    assert isinstance(found[1], LimitError)
    assert "header 'k' of message 3" in str(found[1])
    assert find_fault(long, wide=True) is None
    many = b"".join(sent(b"a", header("k", 1, b"v" * 255)) for _ in range(500))
    assert find_fault(many, wide=False) is None  # what is too much for one batch is cut
    broken = find_fault(MESSAGES[0] + b"x", wide=True)
    assert broken is not None
    assert isinstance(broken[1], DecodeError)
