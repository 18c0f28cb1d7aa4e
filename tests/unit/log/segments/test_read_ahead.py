"""Ahead: few messages at a time, one read after the other, are the same messages."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.binary import decode_polled
from headstream.errors import CorruptSendError
from headstream.log.segments.follower import PartitionFollower
from tests.support.log.logs import SEED, batch, make_files, open_partition


@settings(max_examples=60, deadline=None)
@given(
    sends=st.lists(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=12), min_size=1, max_size=40),
    data=st.data(),
)
def test_reads_through_ahead_give_what_is_there_wherever_they_begin(sends: list[list[bytes]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        files, directory = make_files("os", Path(root))
        partition = open_partition(files, directory, segment_bytes=data.draw(st.sampled_from([500, 4000, 1 << 20])))
        written: list[bytes] = []
        with PartitionFollower(directory, files) as follower:
            at = 0
            for number, send in enumerate(sends):
                partition.append(batch(*send), number, SEED)
                written += send
                follower.refresh()
                for _ in range(data.draw(st.integers(0, 4))):
                    # No draw depends on `at`: how far a read gets depends on the clock of the file system.
                    elsewhere, is_next = data.draw(st.integers(0, len(written) - 1)), data.draw(st.integers(0, 3)) > 0
                    count, size = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 400, 1 << 20]))
                    start = at if is_next else elsewhere
                    until = min(start + count, len(written))
                    if start == until:
                        continue
                    chunk, at = follower.read_ahead.read_chunk(follower, start, until, size)
                    found = decode_polled(chunk)
                    assert start < at <= until
                    assert [message.payload for message in found] == written[start:at]
                    assert [message.offset for message in found] == list(range(start, at))
        partition.close()


def test_ahead_reads_no_file_for_what_it_has_brought_until_it_forgets(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory, segment_bytes=1 << 20)
    for number in range(10):
        partition.append(batch(b"%d" % number), number, SEED)
    partition.close()
    with PartitionFollower(directory, files) as follower:
        for offset in range(3):
            follower.read_ahead.read_chunk(follower, offset, offset + 1, 1000)
        [path] = Path(directory).glob("*.log")
        path.write_bytes(bytes(path.stat().st_size))
        assert follower.read_ahead.read_chunk(follower, 3, 5, 1000)[1] == 5
        follower.read_ahead.forget()
        with pytest.raises(CorruptSendError):
            follower.read_ahead.read_chunk(follower, 5, 6, 1000)
