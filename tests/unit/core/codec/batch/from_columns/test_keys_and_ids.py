"""placing, grouping, blocks: what columns become on their way to sent messages, against the plain ways."""

from __future__ import annotations

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

placing = kernels.fixture("batch.from_columns.keys_and_ids")


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
    with pytest.raises(InvalidInputError, match="key 0 must not decrease, and must not exceed the data size of 2 bytes"):
        placing.hash_keys(struct.pack("<2i", 0, 3), b"ab", None, 2)
    with pytest.raises(InvalidInputError, match="bitmap is too short for 9 keys"):
        placing.hash_keys(struct.pack("<10i", *[0] * 10), b"", b"\1", 2)
    assert placing.parse_ids(struct.pack("<2i", 0, 36), b"ab", None) == 0


MESSAGES = [sent(bytes([i]) * i, header("k", 2, b"v" * i) if i % 2 else b"", i) for i in range(1, 30)]


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
