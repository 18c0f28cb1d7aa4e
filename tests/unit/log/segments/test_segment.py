"""Unit tests of headstream.log.segments.segment."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import CorruptLogError, CorruptSendError
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import LOG_SUFFIX, segment_path
from tests.support.log.logs import SEED, batch, make_files, open_partition
from tests.unit.log.segments.test_follower import Place


def test_read_says_so_when_a_segment_is_shorter_than_its_index(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    partition.append(batch(b"1"), 0, SEED)
    partition.append(batch(b"2"), 0, SEED)
    files.open_write(segment_path(directory, 0, LOG_SUFFIX)).truncate(60)
    with (
        PartitionFollower(directory, files) as follower,
        pytest.raises(CorruptLogError, match=r"offset 1 is damaged: the file ends at byte 60"),
    ):
        list(follower.read(0))


def test_read_says_so_when_lengths_in_a_send_are_damaged(place: Place) -> None:
    files, directory = place
    open_partition(files, directory).append(batch(*[b"x" * 40] * 10), 0, SEED)
    files.open_write(segment_path(directory, 0, LOG_SUFFIX)).write_at(b"\xff\xff\xff\x7f", 85 * 2 + 41)
    with PartitionFollower(directory, files) as follower, pytest.raises(CorruptSendError, match="offsets 0 to 9 is damaged"):
        list(follower.read(0, 2))
    with PartitionFollower(directory, files, verify=False) as follower:
        assert len(list(follower.read(0, 2))) == 1
        with pytest.raises(CorruptLogError, match="no complete message at byte 170"):
            list(follower.read(0, 9))


@settings(max_examples=60, deadline=None)
@given(
    sends=st.lists(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), min_size=1, max_size=12), data=st.data()
)
def test_sizes_follow_from_the_indexes(sends: list[list[bytes]], data: st.DataObject) -> None:
    files, directory = make_files("memory", Path("root"))
    partition = open_partition(files, directory, segment_bytes=data.draw(st.sampled_from([1, 500, 4000])))
    for number, send in enumerate(sends):
        partition.append(batch(*send), number, SEED)
    partition.close()
    edges = [0]
    sizes = []
    for send in sends:
        edges.append(edges[-1] + len(send))
        sizes.append(sum(45 + len(payload) for payload in send))
    with PartitionFollower(directory, files) as follower:
        for _ in range(5):
            first = data.draw(st.integers(0, len(sends) - 1))
            last = data.draw(st.integers(first, len(sends)))
            assert follower.size_between(edges[first], edges[last]) == sum(sizes[first:last])
            inside = data.draw(st.integers(0, edges[-1]))
            assert follower.size_between(0, inside) + follower.size_between(inside, edges[-1] + 9) == sum(sizes)
            room = data.draw(st.integers(0, 3000))
            expected = first + 1
            while expected < len(sends) and sum(sizes[first : expected + 1]) <= room:
                expected += 1
            assert follower.offset_after(edges[first], room) == edges[expected]
