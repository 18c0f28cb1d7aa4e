"""What the original suite does through its command line: every operation by id and by name, and its effect."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands import topics, users
from headstream.core.wire.commands.groups import CreateGroup, DeleteGroup, GetGroup, ListGroups
from headstream.core.wire.commands.messages import FlushMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef, GetOffset, StoreOffset
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions, DeleteSegments
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, GetStream, ListStreams, PurgeStream, UpdateStream
from headstream.core.wire.commands.system import GetClient, GetMe, GetStats, ListClients
from headstream.core.wire.commands.tokens import CreateToken, LoginWithToken
from headstream.core.wire.shapes import Identifier
from tests.behaviour.conformance.scenes import CONSUMER, STREAM, TOPIC, build, create_topic, poll, polled, send
from tests.support.server.peers import Peer, TcpPeer

BY_EITHER = list(itertools.product([1, STREAM], [1, TOPIC]))
"""A topic by id and by name, in a stream by id and by name."""


@pytest.mark.parametrize("stream", [1, STREAM])
def test_a_stream_is_changed_purged_and_deleted(peer: Peer, stream: Identifier) -> None:
    build(peer)
    send(peer, [b"hello"], stream=stream)
    peer.ask(PurgeStream(stream))
    assert poll(peer, stream=stream).count == 0
    peer.ask(UpdateStream(stream, "renamed"))
    found = peer.ask(GetStream("renamed"))
    assert found is not None
    assert found.id == 1
    peer.ask(DeleteStream(1 if stream == 1 else "renamed"))
    assert peer.ask(ListStreams()) == ()


@pytest.mark.parametrize(("stream", "topic"), BY_EITHER)
def test_a_topic_is_changed_purged_and_deleted(peer: Peer, stream: Identifier, topic: Identifier) -> None:
    build(peer)
    send(peer, [b"hello"], stream=stream, topic=topic)
    peer.ask(topics.PurgeTopic(stream, topic))
    assert poll(peer, stream=stream, topic=topic).count == 0
    peer.ask(CreatePartitions(stream, topic, 2))
    peer.ask(DeletePartitions(stream, topic, 1))
    found = peer.ask(topics.GetTopic(stream, topic))
    assert found is not None
    assert found.partitions_count == 4
    peer.ask(topics.UpdateTopic(stream, topic, topics.Compression.GZIP, 5_000_000, topics.NEVER, 2, "renamed"))
    [listed] = peer.ask(topics.ListTopics(stream))
    assert (listed.name, listed.message_expiry, listed.max_topic_size) == ("renamed", 5_000_000, topics.NEVER)
    peer.ask(topics.DeleteTopic(stream, 1 if topic == 1 else "renamed"))
    assert peer.ask(topics.ListTopics(stream)) == ()


@pytest.mark.parametrize(
    ("expiry_us", "max_bytes", "replication", "reported"),
    [
        (0, 0, 0, (topics.NEVER, topics.NEVER, 1)),
        (topics.NEVER, topics.NEVER, 1, (topics.NEVER, topics.NEVER, 1)),
        (3_600_000_000, 10**10, 255, (3_600_000_000, 10**10, 255)),
    ],
)
def test_a_topic_is_made_with_settings(
    peer: Peer, expiry_us: int, max_bytes: int, replication: int, reported: tuple[int, int, int]
) -> None:
    peer.ask(CreateStream(0, STREAM))
    made = peer.ask(topics.CreateTopic(STREAM, 0, 1, topics.Compression.GZIP, expiry_us, max_bytes, replication, TOPIC))
    assert (made.message_expiry, made.max_topic_size, made.replication_factor) == reported
    assert made.compression == topics.Compression.GZIP
    assert peer.ask(topics.GetTopic(STREAM, TOPIC)) == made


@pytest.mark.parametrize(("stream", "topic"), BY_EITHER)
def test_groups_and_offsets_are_reached_by_id_and_by_name(peer: Peer, stream: Identifier, topic: Identifier) -> None:
    build(peer)
    assert [peer.ask(CreateGroup(stream, topic, id, name)).id for id, name in ((0, "first"), (7, "seventh"), (0, "second"))] == [
        1,
        7,
        2,
    ]
    assert [group.name for group in peer.ask(ListGroups(stream, topic))] == ["first", "second", "seventh"]
    peer.ask(DeleteGroup(stream, topic, "second"))
    assert peer.ask(GetGroup(stream, topic, 2)) is None
    send(peer, [b"%d" % number for number in range(100)], stream=stream, topic=topic)
    for consumer in (ConsumerRef(ConsumerKind.CONSUMER, 3), ConsumerRef(ConsumerKind.CONSUMER, "named-consumer")):
        peer.ask(StoreOffset(consumer, stream, topic, 1, 10))
        found = peer.ask(GetOffset(consumer, stream, topic, 1))
        assert found is not None
        assert (found.partition, found.current_offset, found.stored_offset) == (1, 99, 10)
        assert poll(peer, PollingKind.NEXT, consumer=consumer, stream=stream, topic=topic).count == 89


@pytest.mark.parametrize(("stream", "topic"), BY_EITHER)
def test_messages_are_sent_polled_and_sent_again(peer: Peer, stream: Identifier, topic: Identifier) -> None:
    build(peer)
    headers = Headers({"key1": "value1", "key2": True})
    for partitioning in (Partitioning.partition(2), Partitioning.key(b"some-key"), Partitioning.balanced()):
        send(peer, [Message(payload=b"text", headers=headers)], partitioning, stream, topic)
    peer.ask(FlushMessages(stream, topic, 2, True))
    found = [message for number in (1, 2, 3) for message in polled(poll(peer, partition=number, stream=stream, topic=topic))]
    assert [(message.payload, dict(message.headers)) for message in found] == [(b"text", dict(headers))] * 3
    first = polled(poll(peer, partition=2, stream=stream, topic=topic))[0]
    peer.ask(SendMessages(stream, topic, Partitioning.partition(2), encode_sent([first])))
    again = polled(poll(peer, PollingKind.LAST, count=1, partition=2, stream=stream, topic=topic))[0]
    assert (again.payload, again.headers, again.id) == (first.payload, first.headers, first.id)
    assert again.offset == (first.offset or 0) + poll(peer, partition=2).count - 1


@pytest.mark.parametrize("by_name", [False, True])
def test_a_user_is_changed_and_deleted(peer: Peer, by_name: bool) -> None:
    rights = Permissions(
        GlobalPermissions(read_streams=True, poll_messages=True),
        {1: StreamPermissions(manage_topics=True, topics={2: TopicPermissions(send_messages=True)}), 2: StreamPermissions()},
    )
    made = peer.ask(users.CreateUser("test_user", "test_password", users.UserStatus.INACTIVE, rights))
    assert (made.status, made.permissions) == (users.UserStatus.INACTIVE, rights)
    user: Identifier = "test_user" if by_name else made.id
    peer.ask(users.UpdateUser(user, status=users.UserStatus.ACTIVE))
    peer.ask(users.ChangePassword(user, "test_password", "new_password"))
    peer.ask(users.UpdatePermissions(user, Permissions(GlobalPermissions.all())))
    peer.ask(users.UpdateUser(user, "renamed"))
    found = peer.ask(users.GetUser("renamed"))
    assert found is not None
    assert (found.id, found.status, found.permissions) == (made.id, users.UserStatus.ACTIVE, Permissions(GlobalPermissions.all()))
    peer.ask(users.DeleteUser("renamed" if by_name else made.id))
    assert peer.ask(users.GetUser(made.id)) is None


def test_a_token_logs_in_who_made_it(peer: Peer, connect: Callable[..., TcpPeer]) -> None:
    token = peer.ask(CreateToken("test-token", 0)).token
    assert len(token) == 68
    other = connect()
    assert other.ask(LoginWithToken(token)).user_id == 1
    assert other.ask(GetMe()).user_id == 1


def test_a_client_finds_itself(root: TcpPeer, connect: Callable[..., TcpPeer]) -> None:
    build(root)
    root.ask(create_topic(1, "second", 2))
    other = connect("iggy", "iggy")
    me = other.ask(GetMe())
    assert me == root.ask(GetClient(me.client_id))
    assert [client.client_id for client in root.ask(ListClients())] == sorted([me.client_id, root.ask(GetMe()).client_id])
    stats = root.ask(GetStats())
    assert (stats.streams_count, stats.topics_count, stats.partitions_count, stats.segments_count, stats.clients_count) == (
        1,
        2,
        5,
        5,
        2,
    )


def test_deleting_segments_leaves_the_one_that_is_written(root: TcpPeer) -> None:
    build(root)
    send(root, [b"hello"])
    root.ask(DeleteSegments(1, 1, 1, 2))
    assert poll(root).count == 1


def test_names_may_be_any_255_bytes_without_control_characters(root: TcpPeer) -> None:
    for number, name in enumerate(["with space", "a/b", "..", ".", "Ünïcødé ✉", "x" * 255, "shop/orders", "-", "A", "a", "%2F"]):
        made = root.ask(CreateStream(0, name))
        root.ask(create_topic(name, name, 1))
        send(root, [b"%d" % number], stream=name, topic=name)
        [message] = polled(poll(root, stream=name, topic=name, consumer=CONSUMER))
        assert message.payload == b"%d" % number
        found = root.ask(GetStream(name))
        assert found is not None
        assert (found.id, found.name, found.topics[0].name) == (made.id, name, name)
    root.ask(UpdateStream("A", "..."))
    assert root.ask(GetStream("...")) is not None
    assert root.ask(GetStream("A")) is None
