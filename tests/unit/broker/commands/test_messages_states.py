"""States by their commands: what one request may cost, who may change them, and in whose name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from headstream.broker.commands.requests import is_slow
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import MAX_REASON_BYTES, MAX_STATE_OFFSETS, Message, MessageState, StateChange
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import PollMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.extensions.messages import PAGE_STATES, AppendMessages, FetchMessages, ListStates, SetState
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.errors import LimitError
from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.state_records import put_states
from headstream.log.segments.follower import PartitionFollower
from tests.support.server.servers import Peer, Server

AT = ("shop", "orders")
POISONED = MessageState.POISONED.value


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.ours()
    peer.ask(CreateOpenTopic(*AT, 1))
    return peer


def fill(peer: Peer, count: int) -> None:
    for begin in range(0, count, 1000):
        messages = [Message(payload=b"x", id=offset + 1) for offset in range(begin, min(begin + 1000, count))]
        peer.ask(AppendMessages(*AT, 1, encode_sent(messages)))


@pytest.mark.parametrize(
    "command",
    [
        SetState(*AT, 1, (0,), POISONED, "x" * (MAX_REASON_BYTES + 1)),
        SetState(*AT, 1, (0,), POISONED, "why", "x" * 256),
        SetState(*AT, 1, tuple(range(MAX_STATE_OFFSETS + 1)), POISONED),
    ],
    ids=["reason", "author", "offsets"],
)
def test_set_state_is_refused_when_it_says_too_much(peer: Peer, command: SetState) -> None:
    fill(peer, 1)
    assert peer.status(command) == 4
    assert peer.ask(ListStates(*AT, 1)) == ()


def test_set_state_refuses_a_long_reason_of_a_process_beside_the_server(server: Server, peer: Peer) -> None:
    fill(peer, 1)
    log = server.broker.backing.log
    with pytest.raises(LimitError, match="the reason of a state change must have at most 1000 bytes, not 1001"):
        log.states.set(log.snapshot()["shop"].topics["orders"], 1, [0], StateChange(-1, POISONED, "x" * 1001, "me", 1))


@pytest.mark.parametrize(
    ("permissions", "status"),
    [
        (Permissions(GlobalPermissions(send_messages=True, poll_messages=True, read_topics=True)), 41),
        (Permissions(GlobalPermissions(manage_topics=True)), 0),
        (Permissions(GlobalPermissions(manage_streams=True)), 0),
        (Permissions(streams={1: StreamPermissions(send_messages=True)}), 41),
        (Permissions(streams={1: StreamPermissions(manage_topics=True)}), 0),
        (Permissions(streams={1: StreamPermissions(topics={1: TopicPermissions(send_messages=True)})}), 41),
        (Permissions(streams={1: StreamPermissions(topics={1: TopicPermissions(manage_topic=True)})}), 0),
        (None, 41),
    ],
)
def test_states_are_set_by_those_who_manage_the_topic_and_in_their_name(
    server: Server, peer: Peer, permissions: Permissions | None, status: int
) -> None:
    fill(peer, 1)
    server.add_user("alice", permissions)
    alice = server.ours("alice")
    assert alice.status(SetState(*AT, 1, (0,), POISONED, "why", by="iggy")) == status
    assert [change.by for change in peer.ask(ListStates(*AT, 1))] == ([] if status else ["alice"])


def test_reason_is_kept_once_for_all_messages_and_gone_with_the_last_of_them(server: Server, peer: Peer) -> None:
    fill(peer, 5000)
    catalog = server.dispatcher.catalog

    def kept() -> list[str]:
        return [row[0] for row in catalog.select("SELECT reason FROM state_changes ORDER BY number", since=7)]

    peer.ask(SetState(*AT, 1, tuple(range(3000)), POISONED, "a" * MAX_REASON_BYTES))
    peer.ask(SetState(*AT, 1, (4000,), POISONED, "b"))
    assert kept() == ["a" * MAX_REASON_BYTES, "b"]
    (change,) = peer.ask(ListStates(*AT, 1, 2999, 1))
    assert (change.offset, change.reason, change.by) == (2999, "a" * MAX_REASON_BYTES, "iggy")
    peer.ask(SetState(*AT, 1, tuple(range(2999)), MessageState.AVAILABLE.value))
    assert kept() == ["a" * MAX_REASON_BYTES, "b"]
    peer.ask(SetState(*AT, 1, (2999,), POISONED, "c"))
    assert kept() == ["b", "c"]


def test_states_are_listed_page_by_page(peer: Peer) -> None:
    fill(peer, 2 * PAGE_STATES + 1)
    peer.ask(SetState(*AT, 1, tuple(range(2 * PAGE_STATES + 1)), POISONED))
    pages = [peer.ask(ListStates(*AT, 1, begin, count)) for begin, count in ((0, 0), (PAGE_STATES, 5000), (2000, 10), (2001, 0))]
    assert [[page[0].offset, page[-1].offset] if page else [] for page in pages] == [[0, 999], [1000, 1999], [2000, 2000], []]
    assert [each.offset for each in peer.ask(ListStates(*AT, 1, 7, 2))] == [7, 8]


def count_work(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns how often the log's files and its catalog have been read since its last call."""
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            return function(*arguments, **more)

        return call

    monkeypatch.setattr(PartitionFollower, "read_chunk", counted(PartitionFollower.read_chunk))
    for name in ("select_committed", "select"):
        monkeypatch.setattr(Catalog, name, counted(getattr(Catalog, name)))

    def take() -> int:
        nonlocal count
        found, count = count, 0
        return found

    return take


ASIDE = 20_000


def test_poll_reads_no_message_of_a_long_run_that_is_set_aside(
    server: Server, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(peer, ASIDE + 10)
    for begin in range(0, ASIDE, MAX_STATE_OFFSETS):
        peer.ask(SetState(*AT, 1, tuple(range(begin, min(begin + MAX_STATE_OFFSETS, ASIDE))), POISONED))
    peer.ask(SetState(*AT, 1, (ASIDE,), 30))
    work = count_work(server, monkeypatch)
    expected: dict[tuple[int, ...], int] = {(): ASIDE + 1, (1, 30): ASIDE, (30,): ASIDE}
    for states, begin in itertools.product(expected, (0, 1, ASIDE // 2, ASIDE - 1)):
        for _ in range(2):
            found = peer.ask(FetchMessages(*AT, 1, PollingKind.OFFSET, begin, 1, states=states))
            assert [message.offset for message in decode_polled(found.messages)] == [expected[states]], (states, begin)
            assert work() < 20
    poll = PollMessages(ConsumerRef(ConsumerKind.CONSUMER, 1), *AT, 1, PollingKind.NEXT, 0, 3, True)
    assert [message.offset for message in decode_polled(peer.ask(poll).messages)] == [ASIDE + 1, ASIDE + 2, ASIDE + 3]
    assert work() < 30


def test_poll_finds_what_is_set_back_within_a_run(peer: Peer) -> None:
    def polled(begin: int, count: int) -> list[int]:
        found = peer.ask(FetchMessages(*AT, 1, PollingKind.OFFSET, begin, count))
        return [message.offset for message in decode_polled(found.messages)]

    fill(peer, 100)
    peer.ask(SetState(*AT, 1, tuple(range(10, 90)), POISONED))
    assert polled(5, 6) == [5, 6, 7, 8, 9, 90]
    peer.ask(SetState(*AT, 1, (20, 21, 50), MessageState.AVAILABLE.value))
    assert polled(5, 9) == [5, 6, 7, 8, 9, 20, 21, 50, 90]
    peer.ask(SetState(*AT, 1, (21, 99), POISONED))
    assert polled(11, 4) == [20, 50, 90, 91]
    assert polled(99, 4) == []
    peer.ask(DeletePartitions(*AT, 1))
    peer.ask(CreatePartitions(*AT, 1))
    fill(peer, 30)
    assert polled(11, 2) == [11, 12]  # the new partition's messages, none of which is set aside


def test_poll_reads_a_bounded_amount_when_every_second_message_is_set_aside(
    server: Server, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(peer, 4000)
    peer.ask(SetState(*AT, 1, tuple(range(0, 4000, 2)), POISONED))
    work = count_work(server, monkeypatch)
    found = peer.ask(FetchMessages(*AT, 1, PollingKind.OFFSET, 0, 1000))
    assert [message.offset for message in decode_polled(found.messages)] == list(range(1, 2000, 2))
    assert work() < 100  # messages beside each other are read together, some of them in vain
    found = peer.ask(FetchMessages(*AT, 1, PollingKind.OFFSET, 0, 1000, size_bytes=1000))
    assert 0 < found.count < 50
    assert work() < 20


def test_is_slow_is_true_when_a_fetch_searches_messages_that_are_set_aside(server: Server) -> None:
    def is_slow_for(states: tuple[int, ...]) -> bool:
        command = FetchMessages(*AT, 1, PollingKind.FIRST, 0, 1, states=states)
        return is_slow(server.dispatcher, server.root().session, Code.FETCH_MESSAGES, memoryview(command.encode()))

    assert [is_slow_for(states) for states in ((20,), (1, 20))] == [True, True]
    assert [is_slow_for(states) for states in ((), (1,), tuple(range(1, 256)))] == [False, False, False]
    assert not is_slow(server.dispatcher, server.root().session, Code.FETCH_MESSAGES, memoryview(b"x"))


def test_poll_costs_what_it_looks_at_when_a_partition_has_200_000_exceptions(server: Server, peer: Peer) -> None:
    fill(peer, 3000)
    log, catalog = server.broker.backing.log, server.dispatcher.catalog
    topic = log.snapshot()["shop"].topics["orders"]
    with catalog.transaction(()):  # rows alone, as a crash before the bytes were changed leaves them
        put_states(catalog, topic.number, 1, (StateChange(offset, POISONED, "why", "me", 1) for offset in range(100, 200_100)))
    peer.ask(SetState(*AT, 1, (2000,), POISONED))

    def measure(offset: int) -> float:
        with catalog.transaction(()):  # after a change of the catalog nothing is remembered
            catalog.change("UPDATE users SET name = name")
        began = process_time()
        found = peer.ask(FetchMessages(*AT, 1, PollingKind.OFFSET, offset, 10))
        assert (found.count, found.next_offset) == (10, offset + 10)
        return process_time() - began

    assert log.states.next_exception(topic, 1, 150) == 150
    for offset in (0, 95, 1000):
        assert min(measure(offset) for _ in range(5)) < 0.08  # reading 200,000 rows takes ten times as long
