"""Fetching: positions, turns, and what may be committed."""

from __future__ import annotations

import pytest

from headstream.client.consumer.fetching import Fetching
from headstream.core.model.groups import Assignment
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import Polled
from headstream.errors import OffsetOutOfRangeError


def feed(fetching: Fetching, partition: int, *offsets: int, next_offset: int | None = None, end_offset: int = 100) -> None:
    messages = [ReceivedMessage(payload=b"%d" % offset, offset=offset, partition=partition) for offset in offsets]
    after = next_offset if next_offset is not None else offsets[-1] + 1
    fetching.feed(Polled(partition, end_offset, after, len(messages), ()), messages)


def deliver(fetching: Fetching) -> tuple[int | None, int | None]:
    message = fetching.deliver()
    assert message is not None
    return message.partition, message.offset


def test_messages_are_delivered_in_order_and_committable_when_done() -> None:
    fetching = Fetching({1: 5})
    feed(fetching, 1, 5, 6)
    assert deliver(fetching) == (1, 5)
    assert fetching.committable() == {}
    fetching.finish()
    assert fetching.committable() == {1: 6}
    assert fetching.committable() == {}
    assert deliver(fetching) == (1, 6)
    assert fetching.is_empty
    assert fetching.deliver() is None
    fetching.finish()
    assert fetching.committable() == {1: 7}
    assert fetching.positions == {1: 7}


def test_partitions_take_turns() -> None:
    fetching = Fetching({1: 0, 2: 10, 3: 20})
    assert fetching.next_polls() == [(1, 0), (2, 10), (3, 20)]
    feed(fetching, 1, 0)
    assert fetching.next_polls() == [(2, 10), (3, 20), (1, 1)]
    feed(fetching, 2, next_offset=10)  # nothing came: it is still its turn next time
    feed(fetching, 3, 20)
    assert fetching.next_polls() == [(1, 1), (2, 10), (3, 21)]


def test_committable_includes_skipped_offsets_with_the_message_before_them() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, 1, next_offset=9)
    deliver(fetching)
    fetching.finish()
    assert fetching.committable() == {1: 1}
    deliver(fetching)
    fetching.finish()
    assert fetching.committable() == {1: 9}


def test_committable_includes_skipped_offsets_at_once_when_no_message_was_fetched() -> None:
    fetching = Fetching({1: 0, 2: 0})
    feed(fetching, 1, next_offset=7)
    assert fetching.committable() == {1: 7}


def test_committable_includes_skipped_offsets_only_when_the_delivered_message_is_finished() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0)
    deliver(fetching)
    feed(fetching, 1, next_offset=7)
    assert fetching.committable() == {}
    fetching.finish()
    assert fetching.committable() == {1: 7}
    feed(fetching, 1, 7)
    assert len(fetching.hand_out(5)) == 1
    feed(fetching, 1, next_offset=12)
    assert fetching.committable() == {}
    fetching.release()
    assert fetching.committable() == {1: 12}


def test_delivered_messages_are_committable_when_their_partition_is_released() -> None:
    fetching = Fetching({1: 0, 2: 0})
    feed(fetching, 1, 0, 1, 2)
    assert [message.offset for message in fetching.hand_out(2)] == [0, 1]
    fetching.finish()
    assert fetching.committable() == {}
    fetching.release()
    assert fetching.committable() == {1: 2}
    assert [message.offset for message in fetching.hand_out(9)] == [2]
    fetching.release()
    assert fetching.committable() == {1: 3}


def test_seek_drops_what_was_fetched_of_that_partition() -> None:
    fetching = Fetching({1: 0, 2: 0})
    feed(fetching, 1, 0, 1)
    feed(fetching, 2, 0)
    deliver(fetching)
    fetching.seek(1, 50)
    fetching.finish()
    assert fetching.committable() == {}
    assert not fetching.is_idle
    assert fetching.positions == {1: 50, 2: 1}
    assert deliver(fetching) == (2, 0)
    assert fetching.is_empty


def test_a_seek_is_committable_when_it_is_settled_or_released() -> None:
    fetching = Fetching({1: 0, 2: 0})
    fetching.seek(1, 50)
    fetching.feed(Polled(1, 100, 60, 0, ()), [])  # stepped over
    assert fetching.committable() == {}
    fetching.apply_seeks()
    assert fetching.committable() == {1: 60}
    fetching.seek(2, 7)
    fetching.seek(2, 8)
    feed(fetching, 1, 60)
    assert len(fetching.hand_out(5)) == 1
    fetching.release()
    assert fetching.committable() == {1: 61, 2: 8}
    assert fetching.is_idle


def test_a_partition_is_given_up_when_a_seek_in_it_is_committed() -> None:
    fetching = Fetching({})
    fetching.follow(Assignment(1, {1: 1}, {}))
    fetching.begin(1, 0)
    fetching.seek(1, 5)
    assert fetching.follow(Assignment(2, {}, {1: 1})) == ([], [])
    fetching.release()
    assert fetching.committable() == {1: 5}
    assert fetching.follow(Assignment(2, {}, {1: 1})) == ([1], [])


def test_feed_refuses_a_position_that_was_never_written() -> None:
    fetching = Fetching({1: 11})
    with pytest.raises(OffsetOutOfRangeError, match="offset 11 of partition 1 was never written: the partition ends at 10"):
        feed(fetching, 1, next_offset=11, end_offset=10)


def test_follow_begins_with_what_is_new_and_ends_what_is_lost() -> None:
    fetching = Fetching({})
    assert fetching.follow(Assignment(1, {1: 1, 2: 1})) == ([], [1, 2])
    fetching.begin(1, 5)
    fetching.begin(2, 0)
    feed(fetching, 2, 0, 1)
    assert fetching.follow(Assignment(2, {1: 1, 3: 2})) == ([], [3])
    assert fetching.positions == {1: 5}
    assert fetching.is_empty


def test_follow_releases_what_is_revoked_when_nothing_of_it_is_in_hand() -> None:
    fetching = Fetching({})
    fetching.follow(Assignment(1, {1: 1, 2: 1}))
    fetching.begin(1, 0)
    fetching.begin(2, 0)
    feed(fetching, 1, 0, 1)
    feed(fetching, 2, 0, 1)
    assert deliver(fetching) == (1, 0)
    assert fetching.follow(Assignment(2, {}, {1: 1, 2: 1})) == ([2], [])
    assert fetching.is_empty
    assert fetching.next_polls() == []
    fetching.finish()
    assert fetching.follow(Assignment(2, {}, {1: 1})) == ([], [])  # done, and yet to be committed
    assert fetching.committable() == {1: 1}
    assert fetching.follow(Assignment(2, {}, {1: 1})) == ([1], [])
    assert fetching.positions == {}


def test_follow_begins_anew_where_another_member_may_have_read_meanwhile() -> None:
    fetching = Fetching({})
    fetching.follow(Assignment(1, {1: 1}))
    fetching.begin(1, 7)
    assert fetching.follow(Assignment(3, {1: 1})) == ([], [])
    assert fetching.positions == {1: 7}
    assert fetching.follow(Assignment(5, {1: 5})) == ([], [1])
    assert fetching.positions == {}


def test_put_back_offsets_are_committed_next_when_nothing_newer_is_done() -> None:
    fetching = Fetching({1: 0, 2: 0})
    feed(fetching, 1, 0, 1)
    feed(fetching, 2, 0)
    assert len(fetching.hand_out(2)) == 2
    fetching.release()
    assert len(fetching.hand_out(1)) == 1
    failed = fetching.committable()
    assert failed == {1: 2}
    fetching.release()
    fetching.put_back({**failed, 2: 0, 3: 7})
    assert not fetching.is_idle
    assert fetching.committable() == {1: 2, 2: 1}  # a newer offset stays, and what is not read any more is dropped


def test_a_revoked_partition_that_comes_back_before_its_release_goes_on_at_what_was_dropped() -> None:
    fetching = Fetching({})
    fetching.follow(Assignment(1, {1: 1}))
    fetching.begin(1, 0)
    feed(fetching, 1, 0, 1, 2)
    assert deliver(fetching) == (1, 0)
    assert fetching.follow(Assignment(2, {}, {1: 1})) == ([], [])
    assert fetching.follow(Assignment(3, {1: 1}, {})) == ([], [])
    assert fetching.positions == {1: 1}


def test_undelivered_messages_are_next_again_and_nothing_commits_them() -> None:
    fetching = Fetching({1: 0, 2: 0})
    feed(fetching, 1, 0, 1, next_offset=5)
    feed(fetching, 2, 0)
    feed(fetching, 1, 5, 6, next_offset=9)
    assert [message.offset for message in fetching.hand_out(1, is_first=True)] == [0]
    taken = fetching.hand_out(4, is_first=True)
    fetching.undeliver(taken)
    fetching.release()
    assert fetching.committable() == {1: 1}
    assert fetching.hand_out(9, is_first=True) == taken
    fetching.release()
    assert fetching.committable() == {1: 9, 2: 1}


def test_an_undelivered_message_of_a_loop_is_next_again_with_what_was_stepped_over() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, next_offset=7)
    message = fetching.deliver()
    assert message is not None
    fetching.undeliver([message])
    fetching.finish()
    assert (fetching.is_idle, fetching.committable()) == (True, {})
    assert fetching.deliver() is message
    fetching.finish()
    assert fetching.committable() == {1: 7}


def test_an_undelivered_message_of_a_loop_leaves_those_of_a_poll_before_it_in_progress() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, 1, 2, 3)
    fetching.hand_out(2, is_first=True)
    message = fetching.deliver()
    assert message is not None
    fetching.undeliver([message])
    fetching.release()
    assert fetching.committable() == {1: 2}
    assert fetching.deliver() is message


def test_a_loop_and_polls_in_turn_never_commit_backwards() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, 1, 2, 3)
    deliver(fetching)
    fetching.hand_out(2, is_first=True)
    fetching.release()
    assert fetching.committable() == {1: 3}
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, 1, 2, 3)
    fetching.hand_out(2, is_first=True)
    deliver(fetching)
    fetching.finish()
    assert fetching.committable() == {1: 3}
    fetching.release()
    assert fetching.committable() == {}


def test_an_earlier_message_than_the_committed_ones_commits_nothing() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, 1, 2, 3)
    fetching.hand_out(3, is_first=True)
    fetching.release()
    assert fetching.committable() == {1: 3}
    assert fetching.finish_up_to(1, 0)
    assert fetching.committable() == {}
    fetching.put_back({1: 3})  # the commit has failed
    assert fetching.finish_up_to(1, 1)
    assert fetching.committable() == {1: 3}
    fetching.seek(1, 0)
    feed(fetching, 1, 0, 1, 2, 3)
    fetching.hand_out(1, is_first=True)
    assert fetching.finish_up_to(1, 0)
    assert fetching.committable() == {1: 1}


def test_a_seek_is_not_committed_after_messages_that_follow_it() -> None:
    fetching = Fetching({1: 0})
    feed(fetching, 1, 0, 1, 2, 3)
    fetching.hand_out(3, is_first=True)
    fetching.seek(1, 1)
    feed(fetching, 1, 1, 2, 3)
    fetching.hand_out(1, is_first=True)
    assert fetching.finish_up_to(1, 1)
    assert fetching.committable() == {1: 2}
    fetching.release()
    assert fetching.committable() == {}
    fetching.seek(1, 3)
    assert fetching.finish_up_to(1, 1)
    assert fetching.committable() == {1: 3}  # the commit of an earlier message stores the position, as each commit does
