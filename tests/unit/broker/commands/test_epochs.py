"""Our own commands about messages, topics and epochs, what holds no thread, and what the server tells of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.broker.broker import Broker
from headstream.broker.commands.requests import answer_request
from headstream.broker.commands.table import make_dispatcher
from headstream.broker.settings import ServerSettings
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message, MessageState
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.model.topology import Fsync, Limits
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands import offsets, sessions, users
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.extensions.epochs import CommitEpoch, CommittedEpoch, GetEpoch, StageBatch, UnstageParts
from headstream.core.wire.extensions.groups import CommitOffsets, CommittedOffsets, ListOffsets
from headstream.core.wire.extensions.messages import AppendMessages, FetchMessages, FirstOffset, ListStates, SetState
from headstream.core.wire.extensions.topic_options import (
    ChangeTopicOptions,
    CreateOpenTopic,
    GetIdentity,
    GetOpenTopic,
    ListOpenTopics,
    RenameTopic,
)
from headstream.core.wire.records import Command
from headstream.errors import InvalidInputError
from headstream.log.opening import open_directory
from headstream.log.segments.layout import INBOX_NAME
from tests.support.server.servers import Peer, Server

AT = ("shop", "orders")
BATCH = encode_sent([Message(payload=b"a"), Message(payload=b"b")])


def test_our_commands_are_unknown_when_an_existing_client_sends_them(server: Server, peer: Peer) -> None:
    commands: list[Command[Any]] = [FetchMessages(*AT, 1, PollingKind.FIRST, 0, 1), GetOpenTopic(*AT), GetIdentity()]
    assert [server.root().status(command) for command in commands] == [3, 3, 3]


def test_fetch_tells_where_to_go_on_when_states_are_asked_for(peer: Peer) -> None:
    assert peer.ask(AppendMessages(*AT, 1, BATCH * 3)) == FirstOffset(0)
    peer.ask(SetState(*AT, 1, (1, 4), MessageState.POISONED.value, "cannot be parsed"))
    available = peer.ask(FetchMessages(*AT, 1, PollingKind.OFFSET, 0, 3))
    assert [message.offset for message in decode_polled(available.messages)] == [0, 2, 3]
    assert (available.next_offset, available.end_offset, available.count) == (4, 6, 3)
    poisoned = peer.ask(FetchMessages(*AT, 1, PollingKind.FIRST, 0, 10, states=(MessageState.POISONED.value,)))
    assert [message.offset for message in decode_polled(poisoned.messages)] == [1, 4]
    assert peer.ask(FetchMessages(*AT, 1, PollingKind.FIRST, 0, 10, states=tuple(range(1, 256)))).count == 6
    (first, _) = peer.ask(ListStates(*AT, 1))
    assert (first.offset, first.reason, first.by) == (1, "cannot be parsed", "iggy")
    command = FetchMessages(*AT, 1, PollingKind.FIRST, 0, 10)
    pieces = answer_request(peer.dispatcher, peer.session, command.code, memoryview(command.encode()))
    assert FetchMessages.decode_reply(b"".join(pieces)) == peer.ask(command)


def test_offsets_of_many_partitions_are_committed_when_named_together(peer: Peer) -> None:
    who = offsets.ConsumerRef(ConsumerKind.GROUP, "billing")
    peer.ask(CommitOffsets(*AT, who, {1: 5, 2: 7}, {}))
    assert peer.ask(ListOffsets(*AT, who)) == CommittedOffsets({1: 5, 2: 7})
    assert peer.status(CommitOffsets(*AT, who, {3: 5}, {})) == 3007


def test_topic_is_ours_with_all_its_options_when_made_and_changed(peer: Peer) -> None:
    made = peer.ask(CreateOpenTopic("shop", "wide", 3, Limits.WIDE, Fsync.ALWAYS, 60_000_000, None, None, 100))
    assert (made.limits, made.fsync, made.retention_us, made.deduplication_count) == (Limits.WIDE, Fsync.ALWAYS, 60_000_000, 100)
    changed = peer.ask(ChangeTopicOptions("shop", "wide", {"retention_us": None, "retention_bytes": 10}))
    assert (changed.retention_us, changed.retention_bytes, changed.deduplication_count) == (None, 10, 100)
    assert peer.ask(GetOpenTopic("shop", 2)) == changed
    assert [topic.name for topic in peer.ask(ListOpenTopics())] == ["orders", "wide"]
    assert peer.ask(GetIdentity()).uuid == peer.dispatcher.broker.identity
    assert peer.status(ChangeTopicOptions("shop", "wide", {"colour": 1})) == 4
    assert peer.status(CreateOpenTopic(*AT, 2)) == 2013
    peer.ask(RenameTopic("shop", "wide", "wider"))
    assert peer.ask(GetOpenTopic("shop", 2)) == replace(changed, name="wider")
    assert [peer.status(RenameTopic("shop", *names)) for names in (("wider", "orders"), ("wide", "x"))] == [2013, 2011]
    assert peer.ask(CreateOpenTopic(*AT, 9, if_not_exists=True)).id == 1


# -- epochs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_memory", [True, False])
def test_epoch_is_appended_once_when_it_is_committed_again(tmp_path: Path, peer: Peer, is_memory: bool) -> None:
    if not is_memory:
        broker = Broker(open_directory(str(tmp_path)))
        dispatcher = make_dispatcher(broker, ServerSettings(password_rounds=4))
        peer = Peer(dispatcher, dispatcher.sessions.open("127.0.0.1:1"))
        peer.ask(sessions.Login("iggy", "iggy", "1.0.0", EXTENSION_CONTEXT))
        peer.ask(CreateOpenTopic(*AT, 2))
    assert peer.ask(GetEpoch("job")) is None
    batches = tuple(
        peer.ask(StageBatch("job", 4, part, position, *AT, partition, is_last, BATCH))
        for part, position, partition, is_last in (("one", 0, 1, False), ("one", len(BATCH), 2, True), ("two", 0, 1, True))
    )
    assert [batch.count for batch in batches] == [2, 2, 2]
    for _ in range(2):
        assert peer.ask(CommitEpoch("job", 4, batches)) == CommittedEpoch(4)
    ends = [peer.ask(FetchMessages(*AT, partition, PollingKind.LAST, 0, 10)).end_offset for partition in (1, 2)]
    assert (ends, peer.ask(GetEpoch("job"))) == ([4, 2], CommittedEpoch(4))
    peer.dispatcher.broker.close()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (StageBatch("job", 1, "../up", 0, *AT, 1, True, BATCH), 4),
        (StageBatch("..", 1, "part", 0, *AT, 1, True, BATCH), 4),
        (StageBatch("job", 1 << 63, "part", 0, *AT, 1, True, BATCH), 4),
        (StageBatch("job", 1, "part", 0, *AT, 3, True, BATCH), 3007),
        (StageBatch("job", 1, "part", 0, *AT, 1, True, BATCH[:-1]), 3),
        (CommitEpoch("job", 1 << 63, ()), 4),
    ],
)
def test_epoch_command_is_refused_when_it_cannot_be_kept(peer: Peer, command: Command[Any], status: int) -> None:
    assert peer.status(command) == status


def sender(server: Server, name: str) -> Peer:
    server.add_user(name, Permissions(GlobalPermissions(send_messages=True)))
    return server.ours(name)


def test_epoch_that_names_partition_0_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    server = Server(directory=tmp_path)
    peer = server.ours()
    peer.ask(CreateOpenTopic(*AT, 2))
    batch = peer.ask(StageBatch("job", 1, "part", 0, *AT, 1, True, BATCH))
    for partition in (0, 3):
        assert peer.status(CommitEpoch("mad", 1, (replace(batch, partition=partition),))) == 3007
    assert not (tmp_path / INBOX_NAME).exists()
    assert peer.ask(CommitEpoch("job", 1, (batch,))) == CommittedEpoch(1)
    server.broker.close()


def test_writer_is_of_the_user_alone_who_first_used_it(server: Server, peer: Peer) -> None:
    owner, other = sender(server, "owner"), sender(server, "other")
    batch = owner.ask(StageBatch("job", 4, "part", 0, *AT, 1, True, BATCH))
    refused: list[Command[Any]] = [
        CommitEpoch("job", 1 << 62, ()),
        CommitEpoch("job", 4, (batch,)),
        StageBatch("job", 4, "part", 0, *AT, 1, True, BATCH),
        UnstageParts("job", 4, (batch,)),
        UnstageParts("job", 4, ()),
    ]
    for client in (other, peer):
        assert [client.status(command) for command in refused] == [41] * len(refused)
    assert owner.ask(CommitEpoch("job", 4, (batch,))) == CommittedEpoch(4)
    assert owner.ask(GetEpoch("job")) == CommittedEpoch(4)
    assert (other.status(GetEpoch("job")), peer.status(GetEpoch("job"))) == (41, 41)
    assert peer.ask(FetchMessages(*AT, 1, PollingKind.LAST, 0, 10)).end_offset == 2
    server.root().ask(users.DeleteUser("owner"))
    assert other.ask(CommitEpoch("job", 5, ())) == CommittedEpoch(5)  # a job goes on as another user


def test_epoch_behind_a_later_one_is_refused_when_it_is_committed(server: Server, peer: Peer) -> None:
    early = peer.ask(StageBatch("job", 1, "part", 0, *AT, 1, True, BATCH))
    assert peer.ask(CommitEpoch("job", 2, ())) == CommittedEpoch(2)
    with pytest.raises(InvalidInputError, match="epoch 1 of writer 'job' precedes the committed epoch 2"):
        peer.ask(CommitEpoch("job", 1, (early,)))
    assert peer.ask(FetchMessages(*AT, 1, PollingKind.FIRST, 0, 10)).count == 0


def test_writer_whose_name_is_too_long_for_a_file_is_refused_and_told_of_as_no_fault_of_the_disk(peer: Peer) -> None:
    for writer in ("\u00fc" * 60, "a" * 201, "a/" * 60):
        with pytest.raises(InvalidInputError, match="is not a valid writer name"):
            peer.ask(StageBatch(writer, 1, "part", 0, *AT, 1, True, BATCH))
    assert peer.ask(StageBatch("\u00fc" * 33, 1, "part", 0, *AT, 1, True, BATCH)).count == 2


def test_empty_epoch_is_committed_by_those_alone_who_may_send_somewhere(server: Server) -> None:
    sends = Permissions(streams={9: StreamPermissions(topics={9: TopicPermissions(send_messages=True)})})
    for name, permissions, expected in (("sender", sends, 0), ("guest", None, 41)):
        server.add_user(name, permissions)
        client = server.ours(name)
        assert client.status(CommitEpoch(name, 1, ())) == expected
