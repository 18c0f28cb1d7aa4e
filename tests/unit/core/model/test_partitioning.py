"""Unit tests of headstream.core.model.partitioning."""

from __future__ import annotations

import pytest

from headstream.core.model.partitioning import partition_of


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ((1).to_bytes(4, "little"), 2),
        ((2).to_bytes(4, "little"), 3),
        ((3).to_bytes(4, "little"), 2),
        (b"key-1", 1),
        (b"my-consumer", 1),
    ],
)
def test_partition_of_a_key_is_that_of_iggy(key: bytes, partition: int) -> None:
    assert partition_of(key, 3) == partition
    assert partition_of(key, 1) == 1


def test_partition_of_is_always_one_that_is_there() -> None:
    for partitions in (1, 2, 7, 1000):
        assert {partition_of(b"%d" % number, partitions) for number in range(20 * partitions)} <= set(range(1, partitions + 1))
