"""Unit tests of headstream.log.upkeep.segment_rewrite."""

from __future__ import annotations

import pytest

from headstream.core.codec.binary import decode_polled
from headstream.errors import CorruptLogError
from headstream.log.partition.segment_removal import drop_segment
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import segment_path
from headstream.log.system.files import MemoryFile, MemoryFiles
from headstream.log.upkeep.segment_rewrite import PassContext
from tests.unit.log.upkeep.test_compaction_pass import PLACE, compact, make_closed, read, what_stays


def test_states_that_are_set_while_a_segment_is_copied_are_in_the_copy() -> None:
    files = MemoryFiles()
    sent = make_closed(files, 5000)
    changes = 0
    stays = what_stays(sent, 0)[0]

    def count_changes() -> int:
        """Set a state between the look at the number and the copy: its byte is written to the old file."""
        nonlocal changes
        if changes < 2:
            changes += 1
            with PartitionFollower(PLACE, files) as follower:
                path, position = follower.position_of(stays.offset)
            files.open_write(path).write_at(bytes([20]), position + 8)
        return changes

    compact(files, around=PassContext(state_changes=count_changes))
    with PartitionFollower(PLACE, files) as follower:
        states = {m.offset: m.state for chunk in follower.read(0) for m in decode_polled(chunk)}
    assert states == {each.offset: 20 if each is stays else 1 for each in what_stays(sent, 0)}


def test_a_pass_that_is_not_wanted_any_more_leaves_all_as_it_was() -> None:
    files = MemoryFiles()
    sent = make_closed(files, 400)
    names = files.list_names(PLACE)
    for asked in range(4):
        answers = iter([True] * asked)
        outcome = compact(files, around=PassContext(is_wanted=lambda answers=answers: next(answers, False)))  # type: ignore[misc]
        assert not outcome.is_whole
        assert set(what_stays(sent, 0)) <= set(read(files)) <= set(sent)
        if asked < 2:
            assert files.list_names(PLACE) == names


class WatchedFiles(MemoryFiles):
    """Notes what is opened for writing."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open_write(self, path: str) -> MemoryFile:
        self.opened.append(path)
        return super().open_write(path)


def test_no_file_is_made_for_a_segment_that_retention_has_just_dropped() -> None:
    files = WatchedFiles()
    make_closed(files, 5000)
    asked = 0

    def drop_before_the_copy() -> bool:
        nonlocal asked
        asked += 1
        if asked == 2:  # the first time is before the pass lists segments
            drop_segment(PLACE, 0, 0, files)
            files.opened.clear()
        return True

    outcome = compact(files, around=PassContext(is_wanted=drop_before_the_copy))
    assert asked == 2
    assert not outcome.is_whole
    assert files.opened == []  # a .log without an index would look like damage to readers, and to the next opening


def test_damage_is_not_copied() -> None:
    files = MemoryFiles()
    make_closed(files, 5000)
    files.open_write(segment_path(PLACE, 0, ".log")).write_at(b"\xff", 60)
    names = files.list_names(PLACE)
    with pytest.raises(CorruptLogError, match="are damaged; the partition was not compacted"):
        compact(files)
    assert files.list_names(PLACE) == names
