"""What a crash can leave, spelled out by hand, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import CorruptLogError, CorruptSendError
from headstream.log.partition.recovery import recover
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, IndexEntry, encode_entry, encode_header, segment_path
from headstream.log.system.files import Files
from tests.support.log.logs import SEED, batch, make_files, open_partition, payloads, read_all
from tests.support.messages.batches import stored

SENDS = [[b"one", b"two"], [b"three"], [b"four", b"five", b"six"]]
WRITTEN = [payload for send in SENDS for payload in send]


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    files, directory = make_files(request.param, tmp_path)
    write(files, directory)
    return files, directory


def write(files: Files, directory: str, segment_bytes: int = 1 << 20) -> None:
    partition = open_partition(files, directory, segment_bytes=segment_bytes)
    for number, send in enumerate(SENDS):
        partition.append(batch(*send), 100 + number, SEED)
    partition.close()


def size_of(files: Files, path: str) -> int:
    file = files.open_read(path)
    assert file is not None
    return file.size_bytes()


def add(files: Files, path: str, data: bytes) -> None:
    file = files.open_write(path)
    file.write_at(data, file.size_bytes())
    file.close()


def cut(files: Files, path: str, count: int) -> None:
    file = files.open_write(path)
    file.truncate(file.size_bytes() - count)
    file.close()


def check_goes_on(files: Files, directory: str, kept: int) -> None:
    """Check that so many messages are there, and that appending goes on behind them."""
    assert payloads(read_all(files, directory)) == WRITTEN[:kept]
    assert open_partition(files, directory).append(batch(b"next"), 0, SEED) == kept
    assert payloads(read_all(files, directory)) == [*WRITTEN[:kept], b"next"]


@pytest.mark.parametrize("torn", [b"\x01", stored(b"torn", offset=6)[:-2], stored(b"whole, not acknowledged", offset=6)])
def test_recover_cuts_data_without_an_index_entry(place: tuple[Files, str], torn: bytes) -> None:
    files, directory = place
    path = segment_path(directory, 0, LOG_SUFFIX)
    size = size_of(files, path)
    add(files, path, torn)
    tail = recover(directory, files)
    assert (tail.base_offset, tail.end_offset, tail.byte_position, tail.entries, tail.timestamp_us) == (0, 6, size, 3, 102)
    assert size_of(files, path) == size
    check_goes_on(files, directory, 6)


@pytest.mark.parametrize("kept", [0, 1, 16, 31])
def test_recover_cuts_a_torn_index_entry_and_its_data(place: tuple[Files, str], kept: int) -> None:
    files, directory = place
    cut(files, segment_path(directory, 0, INDEX_SUFFIX), 32 - kept)
    assert recover(directory, files).end_offset == 3
    assert size_of(files, segment_path(directory, 0, INDEX_SUFFIX)) == 32 + 2 * 32
    assert size_of(files, segment_path(directory, 0, LOG_SUFFIX)) == 48 * 2 + 50
    check_goes_on(files, directory, 3)


@pytest.mark.parametrize(("lost", "kept"), [(1, 3), (146, 3), (147, 2), (146 + 50, 2), (146 + 51, 0)])
def test_recover_drops_entries_that_point_behind_the_data(place: tuple[Files, str], lost: int, kept: int) -> None:
    files, directory = place
    cut(files, segment_path(directory, 0, LOG_SUFFIX), lost)
    assert recover(directory, files).end_offset == kept
    check_goes_on(files, directory, kept)


@pytest.mark.parametrize("damage", ["cut", "offset", "payload", "no messages"])
def test_damage_in_an_earlier_segment_stops_its_readers_and_nobody_else(tmp_path: Path, damage: str) -> None:
    files, directory = make_files("os", tmp_path)
    write(files, directory, segment_bytes=1)
    path = segment_path(directory, 2, LOG_SUFFIX)
    if damage == "no messages":
        files.remove(path)
    else:
        files.remove(segment_path(directory, 2, INDEX_SUFFIX))
        at = {"cut": size_of(files, path) - 1, "offset": 0, "payload": 46}[damage]
        file = files.open_write(path)
        if damage == "cut":
            file.truncate(at)
        else:
            file.write_at(b"\x7f", at)
    before = sorted(files.list_names(directory) or [])
    assert open_partition(files, directory, segment_bytes=1).append(batch(b"next"), 0, SEED) == 6
    assert set(before) <= set(files.list_names(directory) or [])
    with PartitionFollower(directory, files) as follower:
        assert (follower.first_offset, follower.end_offset) == (0, 7)
        assert b"".join(bytes(chunk) for chunk in follower.read(0, 2)).count(b"one") == 1
        assert b"".join(bytes(chunk) for chunk in follower.read(3)).count(b"next") == 1
        with pytest.raises(CorruptLogError, match=r"offset 2 (is missing|cannot be read)"):
            list(follower.read(0))


def test_recover_keeps_the_bytes_behind_a_whole_entry_that_is_damaged(place: tuple[Files, str]) -> None:
    files, directory = place
    path = segment_path(directory, 0, INDEX_SUFFIX)
    files.open_write(path).write_at(b"\xff", 32 + 2 * 32)
    assert recover(directory, files).end_offset == 3
    assert size_of(files, f"{segment_path(directory, 0, LOG_SUFFIX)}.rest-{48 * 2 + 50}") == 45 * 3 + 11
    assert size_of(files, f"{path}.rest-96") == 32
    check_goes_on(files, directory, 3)


def test_recover_reads_only_the_sends_of_the_last_minute(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory)
    for time_us in (0, 1_000_000, 61_000_001, 62_000_000):
        partition.append(batch(b"x"), time_us, SEED)
    partition.close()
    path = segment_path(directory, 0, LOG_SUFFIX)
    files.open_write(path).write_at(b"y", 45)  # long on the disk when the power went: not a crash's work
    assert recover(directory, files).end_offset == 4
    files.open_write(path).write_at(b"y", 46 + 46 + 45)  # the first of the last minute: the last one is whole
    assert recover(directory, files).end_offset == 4
    files.open_write(path).write_at(b"y", 46 + 46 + 46 + 45)  # all of the last minute: then nothing is trusted
    assert recover(directory, files).end_offset == 2
    assert size_of(files, f"{path}.rest-92") == 2 * 46


def test_recover_makes_the_index_of_a_segment_that_was_just_begun(place: tuple[Files, str]) -> None:
    files, directory = place
    files.open_write(segment_path(directory, 6, LOG_SUFFIX)).close()
    tail = recover(directory, files)
    assert (tail.base_offset, tail.end_offset, tail.entries, tail.timestamp_us) == (6, 6, 0, 102)
    check_goes_on(files, directory, 6)


@pytest.mark.parametrize("kept", [0, 1, 31])
def test_recover_completes_an_index_whose_head_was_cut(place: tuple[Files, str], kept: int) -> None:
    files, directory = place
    files.open_write(segment_path(directory, 6, LOG_SUFFIX)).close()
    files.open_write(segment_path(directory, 6, INDEX_SUFFIX)).write_at(encode_header(6)[:kept], 0)
    assert recover(directory, files).end_offset == 6
    check_goes_on(files, directory, 6)


def test_recover_begins_a_segment_behind_messages_that_are_gone(
    place: tuple[Files, str], caplog: pytest.LogCaptureFixture
) -> None:
    files, directory = place
    path = segment_path(directory, 0, LOG_SUFFIX)
    file = files.open_read(path)
    assert file is not None
    whole = memoryview(bytearray(file.size_bytes()))
    file.read_into(whole, 0)
    files.remove(path)
    assert open_partition(files, directory).append(batch(b"next"), 0, SEED) == 6
    assert f"{path}: the messages from offset 0 are missing" in caplog.text
    with PartitionFollower(directory, files) as follower:
        with pytest.raises(CorruptSendError, match="offsets 0 to 5 is missing") as caught:
            list(follower.read(0))
        assert follower.next_readable(caught.value.until_offset) == 6
        assert len(list(follower.read(6))) == 1
    files.open_write(path).write_at(whole, 0)  # a copy is put back
    assert payloads(read_all(files, directory)) == [*WRITTEN, b"next"]
    recover(directory, files)
    assert payloads(read_all(files, directory)) == [*WRITTEN, b"next"]


def test_recover_makes_the_messages_file_of_an_empty_segment_again(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    files.open_write(segment_path(directory, 0, INDEX_SUFFIX)).write_at(encode_header(0), 0)
    assert open_partition(files, directory).append(batch(b"first"), 0, SEED) == 0
    assert payloads(read_all(files, directory)) == [b"first"]


def test_recover_refuses_a_missing_directory(place: tuple[Files, str]) -> None:
    files, directory = place
    with pytest.raises(CorruptLogError, match="directory is missing"):
        recover(f"{directory}/none", files)


def test_recover_changes_nothing_when_there_is_nothing_to_mend(place: tuple[Files, str]) -> None:
    files, directory = place
    before = {name: size_of(files, f"{directory}/{name}") for name in files.list_names(directory) or []}
    assert recover(directory, files) == recover(directory, files)
    assert {name: size_of(files, f"{directory}/{name}") for name in files.list_names(directory) or []} == before


def test_a_reader_never_sees_what_is_not_committed(place: tuple[Files, str]) -> None:
    files, directory = place
    add(files, segment_path(directory, 0, LOG_SUFFIX), stored(b"whole, not acknowledged", offset=6))
    entry = IndexEntry(243, 68, 6, 1, 103, 0)
    add(files, segment_path(directory, 0, INDEX_SUFFIX), encode_entry(entry, 0)[:31])
    assert payloads(read_all(files, directory)) == WRITTEN
