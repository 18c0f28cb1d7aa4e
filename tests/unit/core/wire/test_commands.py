"""Commands and replies: layouts that no captured frame has, limits with their statuses, and the spelling over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headstream.core.codec.binary import encode_polled, encode_sent
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire import command_classes, refusals, route_matching
from headstream.core.wire.commands import groups, messages, offsets, partitions, sessions, streams, system, tokens, topics, users
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.records import Command
from headstream.errors import DecodeError, HeadstreamError

ALICE = offsets.ConsumerRef(ConsumerKind.CONSUMER, "alice")
RIGHTS = Permissions(
    GlobalPermissions(read_servers=True, send_messages=True),
    {
        1: StreamPermissions(manage_stream=True, topics={4: TopicPermissions(read_topic=True), 9: TopicPermissions()}),
        7: StreamPermissions(send_messages=True),
    },
)
SENT = encode_sent([Message(payload=b"hello", headers=Headers({"trace": "abc"})), Message(payload=b"x", id=1 << 100)])
STORED = encode_polled([Message(payload=b"hello", offset=3, timestamp=1_700_000_000_000_000, id=162)])

EXAMPLES: list[Command[Any]] = [
    sessions.Ping(),
    sessions.Login("iggy", "iggy", "0.6.202", ""),
    sessions.Login("iggy", "iggy"),
    sessions.Logout(),
    system.GetStats(),
    system.Snapshot(system.SnapshotCompression.DEFLATED, (system.SnapshotType.SERVER_LOGS, system.SnapshotType.TEST)),
    system.GetMe(),
    system.GetCluster(),
    system.DescribeOptions(system.OptionScope.TOPIC),
    system.GetClient(2650268133),
    system.ListClients(),
    users.GetUser("guest"),
    users.ListUsers(),
    users.CreateUser("guest", "secret", users.UserStatus.INACTIVE, RIGHTS),
    users.CreateUser("guest", "secret", users.UserStatus.ACTIVE),
    users.DeleteUser(2),
    users.UpdateUser("guest", username="guest2"),
    users.UpdateUser(2, status=users.UserStatus.INACTIVE),
    users.UpdatePermissions(2, RIGHTS),
    users.UpdatePermissions(2),
    users.ChangePassword("guest", "secret", "secret2"),
    tokens.ListTokens(),
    tokens.CreateToken("ci-token", 3_600_000_000),
    tokens.DeleteToken("ci-token"),
    tokens.LoginWithToken("t" * 68),
    streams.GetStream("a stream/100%"),
    streams.ListStreams(),
    streams.CreateStream(0, "orders"),
    streams.CreateStream(5, "orders"),
    streams.DeleteStream(5),
    streams.UpdateStream("orders", "orders2"),
    streams.PurgeStream("x"),
    topics.GetTopic("orders", "eu"),
    topics.ListTopics("orders"),
    topics.CreateTopic("orders", 0, 3, topics.Compression.GZIP, 0, topics.NEVER, 0, "eu"),
    topics.DeleteTopic("o", "e"),
    topics.UpdateTopic(1, 2, topics.Compression.NONE, 1000, 2_000_000_000, 5, "eu2"),
    topics.PurgeTopic("o", 3),
    partitions.CreatePartitions("o", "e", 2),
    partitions.DeletePartitions("o", "e", 2),
    partitions.DeleteSegments("o", "e", 1, 2),
    groups.GetGroup("o", "e", "billing"),
    groups.ListGroups("o", "e"),
    groups.CreateGroup("o", "e", 0, "billing"),
    groups.DeleteGroup("o", "e", 1),
    groups.JoinGroup("o", "e", 1),
    groups.LeaveGroup("o", "e", "billing"),
    groups.SyncGroup("o", "e", "billing"),
    offsets.GetOffset(ALICE, "o", "e", 1),
    offsets.StoreOffset(ALICE, "o", "e", 1, 10),
    offsets.DeleteOffset(ALICE, "o", "e", 0),
    messages.PollMessages(ALICE, "o", "e", 1, PollingKind.TIMESTAMP, 1_700_000_000_000_000, 5, True),
    messages.SendMessages("o", "e", Partitioning.key(b"key-1"), SENT),
    messages.FlushMessages("o", "e", 1, True),
]


def id_of(command: Command[Any]) -> str:
    return type(command).__name__


def send_over_http(command: Command[Any]) -> Command[Any]:
    """Return the command that a server finds in the HTTP request of a command."""
    asked = command.to_json()
    found = route_matching.find_route(asked.method, asked.path)
    assert found is not None
    assert found.entry is command.entry()
    body = b"" if asked.body is None else json.dumps(asked.body).encode()
    return command_classes.COMMANDS[found.entry.code].decode_http(found.path, asked.query, body)


@pytest.mark.parametrize("command", [command for command in EXAMPLES if command.code != 101], ids=id_of)
@pytest.mark.parametrize("surplus", [b"\0", b"\1", b"\0\0\0\0", b"\xff" * 15])
def test_bytes_after_the_last_field_of_a_request_are_ignored_and_counted(command: Command[Any], surplus: bytes) -> None:
    payload = command.encode()
    assert command.count_surplus(payload) == 0
    if isinstance(command, (sessions.Login, tokens.LoginWithToken)) and (command.version is None or command.context is None):
        return  # they end in texts that may be missing: such bytes are a text, or the beginning of one
    assert command_classes.decode_command(command.code, payload + surplus) == command
    assert command.count_surplus(payload + surplus) == len(surplus)


@pytest.mark.parametrize("command", [command for command in EXAMPLES if command.entry().route], ids=id_of)
def test_a_command_decodes_to_the_same_command_from_its_http_request(command: Command[Any]) -> None:
    assert send_over_http(command) == command


REPLIES: list[tuple[type[Command[Any]], Any]] = [
    (sessions.Login, sessions.LoggedIn(1)),
    (system.GetMe, system.ClientDetails(9, 1, system.TransportKind.TCP, "127.0.0.1:5", (system.ClientGroup(1, 2, 3),))),
    (system.GetClient, None),
    (system.ListClients, (system.Client(9, 0, system.TransportKind.QUIC, "[::1]:5", 2),)),
    (users.GetUser, users.UserDetails(1, 5, users.UserStatus.ACTIVE, "iggy", RIGHTS)),
    (users.GetUser, users.UserDetails(1, 5, users.UserStatus.ACTIVE, "iggy")),
    (users.ListUsers, (users.User(1, 5, users.UserStatus.ACTIVE, "iggy"), users.User(2, 6, users.UserStatus.INACTIVE, "b"))),
    (tokens.ListTokens, (tokens.Token("ci", 0), tokens.Token("cd", 77))),
    (tokens.CreateToken, tokens.RawToken("x" * 68)),
    (groups.GetGroup, groups.GroupDetails(1, 3, 1, "billing", (groups.GroupMember(7, (1, 2, 3)), groups.GroupMember(8, ())))),
    (offsets.GetOffset, offsets.StoredOffset(1, 99, 10)),
    (messages.PollMessages, messages.PolledMessages(1, 3, 1, STORED)),
]


@pytest.mark.parametrize(("kind", "reply"), REPLIES)
def test_a_reply_is_itself_in_bytes_and_in_json(kind: type[Command[Any]], reply: Any) -> None:
    body = kind.encode_reply(reply)
    assert kind.decode_reply(body) == reply
    assert kind.reply_from_json(json.loads(json.dumps(kind.reply_to_json(reply)))) == reply
    assert len(body) != 1


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        (sessions.Login, sessions.LoggedIn(1)),
        (users.GetUser, users.UserDetails(1, 5, users.UserStatus.ACTIVE, "iggy", RIGHTS)),
        (tokens.CreateToken, tokens.RawToken("x" * 68)),
        (offsets.GetOffset, offsets.StoredOffset(1, 99, 10)),
    ],
)
def test_bytes_after_the_last_field_of_a_reply_are_ignored(kind: type[Command[Any]], reply: Any) -> None:
    assert kind.decode_reply(kind.encode_reply(reply) + bytes(7)) == reply


def status_when_validated(command: Command[Any]) -> int | None:
    try:
        command.validate()
    except HeadstreamError as error:
        return refusals.status_of(error)
    return None


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (streams.CreateStream(0, ""), 1013),
        (streams.CreateStream(0, "é" * 127), None),
        (streams.CreateStream(0, "é" * 128), 1013),
        (streams.UpdateStream(1, ""), 1013),
        (topics.CreateTopic(1, 0, 1000, topics.Compression.NONE, 0, 0, 0, "t"), None),
        (topics.CreateTopic(1, 0, 1001, topics.Compression.NONE, 0, 0, 0, "t"), 2015),
        (topics.CreateTopic(1, 0, 0, topics.Compression.NONE, 0, 0, 0, ""), 2014),
        (topics.UpdateTopic(1, 1, topics.Compression.NONE, 0, 0, 0, ""), 2014),
        (partitions.CreatePartitions(1, 1, 0), 2015),
        (partitions.DeletePartitions(1, 1, 1001), 2015),
        (partitions.DeleteSegments(1, 1, 1, 0), 4030),
        (groups.CreateGroup(1, 1, 0, ""), 5005),
        (users.CreateUser("ab", "secret", users.UserStatus.ACTIVE), 43),
        (users.CreateUser("a" * 51, "secret", users.UserStatus.ACTIVE), 43),
        (users.CreateUser("abc", "ab", users.UserStatus.ACTIVE), 44),
        (users.UpdateUser(1, username="ab"), 43),
        (users.ChangePassword(1, "abc", "a" * 101), 44),
        (tokens.CreateToken("ab", 0), 50),
        (tokens.DeleteToken("a" * 31), 50),
        (tokens.LoginWithToken(""), 53),
        (sessions.Login("ab", "secret"), 43),
        (sessions.Login("iggy", "iggy", "0.7.0", ""), 7),
        (sessions.Login("iggy", "iggy", "1.0.6", ""), None),
        (sessions.Login("iggy", "iggy", "0.9.0", "headstream"), None),
        (system.GetClient(0), 101),
        (system.Snapshot(system.SnapshotCompression.XZ, (system.SnapshotType.ALL, system.SnapshotType.TEST)), 3),
        (messages.SendMessages(1, 1, Partitioning.balanced(), b""), 4009),
    ],
)
def test_a_limit_is_refused_with_its_status(command: Command[Any], status: int | None) -> None:
    assert status_when_validated(command) == status


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: streams.CreateStream.from_json({}, {}, {}), "body.name"),
        (lambda: streams.CreateStream.from_json({}, {}, {"name": 5}), "body.name"),
        (lambda: streams.CreateStream.from_json({}, {}, {"name": "a", "stream_id": -1}), "body.stream_id"),
        (lambda: streams.CreateStream.from_json({}, {}, []), "body"),
        (lambda: streams.GetStream.from_json({"stream_id": "0"}, {}, None), "path.stream_id"),
        (lambda: messages.PollMessages.from_json({"stream_id": "1", "topic_id": "1"}, {"count": "x"}, None), "query.count"),
        (lambda: partitions.DeletePartitions.from_json({"stream_id": "1", "topic_id": "1"}, {}, None), "query.partitions_count"),
        (lambda: messages.SendMessages.decode_http({"stream_id": "1", "topic_id": "1"}, {}, b"{}"), "body.partitioning"),
    ],
)
def test_what_http_spells_wrongly_is_named_by_its_place(make: Any, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        make()
    assert caught.value.where == where


def test_passwords_and_tokens_are_not_shown() -> None:
    for value in (sessions.Login("iggy", "hush"), users.ChangePassword(1, "hush", "hush"), tokens.RawToken("hush")):
        assert "hush" not in repr(value)
