"""Unit tests of headstream.log.partition.index_rebuild."""

from __future__ import annotations

import pytest

from headstream.errors import CorruptLogError
from headstream.log.partition.recovery import recover
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, decode_entry, segment_path
from headstream.log.system.files import Files
from tests.support.messages.batches import stored
from tests.unit.log.partition.test_recovery import add, check_goes_on, place

__all__ = ["place"]  # fixtures


def test_recover_builds_an_index_with_a_damaged_head_again_and_keeps_the_old_one(place: tuple[Files, str]) -> None:
    files, directory = place
    path = segment_path(directory, 0, INDEX_SUFFIX)
    files.open_write(path).write_at(b"X", 3)
    assert recover(directory, files).entries == 3
    assert any(".index.set-aside-" in name for name in files.list_names(directory) or [])
    check_goes_on(files, directory, 6)


def test_recover_refuses_a_damaged_head_that_the_messages_do_not_make_good(place: tuple[Files, str]) -> None:
    files, directory = place
    files.open_write(segment_path(directory, 0, INDEX_SUFFIX)).write_at(bytes(64), 0)
    files.open_write(segment_path(directory, 0, LOG_SUFFIX)).write_at(b"X", 46)
    with pytest.raises(CorruptLogError, match="header of an index file is damaged"):
        recover(directory, files)


def test_rebuilt_entries_have_one_time_each(place: tuple[Files, str]) -> None:
    files, directory = place
    path = segment_path(directory, 6, LOG_SUFFIX)
    messages = [stored(b"%d" % n, offset=6 + n, timestamp_us=time) for n, time in enumerate([200, 200, 300, 300, 300, 400])]
    add(files, path, b"".join(messages))
    recover(directory, files)
    index = files.open_read(segment_path(directory, 6, INDEX_SUFFIX))
    assert index is not None
    data = memoryview(bytearray(index.size_bytes()))
    index.read_into(data, 0)
    entries = [decode_entry(data[at : at + 32], 6) for at in range(32, len(data), 32)]
    assert [(e.first_offset, e.messages_count, e.timestamp_us) for e in entries if e] == [(6, 2, 200), (8, 3, 300), (11, 1, 400)]
