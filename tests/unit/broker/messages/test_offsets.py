"""How many consumers a user stores offsets for, whichever command does it; and what groups without members leave behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands.groups import CreateGroup, DeleteGroup
from headstream.core.wire.commands.messages import PollMessages
from headstream.core.wire.commands.offsets import ConsumerRef, DeleteOffset, StoreOffset
from headstream.core.wire.commands.topics import DeleteTopic, PurgeTopic
from headstream.core.wire.extensions import groups
from headstream.core.wire.extensions.messages import AppendMessages, FetchMessages
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.core.wire.records import Command
from headstream.errors import ConsumersLimitError
from headstream.log.partition.offsets import OffsetStore
from tests.support.server.servers import Peer, Server

LIMIT = 3
AT = ("shop", "orders")
Commit = Callable[[Peer, int], Command[Any]]


def consumer(number: int, kind: ConsumerKind = ConsumerKind.CONSUMER) -> ConsumerRef:
    return ConsumerRef(kind, number if kind is ConsumerKind.CONSUMER else f"g{number}")


def topic(peer: Peer, name: str = "orders") -> None:
    peer.ask(CreateOpenTopic("shop", name, 1))
    peer.ask(AppendMessages("shop", name, 1, encode_sent([Message(payload=b"a")])))


COMMITS: dict[str, Commit] = {
    "store": lambda peer, number: StoreOffset(consumer(number), *AT, 1, 0),
    "poll": lambda peer, number: PollMessages(consumer(number), *AT, 1, PollingKind.FIRST, 0, 1, True),
    "fetch": lambda peer, number: FetchMessages(*AT, 1, PollingKind.FIRST, 0, 1, consumer=consumer(number), auto_commit=True),
    "commit": lambda peer, number: groups.CommitOffsets(*AT, consumer(number, ConsumerKind.GROUP), {1: 1}, {}),
    "seek": lambda peer, number: groups.SeekGroup(*AT, f"g{number}", {1: 1}),
}


@pytest.fixture
def server() -> Server:
    return Server(most_consumers=LIMIT)


@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS)
def test_a_new_consumer_is_refused_when_its_user_stores_offsets_for_as_many_as_it_may(server: Server, commit: Commit) -> None:
    peer = server.ours()
    topic(peer)
    for number in range(1, LIMIT + 1):
        peer.ask(commit(peer, number))
    with pytest.raises(ConsumersLimitError, match="user 1 has reached the limit of 3 consumers and groups"):
        server.dispatcher.answer(peer.session, commit(peer, LIMIT + 1))
    assert peer.status(commit(peer, LIMIT + 1)) == 3012  # to existing clients
    peer.ask(commit(peer, 1))
    store = server.broker.backing.log.offsets(server.broker.backing.log.snapshot()["shop"].topics["orders"])
    assert len(store.consumers()) == LIMIT


def test_a_new_group_is_refused_when_one_of_its_members_commits_beyond_the_limit(server: Server) -> None:
    peer = server.ours()
    topic(peer)
    statuses = []
    for number in range(1, LIMIT + 2):
        group = f"g{number}"
        member = peer.ask(groups.EnterGroup(*AT, group, 60_000)).member_id
        generation = peer.ask(groups.ReportMember(*AT, group, member, ())).generation
        statuses.append(peer.status(groups.CommitMember(*AT, group, member, generation, {1: 1}, {})))
    assert statuses == [0] * LIMIT + [3012]


def test_consumers_of_all_topics_count_together_when_a_user_commits(server: Server) -> None:
    peer = server.ours()
    for name in ("a", "b"):
        topic(peer, name)
    for place in (("a", 1), ("a", 2), ("b", 1)):
        peer.ask(StoreOffset(consumer(place[1]), "shop", place[0], 1, 0))
    assert peer.status(StoreOffset(consumer(2), "shop", "b", 1, 0)) == 3012


@pytest.mark.parametrize(
    "makes_room", [DeleteOffset(consumer(1), *AT, 1), PurgeTopic(*AT), DeleteTopic(*AT)], ids=["delete", "purge", "delete topic"]
)
def test_room_for_new_consumers_is_there_when_offsets_are_gone(server: Server, makes_room: Command[None]) -> None:
    peer = server.ours()
    topic(peer)
    topic(peer, "other")
    for number in range(1, LIMIT + 1):
        peer.ask(StoreOffset(consumer(number), *AT, 1, 0))
    assert peer.status(StoreOffset(consumer(9), "shop", "other", 1, 0)) == 3012
    peer.ask(makes_room)
    assert peer.status(StoreOffset(consumer(9), "shop", "other", 1, 0)) == 0


def test_the_limit_holds_when_the_server_has_been_started_again(tmp_path: Path) -> None:
    server = Server(most_consumers=LIMIT, directory=tmp_path)
    peer = server.ours()
    topic(peer)
    for number in range(1, LIMIT + 1):
        peer.ask(StoreOffset(consumer(number), *AT, 1, 0))
    server.broker.close()
    server = Server(most_consumers=LIMIT, directory=tmp_path)
    peer = server.ours()
    assert peer.status(StoreOffset(consumer(LIMIT + 1), *AT, 1, 0)) == 3012
    assert len(list(tmp_path.glob("streams/*/*/offsets/*.offsets"))) == LIMIT
    server.broker.close()


def test_a_created_group_is_refused_when_its_topic_has_as_many_as_it_may(server: Server) -> None:
    peer = server.ours()
    topic(peer)
    for number in range(LIMIT):
        peer.ask(CreateGroup(*AT, 0, f"g{number}"))
    with pytest.raises(ConsumersLimitError, match="the limit of 3 consumer groups per topic"):
        server.dispatcher.answer(peer.session, CreateGroup(*AT, 0, "g9"))
    peer.ask(DeleteGroup(*AT, "g0"))
    assert peer.status(CreateGroup(*AT, 0, "g9")) == 0


def test_groups_leave_no_file_when_their_members_have_left(tmp_path: Path) -> None:
    server = Server(directory=tmp_path)
    peer = server.ours()
    topic(peer)
    for number in range(20):
        member = peer.ask(groups.EnterGroup(*AT, f"g{number}", 60_000)).member_id
        peer.ask(groups.ReportMember(*AT, f"g{number}", member, ()))
        assert len(list(tmp_path.glob("groups/*"))) == 1
        peer.ask(groups.ExitGroup(*AT, f"g{number}", member))
        peer.status(groups.GetGroupLag(*AT, f"none{number}"))
    assert list(tmp_path.glob("groups/*")) == []
    server.broker.close()


@pytest.mark.parametrize("kind", COMMITS)
def test_a_client_is_told_that_a_topic_is_unknown_when_the_topic_is_deleted_during_a_commit(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    topic(peer := server.ours())
    commit = OffsetStore.commit

    def delete_first(store: OffsetStore, *given: Any) -> None:
        server.broker.topics.delete(TopicName(*AT))
        commit(store, *given)

    monkeypatch.setattr(OffsetStore, "commit", delete_first)
    assert peer.status(COMMITS[kind](peer, 1)) == (0 if kind in ("poll", "fetch") else 2011)
