"""Ordinary reads notice damage: before any byte of it is given out, after all before it was, and reads go on behind it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.binary import decode_polled
from headstream.errors import CorruptSendError
from headstream.log.segments import checking
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.files import Files, MemoryFiles
from tests.support.log.logs import SEED, batch, make_files, open_partition

PLACE = "partition"


def write(sends: list[int], segment_bytes: int = 1 << 20) -> MemoryFiles:
    """Return a partition with so many messages in each send; the payload is the offset."""
    files, _ = make_files("memory", Path())
    assert isinstance(files, MemoryFiles)
    partition = open_partition(files, PLACE, segment_bytes=segment_bytes)
    offset = 0
    for count in sends:
        partition.append(batch(*(b"%d" % number for number in range(offset, offset + count))), offset, SEED)
        offset += count
    return files


def flip(files: Files, path: str, position: int, bit: int = 1) -> None:
    file, byte = files.open_write(path), memoryview(bytearray(1))
    file.read_into(byte, position)
    file.write_at(bytes([byte[0] ^ bit]), position)


def read_around(files: Files, size_bytes: int = 4096, start: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets that can be read, going on behind what is damaged, and the ranges that were said to be."""
    offsets: list[int] = []
    damaged: list[tuple[int, int]] = []
    with PartitionFollower(PLACE, files) as follower:
        while start < follower.end_offset:
            try:
                for chunk in follower.read(start, size_bytes=size_bytes):
                    for message in decode_polled(chunk):
                        assert message.verify()
                        assert message.offset is not None
                        assert message.payload == b"%d" % message.offset
                        offsets.append(message.offset)
                        start = message.offset + 1
            except CorruptSendError as error:
                damaged.append((error.from_offset, error.until_offset))
                start = follower.next_readable(error.until_offset)
    return offsets, damaged


@pytest.mark.parametrize("size_bytes", [1, 60, 4096])
def test_read_gives_all_but_the_damaged_send(size_bytes: int) -> None:
    files = write([3, 4, 5])
    flip(files, segment_path(PLACE, 0, LOG_SUFFIX), 46 * 3 + 60)
    offsets, damaged = read_around(files, size_bytes)
    assert offsets == [0, 1, 2, 7, 8, 9, 10, 11]
    assert damaged == [(3, 7)]


def test_read_that_begins_within_a_damaged_send_gives_nothing_of_it() -> None:
    files = write([3, 4, 5])
    flip(files, segment_path(PLACE, 0, LOG_SUFFIX), 46 * 3 + 45)  # the payload of offset 3: offset 5 itself is whole
    assert read_around(files, 60, start=5) == ([7, 8, 9, 10, 11], [(3, 7)])


def test_error_says_file_bytes_offsets_and_what_to_do() -> None:
    files = write([3, 4, 5])
    path = segment_path(PLACE, 0, LOG_SUFFIX)
    flip(files, path, 46 * 3 + 60)
    with PartitionFollower(PLACE, files) as follower, pytest.raises(CorruptSendError) as caught:
        list(follower.read(3))
    assert f"({path}, bytes 138 to 321)" in str(caught.value)
    assert "offsets 3 to 6 is damaged" in str(caught.value)
    assert "read from offset 7" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.from_offset, again.until_offset, str(again)) == (3, 7, str(caught.value))


def test_read_without_verifying_gives_what_is_there() -> None:
    files = write([3, 4, 5])
    flip(files, segment_path(PLACE, 0, LOG_SUFFIX), 46 * 3 + 45)
    with PartitionFollower(PLACE, files, verify=False) as follower:
        messages = [message for chunk in follower.read(0) for message in decode_polled(chunk)]
    assert [message.offset for message in messages] == list(range(12))
    assert not messages[3].verify()


def test_changed_states_are_no_damage() -> None:
    files = write([3, 4])
    for number in range(7):
        flip(files, segment_path(PLACE, 0, LOG_SUFFIX), 46 * number + 8, 20)
    assert read_around(files, 60) == (list(range(7)), [])


def test_read_goes_on_behind_a_damaged_index_entry() -> None:
    for at in range(0, INDEX_ENTRY_BYTES, 3):
        files = write([2] * 9)
        flip(files, segment_path(PLACE, 0, INDEX_SUFFIX), INDEX_HEADER_BYTES + 4 * INDEX_ENTRY_BYTES + at, 0x80)
        for size_bytes in (1, 100, 4096):
            offsets, damaged = read_around(files, size_bytes)
            assert offsets == [*range(8), *range(10, 18)]
            assert damaged == [(8, 10)]


def test_read_goes_on_behind_a_segment_of_which_nothing_can_be_read() -> None:
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
        files = write([3] * 4, segment_bytes=1)
        if suffix == LOG_SUFFIX:
            files.remove(segment_path(PLACE, 3, suffix))
        else:
            flip(files, segment_path(PLACE, 3, suffix), 0)
        offsets, damaged = read_around(files)
        assert offsets == [0, 1, 2, *range(6, 12)]
        assert damaged == [(3, 6)]


def test_next_readable_passes_over_all_that_is_cut_off() -> None:
    files = write([2] * 5)
    files.open_write(segment_path(PLACE, 0, LOG_SUFFIX)).truncate(46 * 3)
    with PartitionFollower(PLACE, files) as follower:
        assert follower.next_readable(0) == 0
        assert follower.next_readable(2) == 10
    assert read_around(files)[0] == [0, 1]


def test_a_great_send_is_checked_piece_by_piece() -> None:
    files, _ = make_files("memory", Path())
    partition = open_partition(files, PLACE, segment_bytes=1 << 24)
    partition.append(batch(*(bytes([number]) * 700_000 for number in range(6))), 0, SEED)
    partition.append(batch(bytes(3_000_000), b"small"), 0, SEED)
    with PartitionFollower(PLACE, files) as follower:
        assert sum(map(len, follower.read(0, size_bytes=10))) == follower.size_bytes()
    flip(files, segment_path(PLACE, 0, LOG_SUFFIX), 4_000_000)
    with PartitionFollower(PLACE, files) as follower:
        with pytest.raises(CorruptSendError):
            next(follower.read(2, size_bytes=10))
        assert follower.next_readable(2) == 6


@settings(max_examples=60, deadline=None)
@given(
    sends=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    segment_bytes=st.sampled_from([1, 400, 1 << 20]),
    size_bytes=st.sampled_from([1, 100, 1000, 1 << 20]),
    piece_bytes=st.sampled_from([30, 100, 1 << 18]),
    data=st.data(),
)
def test_any_flipped_bit_costs_its_send_alone(
    sends: list[int], segment_bytes: int, size_bytes: int, piece_bytes: int, data: st.DataObject
) -> None:
    files = write(sends, segment_bytes)
    number = data.draw(st.integers(0, len(sends) - 1))
    first = sum(sends[:number])
    with PartitionFollower(PLACE, files) as follower:
        path, position = follower.position_of(data.draw(st.integers(first, first + sends[number] - 1)))
    at = data.draw(st.integers(0, 45).filter(lambda at: at != 8))
    flip(files, path, position + at, 1 << data.draw(st.integers(0, 7)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "_PIECE_BYTES", piece_bytes)
        offsets, damaged = read_around(files, size_bytes)
    assert damaged == [(first, first + sends[number])]
    assert offsets == [*range(first), *range(first + sends[number], sum(sends))]
