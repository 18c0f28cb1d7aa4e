"""Frames as the Go, Node, Java and C# clients of the protocol's generation lay them out, by hand, and what a server does.

Some of these clients send more than a command says: a flag that is counted twice in a length (Go, C#), a number that
belongs to another command (Node). Each case says how many bytes are behind the last field; Java's have none.
"""

from __future__ import annotations

import logging
import struct

import pytest

from headstream.broker.commands.requests import answer_request
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.commands import tokens, users
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.commands.topics import NEVER, Compression, GetTopic
from headstream.errors import HeadstreamError, PermissionDeniedError
from tests.support.server.servers import Peer, Server


def text8(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def by_number(number: int) -> bytes:
    return struct.pack("<BBI", 1, 4, number)


def by_name(name: str) -> bytes:
    return b"\2" + text8(name)


EVERYTHING = bytes([1] * 10)
POLL_ONLY = bytes([0] * 8 + [1, 0])
STREAM_7 = struct.pack("<I", 7) + bytes([0, 1, 0, 0, 1, 0])
TOPIC_3 = struct.pack("<I", 3) + bytes([0, 0, 1, 0])


def create_user(rest: bytes) -> bytes:
    return text8("guest") + text8("secret") + b"\1" + rest


def sized(block: bytes) -> bytes:
    return b"\1" + struct.pack("<I", len(block)) + block


CREATED = {
    # client: payload, bytes behind the last field, permissions
    "Go, without permissions": (create_user(b"\0"), 0, None),
    "Go, with permissions": (create_user(sized(EVERYTHING + b"\0")) + b"\0", 1, Permissions(GlobalPermissions.all())),
    "Go, with a stream": (
        create_user(sized(POLL_ONLY + b"\1" + STREAM_7 + b"\0\0")) + b"\0",
        1,
        Permissions(GlobalPermissions(poll_messages=True), {7: StreamPermissions(read_stream=True, poll_messages=True)}),
    ),
    "Node, without permissions": (create_user(b"\0" + struct.pack("<I", 1) + b"\0"), 5, None),
    "Node, with permissions": (create_user(sized(EVERYTHING + b"\0\0\0\0")), 0, Permissions(GlobalPermissions.all())),
    "Java, with a stream and a topic": (
        create_user(sized(POLL_ONLY + b"\1" + STREAM_7 + b"\1" + TOPIC_3 + b"\0\0")),
        0,
        Permissions(
            GlobalPermissions(poll_messages=True),
            {7: StreamPermissions(read_stream=True, poll_messages=True, topics={3: TopicPermissions(poll_messages=True)})},
        ),
    ),
    "C#, with a stream and a topic": (
        create_user(sized(POLL_ONLY + b"\1" + STREAM_7 + b"\1" + TOPIC_3 + b"\0\0\0\0")) + b"\0",
        1,
        Permissions(
            GlobalPermissions(poll_messages=True),
            {7: StreamPermissions(read_stream=True, poll_messages=True, topics={3: TopicPermissions(poll_messages=True)})},
        ),
    ),
}


def ask(peer: Peer, code: Code, payload: bytes) -> bytes:
    return b"".join(bytes(piece) for piece in answer_request(peer.dispatcher, peer.session, code, memoryview(payload)))


@pytest.mark.parametrize("client", CREATED)
def test_create_user_does_what_it_says_when_bytes_follow_its_last_field(root: Peer, client: str) -> None:
    payload, surplus, permissions = CREATED[client]
    assert COMMANDS[Code.CREATE_USER].count_surplus(payload) == surplus
    ask(root, Code.CREATE_USER, payload)
    user = root.ask(users.GetUser("guest"))
    assert user is not None
    assert (user.status, user.permissions) == (users.UserStatus.ACTIVE, permissions)


@pytest.mark.parametrize(
    ("payload", "surplus"),
    [
        (by_name("guest") + b"\1" + text8("other") + b"\1\2" + b"\0", 1),  # Go, with name and status
        (by_name("guest") + b"\1" + text8("other") + b"\1\2", 0),  # Java and C#
    ],
)
def test_update_user_does_what_it_says_when_bytes_follow_its_last_field(root: Peer, payload: bytes, surplus: int) -> None:
    ask(root, Code.CREATE_USER, create_user(b"\0"))
    assert COMMANDS[Code.UPDATE_USER].count_surplus(payload) == surplus
    ask(root, Code.UPDATE_USER, payload)
    user = root.ask(users.GetUser("other"))
    assert user is not None
    assert user.status is users.UserStatus.INACTIVE


@pytest.mark.parametrize("block", [EVERYTHING + b"\0", EVERYTHING + b"\0\0\0\0", EVERYTHING + b"\0" * 9])
def test_permissions_are_read_when_their_size_says_more_than_they_have(root: Peer, block: bytes) -> None:
    ask(root, Code.CREATE_USER, create_user(b"\0"))
    ask(root, Code.UPDATE_PERMISSIONS, by_name("guest") + sized(block))
    user = root.ask(users.GetUser("guest"))
    assert user is not None
    assert user.permissions == Permissions(GlobalPermissions.all())


def test_delete_topic_deletes_when_a_count_of_partitions_follows_as_of_the_node_client(
    root: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headstream.server")
    ask(root, Code.DELETE_TOPIC, by_name("shop") + by_number(1) + struct.pack("<I", 3))
    assert root.ask(GetTopic("shop", "orders")) is None
    (record,) = [each for each in caplog.records if "after the last field" in each.message]
    assert vars(record)["fields"] == {
        "command": "topic.delete",
        "bytes": 4,
        "address": root.session.address,
        "client": root.session.client_id,
    }


def update_topic(layout: bytes, name: str = "wares") -> bytes:
    return by_name("shop") + by_name("orders") + layout + text8(name)


UPDATED = {
    # client: payload, bytes behind the last field, (compression, expiry, maximum size, replication factor)
    "current": (update_topic(struct.pack("<BQQB", 2, 7_000_000, 10**9, 3)), 0, (Compression.GZIP, 7_000_000, 10**9, 3)),
    "current, and more": (update_topic(struct.pack("<BQQB", 1, 0, 10**9, 3)) + b"\0", 1, (Compression.NONE, NEVER, 10**9, 3)),
    "Node": (update_topic(struct.pack("<QQB", 7_000_000, 10**9, 3)), 0, (Compression.NONE, 7_000_000, 10**9, 3)),
    "Node, without an expiry": (update_topic(struct.pack("<QQB", 0, 0, 1)), 0, (Compression.NONE, NEVER, NEVER, 1)),
    "before 0.5.0": (update_topic(struct.pack("<BIQB", 2, 7, 10**9, 3)), 0, (Compression.GZIP, 7_000_000, 10**9, 3)),
    "C# and older Node": (update_topic(struct.pack("<IQB", 7, 10**9, 3)), 0, (Compression.NONE, 7_000_000, 10**9, 3)),
    "C#, without an expiry": (update_topic(struct.pack("<IQB", 0, 0, 1)), 0, (Compression.NONE, NEVER, NEVER, 1)),
    "older Go": (update_topic(struct.pack("<I", 7)), 0, (Compression.NONE, 7_000_000, NEVER, None)),
}


@pytest.mark.parametrize("client", UPDATED)
def test_update_topic_reads_every_layout_that_clients_write(root: Peer, client: str) -> None:
    payload, surplus, expected = UPDATED[client]
    assert COMMANDS[Code.UPDATE_TOPIC].count_surplus(payload) == surplus
    ask(root, Code.UPDATE_TOPIC, payload)
    topic = root.ask(GetTopic("shop", "wares"))
    assert topic is not None
    compression, expiry, size, replication = expected
    assert (topic.compression, topic.message_expiry, topic.max_topic_size) == (compression, expiry, size)
    assert replication is None or topic.replication_factor == replication


@pytest.mark.parametrize("cut", range(1, 19))
def test_update_topic_is_refused_when_its_payload_is_cut(root: Peer, cut: int) -> None:
    payload = update_topic(struct.pack("<BQQB", 1, 0, 0, 0))[:-cut]
    with pytest.raises(HeadstreamError):
        ask(root, Code.UPDATE_TOPIC, payload)
    assert root.ask(GetTopic("shop", "orders")) is not None


@pytest.mark.parametrize(
    ("expiry", "surplus", "lifetime_us"),
    [
        (struct.pack("<Q", 600_000_000), 0, 600_000_000),  # Java and current clients
        (struct.pack("<Q", 600_000_000) + b"\0\0", 2, 600_000_000),
        (struct.pack("<I", 600), 0, 600_000_000),  # Node and C#: seconds
        (struct.pack("<I", 0), 0, None),
        (struct.pack("<Q", 0), 0, None),
    ],
)
def test_create_token_reads_an_expiry_of_seconds_and_of_microseconds(
    server: Server, root: Peer, expiry: bytes, surplus: int, lifetime_us: int | None
) -> None:
    payload = text8("nightly") + expiry
    assert COMMANDS[Code.CREATE_TOKEN].count_surplus(payload) == surplus
    raw = tokens.CreateToken.decode_reply(ask(root, Code.CREATE_TOKEN, payload)).token
    (token,) = root.ask(tokens.ListTokens())
    assert token.expires_us == (0 if lifetime_us is None else server.clock.now_us() + lifetime_us)
    peer = server.connect()
    ask(peer, Code.LOGIN_WITH_TOKEN, text8(raw) + bytes(4))  # C# sends four more
    ask(peer, Code.DELETE_TOKEN, text8("nightly") + bytes(4))
    assert root.ask(tokens.ListTokens()) == ()


def test_update_user_changes_the_status_alone_when_the_csharp_client_sends_a_byte_more(root: Peer) -> None:
    ask(root, Code.CREATE_USER, create_user(b"\0"))
    payload = by_number(2) + b"\0\1\2" + b"\0"
    assert COMMANDS[Code.UPDATE_USER].count_surplus(payload) == 1
    ask(root, Code.UPDATE_USER, payload)
    user = root.ask(users.GetUser("guest"))
    assert user is not None
    assert user.status is users.UserStatus.INACTIVE


def test_update_permissions_removes_them_when_the_node_client_says_that_there_are_none(root: Peer) -> None:
    ask(root, Code.CREATE_USER, create_user(sized(EVERYTHING + b"\0")))
    ask(root, Code.UPDATE_PERMISSIONS, by_name("guest") + b"\0" + struct.pack("<I", 1) + b"\0")
    user = root.ask(users.GetUser("guest"))
    assert user is not None
    assert user.permissions is None


LOGINS = {
    "Go and Java": text8("iggy") + text8("iggy") + struct.pack("<I", 6) + b"0.6.30" + struct.pack("<I", 8) + b"java-sdk",
    "Node and C#": text8("iggy") + text8("iggy"),
}
CONSUMER = b"\1" + by_number(9)
AT = by_name("shop") + by_name("orders")
SENT = bytes(16) + struct.pack("<I", 0) + struct.pack("<I", 5) + b"hello"


@pytest.mark.parametrize("client", LOGINS)
@pytest.mark.parametrize("surplus", [0, 1, 4])
def test_dispatch_understands_a_whole_conversation_when_surplus_bytes_follow_each_request(
    server: Server, root: Peer, client: str, surplus: int
) -> None:
    peer, tail = server.connect(), bytes([1]) * surplus
    requests: list[tuple[Code, bytes, bytes | None]] = [
        (Code.PING, b"", b""),
        (Code.LOGIN, LOGINS[client], struct.pack("<I", 1)),
        (Code.CREATE_STREAM, struct.pack("<I", 0) + text8("depot"), None),
        (Code.UPDATE_STREAM, by_name("depot") + text8("store"), b""),
        (Code.GET_STREAM, by_name("store"), None),
        (Code.LIST_STREAMS, b"", None),
        (Code.PURGE_STREAM, by_name("store"), b""),
        (Code.ME, b"", None),
        (Code.STATS, b"", None),
        (Code.LIST_CLIENTS, b"", None),
        (Code.GET_CLIENT, struct.pack("<I", peer.session.client_id), None),
        (Code.SNAPSHOT, bytes([1, 1, 4]), None),
        (Code.CREATE_TOPIC, by_name("store") + struct.pack("<IIBQQB", 0, 2, 1, 0, 0, 1) + text8("goods"), None),
        (Code.UPDATE_TOPIC, by_name("store") + by_number(1) + struct.pack("<BQQB", 1, 0, 0, 1) + text8("wares"), b""),
        (Code.GET_TOPIC, by_name("store") + by_name("wares"), None),
        (Code.LIST_TOPICS, by_name("store"), None),
        (Code.CREATE_PARTITIONS, by_name("store") + by_name("wares") + struct.pack("<I", 1), b""),
        (Code.DELETE_PARTITIONS, by_name("store") + by_name("wares") + struct.pack("<I", 1), b""),
        (Code.CREATE_GROUP, AT + struct.pack("<I", 0) + text8("billing"), None),
        (Code.GET_GROUP, AT + by_name("billing"), None),
        (Code.LIST_GROUPS, AT, None),
        (Code.JOIN_GROUP, AT + by_name("billing"), b""),
        (Code.LEAVE_GROUP, AT + by_name("billing"), b""),
        (Code.SEND_MESSAGES, AT + b"\2\4\1\0\0\0" + SENT, b""),
        (Code.FLUSH_MESSAGES, AT + struct.pack("<IB", 1, 1), b""),
        (Code.STORE_OFFSET, CONSUMER + AT + struct.pack("<IQ", 1, 0), b""),
        (Code.GET_OFFSET, CONSUMER + AT + struct.pack("<I", 1), struct.pack("<IQQ", 1, 0, 0)),
        (Code.POLL_MESSAGES, CONSUMER + AT + struct.pack("<IBQIB", 1, 1, 0, 10, 0), None),
        (Code.DELETE_SEGMENTS, AT + struct.pack("<II", 1, 1), b""),
        (Code.DELETE_OFFSET, CONSUMER + AT + struct.pack("<I", 1), b""),
        (Code.CREATE_TOKEN, text8("go-token") + struct.pack("<Q", 0), None),
        (Code.LIST_TOKENS, b"", None),
        (Code.DELETE_TOKEN, text8("go-token"), b""),
        (Code.CREATE_USER, create_user(b"\0"), None),
        (Code.GET_USER, by_name("guest"), None),
        (Code.LIST_USERS, b"", None),
        (Code.UPDATE_USER, by_name("guest") + b"\0\1\2", b""),
        (Code.UPDATE_PERMISSIONS, by_name("guest") + b"\0", b""),
        (Code.DELETE_USER, by_name("guest"), b""),
        (Code.CHANGE_PASSWORD, by_number(1) + text8("iggy") + text8("iggy"), b""),
        (Code.PURGE_TOPIC, AT, b""),
        (Code.DELETE_GROUP, AT + by_name("billing"), b""),
        (Code.DELETE_TOPIC, AT, b""),
        (Code.DELETE_STREAM, by_name("store"), b""),
        (Code.LOGOUT, b"", b""),
    ]
    later = {Code.GET_CLUSTER, Code.DESCRIBE_OPTIONS, Code.SYNC_GROUP}  # of protocol 0.11
    assert {code for code, _, _ in requests} == {code for code in COMMANDS if code < 1000} - {Code.LOGIN_WITH_TOKEN} - later
    for code, payload, expected in requests:
        open_ended = code in (Code.SEND_MESSAGES, Code.LOGIN)  # messages, and texts that may be missing, go to the end
        body = ask(peer, code, payload if open_ended else payload + tail)
        assert body == expected if expected is not None else body, code
        if code is Code.POLL_MESSAGES:
            assert body.endswith(b"hello")
        if code is Code.CHANGE_PASSWORD:  # which ends the session
            peer = server.root()


def test_login_by_a_token_is_understood_when_nothing_follows_it(server: Server, root: Peer) -> None:
    created = ask(root, Code.CREATE_TOKEN, text8("go-token") + struct.pack("<Q", 0))
    token = created[1 : 1 + created[0]].decode()
    peer = server.connect()
    assert ask(peer, Code.LOGIN_WITH_TOKEN, text8(token)) == struct.pack("<I", 1)
    assert ask(peer, Code.LIST_TOKENS, b"")


def test_surplus_gives_no_rights_to_a_user_without_any(server: Server, root: Peer) -> None:
    guest = server.connect_as("nobody")
    with pytest.raises(PermissionDeniedError):
        ask(guest, Code.DELETE_TOPIC, AT + struct.pack("<I", 3))
