"""Streams, topics and partitions by their commands: what is answered, and every status by which it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.topology import Limits, NewTopic
from headstream.core.wire.commands import topics
from headstream.core.wire.commands.messages import SendMessages
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions, DeleteSegments
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, GetStream, ListStreams, PurgeStream, UpdateStream
from headstream.core.wire.commands.system import GetStats
from headstream.core.wire.records import Command
from headstream.core.wire.shapes import Identifier
from headstream.log.administration import create_topic
from tests.support.server.servers import Peer, Server

NONE = topics.Compression.NONE


def make_topic(name: str = "orders", id_: int = 0, partitions: int = 3, stream: Identifier = "shop") -> topics.CreateTopic:
    return topics.CreateTopic(stream, id_, partitions, NONE, topics.SERVER_DEFAULT, topics.SERVER_DEFAULT, 0, name)


def update(
    name: str = "orders", *, expiry: int = topics.NEVER, size: int = topics.NEVER, topic: Identifier = "orders"
) -> topics.UpdateTopic:
    return topics.UpdateTopic("shop", topic, topics.Compression.GZIP, expiry, size, 5, name)


def send(peer: Peer, count: int, size: int, topic: Identifier = "orders", stream: Identifier = "shop") -> None:
    messages = encode_sent([Message(payload=b"x" * size)] * count)
    peer.ask(SendMessages(stream, topic, Partitioning(PartitioningKind.PARTITION_ID, b"\1\0\0\0"), messages))


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (CreateStream(0, "shop"), 1012),
        (CreateStream(1, "shop"), 1012),  # the name is looked at first
        (CreateStream(1, "other"), 1011),
        (CreateStream(0, ""), 1013),
        (UpdateStream("shop", "shop"), 0),
        (UpdateStream(9, "other"), 1009),
        (UpdateStream("nope", "other"), 1010),
        (DeleteStream(9), 1009),
        (PurgeStream("nope"), 1010),
        (topics.ListTopics(9), 1009),
        (make_topic("orders", 7), 2013),
        (make_topic("orders", 1), 2013),
        (make_topic("other", 1), 2012),
        (make_topic(""), 2014),
        (make_topic("other", partitions=1001), 2015),
        (make_topic("other", stream=9), 1009),
        (topics.CreateTopic("shop", 1, 1, NONE, 0, 1000, 0, "orders"), 1019),  # before the name and the id
        (update(size=1000), 1019),
        (update("orders"), 0),
        (update(topic=9), 2010),
        (update(topic="nope"), 2011),
        (topics.DeleteTopic("shop", 9), 2010),
        (topics.DeleteTopic("nope", 9), 1010),
        (topics.PurgeTopic("shop", "nope"), 2011),
        (CreatePartitions("shop", "orders", 0), 2015),
        (CreatePartitions("shop", "orders", 1000), 2015),  # beyond what a topic of this log may have
        (CreatePartitions("shop", 2, 1), 2010),
        (DeletePartitions("shop", "nope", 1), 2011),
        (DeleteSegments("shop", "orders", 4, 1), 3007),
        (DeleteSegments("shop", "orders", 1, 0), 4030),
        (DeleteSegments("shop", "orders", 1, 1), 0),
    ],
)
def test_command_is_answered_with_its_status_when_asked_by_root(root: Peer, command: Command[Any], status: int) -> None:
    assert root.status(command) == status


@pytest.mark.parametrize(
    ("command", "before_login"),
    [
        (ListStreams(), 40),
        (CreateStream(0, "mine"), 40),
        (UpdateStream("shop", "mine"), 40),
        (DeleteStream("shop"), 40),
        (PurgeStream("shop"), 41),
        (topics.ListTopics("shop"), 40),
        (make_topic("mine"), 40),
        (update("mine"), 40),
        (topics.DeleteTopic("shop", "orders"), 40),
        (topics.PurgeTopic("shop", "orders"), 40),
        (CreatePartitions("shop", "orders", 1), 40),
        (DeletePartitions("shop", "orders", 1), 40),
        (DeleteSegments("shop", "orders", 1, 1), 40),
    ],
)
def test_command_is_refused_when_nobody_or_a_user_without_permissions_asks(command: Command[Any], before_login: int) -> None:
    server = Server()
    root = server.root()
    root.ask(CreateStream(0, "shop"))
    root.ask(make_topic())
    assert server.connect().status(command) == before_login
    assert server.connect_as("guest").status(command) == 41


def test_lookup_is_answered_with_nothing_when_it_is_missing_or_not_permitted() -> None:
    server = Server()
    root = server.root()
    root.ask(CreateStream(0, "shop"))
    root.ask(make_topic())
    guest = server.connect_as("guest")
    for peer in (server.connect(), guest):
        assert [peer.ask(GetStream("shop")), peer.ask(topics.GetTopic("shop", "orders"))] == [None, None]
    assert [root.ask(GetStream(9)), root.ask(topics.GetTopic("shop", "nope")), root.ask(topics.GetTopic(9, 1))] == [None] * 3


def test_permission_comes_after_existence_when_both_are_missing() -> None:
    server = Server()
    server.root().ask(CreateStream(0, "shop"))
    reader = server.connect_as("reader", Permissions(GlobalPermissions(read_streams=True)))
    assert [reader.status(DeleteStream(9)), reader.status(DeleteStream("shop")), reader.status(ListStreams())] == [1009, 41, 0]


@pytest.mark.parametrize("name", ["a\x00b", "a\tb"])
def test_an_existing_topic_whose_name_has_control_characters_is_listed_changed_and_deleted(root: Peer, name: str) -> None:
    create_topic(root.dispatcher.broker.backing.log, NewTopic(TopicName("shop", name), 1, Limits.WIDE), 1)
    assert name in [topic.name for topic in root.ask(topics.ListTopics("shop"))]
    assert TopicName("shop", name) in [TopicName(topic.stream, topic.name) for topic in root.dispatcher.broker.topics.list()]
    root.ask(update(name, topic=2))
    root.ask(topics.DeleteTopic("shop", 2))
    assert root.ask(topics.GetTopic("shop", name)) is None


def test_topic_reports_what_the_server_settled_when_it_is_left_to_it() -> None:
    for settings, expiry, size in (
        ({}, topics.NEVER, topics.NEVER),
        ({"message_expiry_us": 60, "max_topic_bytes": 1 << 30}, 60, 1 << 30),
    ):
        root = Server(**settings).root()
        root.ask(CreateStream(0, "shop"))
        topic = root.ask(make_topic())
        assert (topic.message_expiry, topic.max_topic_size, topic.replication_factor) == (expiry, size, 1)


def test_update_replaces_all_settings_and_the_name_when_asked(root: Peer) -> None:
    root.ask(update("later", expiry=1000, size=2_000_000_000))
    topic = root.ask(topics.GetTopic("shop", "later"))
    assert topic is not None
    assert (topic.id, topic.message_expiry, topic.max_topic_size) == (1, 1000, 2_000_000_000)
    assert (topic.compression, topic.replication_factor) == (topics.Compression.GZIP, 5)
    root.ask(UpdateStream(1, "store"))
    assert root.ask(topics.GetTopic("store", "later")) == topic
    assert root.status(topics.DeleteTopic("shop", "later")) == 1010


def test_sizes_are_the_original_ones_when_batches_and_messages_are_counted(root: Peer) -> None:
    """The two cases that a suite of the original asks for: 1000 messages in a send, and 117 of 57 bytes again and again."""
    messages = encode_sent([Message(payload=f"message {number}".encode()) for number in range(1000)])
    root.ask(SendMessages("shop", "orders", Partitioning(PartitioningKind.PARTITION_ID, b"\1\0\0\0"), messages))
    first = root.ask(topics.GetTopic("shop", "orders"))
    assert first is not None
    assert (first.size_bytes, first.messages_count) == (55_914, 1000)
    assert [(part.id, part.segments_count, part.current_offset, part.messages_count) for part in first.partitions] == [
        (1, 1, 999, 1000),
        (2, 1, 0, 0),
        (3, 1, 0, 0),
    ]
    root.ask(make_topic("others"))
    for times in (1, 2):
        send(root, 117, 57, "others")
        second = root.ask(topics.GetTopic("shop", "others"))
        assert second is not None
        assert (second.size_bytes, second.messages_count) == (times * 117 * (45 + 57), times * 117)
    assert second is not None
    stream, stats = root.ask(GetStream("shop")), root.ask(GetStats())
    assert stream is not None
    assert (stream.size_bytes, stream.messages_count) == (first.size_bytes + second.size_bytes, 1234)
    assert (stats.streams_count, stats.topics_count, stats.partitions_count, stats.segments_count) == (1, 2, 6, 6)
    assert (stats.messages_count, stats.messages_size_bytes) == (1234, stream.size_bytes)


def test_purge_leaves_the_structure_when_messages_go(root: Peer) -> None:
    send(root, 3, 10)
    root.ask(topics.PurgeTopic("shop", "orders"))
    send(root, 1, 10)
    root.ask(PurgeStream("shop"))
    topic = root.ask(topics.GetTopic("shop", "orders"))
    assert topic is not None
    assert (topic.id, topic.messages_count, topic.size_bytes, len(topic.partitions)) == (1, 0, 0, 3)
