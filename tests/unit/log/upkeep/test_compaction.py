"""Unit tests of headstream.log.upkeep.compaction."""

from __future__ import annotations

from headstream.log.log import Log
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.marked_removal import MarkedRemoval
from tests.support.log.logs import Clock, topic_of
from tests.unit.log.upkeep.test_marked_removal import DAY_US, HOUR_US, keyed, log, mark, offsets, option

__all__ = ["log"]  # fixtures


def test_a_topic_from_which_messages_were_removed_can_be_compacted_by_key_later(log: Log, clock: Clock) -> None:
    for number in range(10):
        keyed(log, number, b"k%d" % (number % 3))
    mark(log, 1, 4, reason="erase")
    MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert offsets(log) == [0, 2, 3, 5, 6, 7, 8, 9]
    option(log, compaction_delay_us=DAY_US)
    Compaction(log, clock).compact(topic_of(log), 1)
    assert offsets(log) == [7, 8, 9]


def test_a_compaction_keeps_marked_messages_for_their_grace(log: Log, clock: Clock) -> None:
    option(log, compaction_delay_us=DAY_US, deletion_grace_us=HOUR_US)
    for number in range(7):
        keyed(log, number, b"k%d" % number)
    mark(log, 1, at_us=clock.now_us)
    Compaction(log, clock).compact(topic_of(log), 1)
    assert offsets(log) == list(range(7))
    clock.now_us += HOUR_US
    Compaction(log, clock).compact(topic_of(log), 1)
    assert offsets(log) == [0, 2, 3, 4, 5, 6]
    assert log.states.changes(topic_of(log), 1) == []
