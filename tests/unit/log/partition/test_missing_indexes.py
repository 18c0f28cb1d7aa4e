"""Unit tests of headstream.log.partition.missing_indexes."""

from __future__ import annotations

from pathlib import Path

from headstream.log.partition.recovery import recover
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.files import Files
from tests.support.log.logs import make_files
from tests.unit.log.partition.test_recovery import add, check_goes_on, place, size_of, write

__all__ = ["place"]  # fixtures


def test_recover_builds_a_missing_index_again(place: tuple[Files, str]) -> None:
    files, directory = place
    path = segment_path(directory, 0, INDEX_SUFFIX)
    before = files.open_read(path)
    assert before is not None
    expected = memoryview(bytearray(before.size_bytes()))
    before.read_into(expected, 0)
    files.remove(path)
    assert recover(directory, files).entries == 3
    after = files.open_read(path)
    assert after is not None
    actual = memoryview(bytearray(after.size_bytes()))
    after.read_into(actual, 0)
    assert actual == expected
    check_goes_on(files, directory, 6)


def test_recover_sets_aside_what_follows_the_last_whole_message_when_the_index_is_missing(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    write(files, directory)
    files.remove(segment_path(directory, 0, INDEX_SUFFIX))
    path = segment_path(directory, 0, LOG_SUFFIX)
    size = size_of(files, path)
    add(files, path, b"whatever this is")
    assert recover(directory, files).end_offset == 6
    (kept,) = Path(directory).glob("*.log.set-aside-*")
    assert kept.read_bytes() == b"whatever this is"
    assert size_of(files, path) == size
    check_goes_on(files, directory, 6)


def test_recover_builds_a_missing_index_of_an_earlier_segment(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    write(files, directory, segment_bytes=1)
    files.remove(segment_path(directory, 2, INDEX_SUFFIX))
    recover(directory, files)
    check_goes_on(files, directory, 6)
