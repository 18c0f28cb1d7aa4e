"""Every status that a command can be refused by, over each transport."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind
from headstream.core.wire.commands import groups, messages, offsets, partitions, streams, system, tokens, topics, users
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status, http_status
from tests.behaviour.conformance.conftest import clear
from tests.behaviour.conformance.scenes import CONSUMER, DATA, build, create_topic, in_a_stream, in_a_topic, poll_of
from tests.support.server.peers import Peer, RefusedError, TcpPeer

NONE = topics.Compression.NONE
BY_NUMBER = Partitioning.partition(1)


MISSING = [
    *[(command, Status.STREAM_ID_NOT_FOUND) for command in in_a_stream(99)],
    *[(command, Status.STREAM_NAME_NOT_FOUND) for command in in_a_stream("nowhere")],
    *[(command, Status.TOPIC_ID_NOT_FOUND) for command in in_a_topic(1, 99)],
    *[(command, Status.TOPIC_NAME_NOT_FOUND) for command in in_a_topic(1, "nowhere")],
    (groups.DeleteGroup(1, 1, 99), Status.CONSUMER_GROUP_ID_NOT_FOUND),
    (groups.DeleteGroup(1, 1, "nowhere"), Status.CONSUMER_GROUP_NAME_NOT_FOUND),
    (groups.JoinGroup(1, 1, 99), Status.CONSUMER_GROUP_ID_NOT_FOUND),
    (groups.LeaveGroup(1, 1, "nowhere"), Status.CONSUMER_GROUP_NAME_NOT_FOUND),
    (poll_of(consumer=offsets.ConsumerRef(ConsumerKind.GROUP, 99)), Status.CONSUMER_GROUP_ID_NOT_FOUND),
    (poll_of(consumer=offsets.ConsumerRef(ConsumerKind.GROUP, "nowhere")), Status.CONSUMER_GROUP_NAME_NOT_FOUND),
    (poll_of(partition=9), Status.PARTITION_NOT_FOUND),
    (messages.SendMessages(1, 1, Partitioning.partition(9), DATA), Status.PARTITION_NOT_FOUND),
    (messages.SendMessages(1, 1, Partitioning.partition(0), DATA), Status.PARTITION_NOT_FOUND),
    (messages.FlushMessages(1, 1, 9, False), Status.PARTITION_NOT_FOUND),
    (offsets.StoreOffset(CONSUMER, 1, 1, 9, 0), Status.PARTITION_NOT_FOUND),
    (offsets.DeleteOffset(CONSUMER, 1, 1, 1), Status.CONSUMER_OFFSET_NOT_FOUND),
    (poll_of(topic="empty"), Status.NO_PARTITIONS),
    (messages.SendMessages(1, "empty", Partitioning.balanced(), DATA), Status.NO_PARTITIONS),
    (messages.SendMessages(1, "empty", Partitioning.partition(1), DATA), Status.NO_PARTITIONS),
    (messages.FlushMessages(1, "empty", 1, False), Status.PARTITION_NOT_FOUND),
    (offsets.StoreOffset(CONSUMER, 1, "empty", 1, 0), Status.PARTITION_NOT_FOUND),
    (offsets.DeleteOffset(CONSUMER, 1, "empty", 1), Status.PARTITION_NOT_FOUND),
    (users.DeleteUser(99), Status.RESOURCE_NOT_FOUND),
    (users.UpdateUser("nobody", "renamed"), Status.RESOURCE_NOT_FOUND),
    (users.UpdatePermissions("nobody"), Status.RESOURCE_NOT_FOUND),
    (users.ChangePassword(99, "secret", "secret"), Status.RESOURCE_NOT_FOUND),
    (tokens.DeleteToken("nothing"), Status.RESOURCE_NOT_FOUND),
    (tokens.LoginWithToken("nothing"), Status.RESOURCE_NOT_FOUND),
]
INVALID = [
    (streams.CreateStream(0, ""), Status.INVALID_STREAM_NAME),
    (streams.UpdateStream(1, ""), Status.INVALID_STREAM_NAME),
    (create_topic(1, ""), Status.INVALID_TOPIC_NAME),
    (topics.UpdateTopic(1, 1, NONE, 0, 0, 1, ""), Status.INVALID_TOPIC_NAME),
    (create_topic(1, "wide", 1001), Status.TOO_MANY_PARTITIONS),
    (partitions.CreatePartitions(1, 1, 0), Status.TOO_MANY_PARTITIONS),
    (partitions.DeletePartitions(1, 1, 1001), Status.TOO_MANY_PARTITIONS),
    (groups.CreateGroup(1, 1, 0, ""), Status.INVALID_CONSUMER_GROUP_NAME),
    (poll_of(count=0), Status.INVALID_MESSAGES_COUNT),
    (users.CreateUser("ab", "secret", users.UserStatus.ACTIVE), Status.INVALID_USERNAME),
    (users.CreateUser("user", "ab", users.UserStatus.ACTIVE), Status.INVALID_PASSWORD),
    (users.UpdateUser(1, "u" * 51), Status.INVALID_USERNAME),
    (users.ChangePassword(1, "iggy", "ab"), Status.INVALID_PASSWORD),
    (users.ChangePassword(1, "wrong", "right"), Status.INVALID_CREDENTIALS),
    (tokens.CreateToken("ab", 0), Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME),
    (tokens.LoginWithToken(""), Status.INVALID_PERSONAL_ACCESS_TOKEN),
    (tokens.LoginWithToken("t" * 101), Status.INVALID_PERSONAL_ACCESS_TOKEN),
    (offsets.StoreOffset(CONSUMER, 1, 1, 1, 7), Status.INVALID_OFFSET),
    (create_topic(1, "small", max_bytes=1), Status.INVALID_TOPIC_SIZE),
]


def label(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else type(value).__name__


@pytest.fixture(scope="module")
def scene(admins: dict[str, Peer]) -> dict[str, Peer]:
    """User 1 over each transport, with a topic of three partitions and one of none; no test changes anything."""
    root = clear(admins["tcp"])
    build(root)
    root.ask(create_topic(1, "empty", 0))
    return admins


@pytest.mark.parametrize("transport", ["tcp", "http"])
@pytest.mark.parametrize(("command", "status"), [*MISSING, *INVALID], ids=label)
def test_a_command_is_refused_by_the_status_of_its_reason(
    scene: dict[str, Peer], transport: str, command: Command[Any], status: Status
) -> None:
    peer = scene[transport]
    is_of_group = isinstance(command, messages.PollMessages) and command.consumer.kind == ConsumerKind.GROUP
    if peer.transport == "http" and (is_of_group or command.entry().route is None):
        pytest.skip("HTTP knows no members of groups here")
    with pytest.raises(RefusedError) as caught:
        peer.ask(command)
    assert caught.value.status == status
    if isinstance(peer, TcpPeer):
        assert caught.value.body == b""
    else:
        assert caught.value.http_status == http_status(status)


STREAMS: list[Command[Any]] = [streams.GetStream(99), streams.GetStream("nowhere")]
LOOKUPS = [*STREAMS, topics.GetTopic(1, 99), topics.GetTopic(99, 1), topics.GetTopic("nowhere", "nowhere"), system.GetClient(99)]


@pytest.mark.parametrize("transport", ["tcp", "http"])
@pytest.mark.parametrize("command", LOOKUPS, ids=label)
def test_a_lookup_that_finds_nothing_is_no_error(scene: dict[str, Peer], transport: str, command: Command[Any]) -> None:
    assert scene[transport].ask(command) is None
