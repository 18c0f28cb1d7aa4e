"""What the scenarios begin with, and how they send and poll: the names and numbers of the original suite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands import groups, offsets, streams, topics
from headstream.core.wire.commands.messages import FlushMessages, PolledMessages, PollMessages, SendMessages
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions
from headstream.core.wire.records import Command
from headstream.core.wire.shapes import Identifier
from tests.support.server.peers import Peer

STREAM = "test-stream"
TOPIC = "test-topic"
CONSUMER = offsets.ConsumerRef(ConsumerKind.CONSUMER, 1)
DATA = encode_sent([Message(payload=b"hello")])
"""A send of one message."""

GROUP = offsets.ConsumerRef(ConsumerKind.GROUP, 1)


def create_topic(
    stream: Identifier = 1, name: str = TOPIC, partitions: int = 3, *, id: int = 0, max_bytes: int = topics.SERVER_DEFAULT
) -> topics.CreateTopic:
    return topics.CreateTopic(stream, id, partitions, topics.Compression.NONE, topics.NEVER, max_bytes, 1, name)


def build(peer: Peer, partitions: int = 3) -> None:
    """Make stream 1 with topic 1."""
    peer.ask(streams.CreateStream(1, STREAM))
    peer.ask(create_topic(1, partitions=partitions, id=1))


def send(
    peer: Peer,
    messages: Iterable[Message | bytes],
    partitioning: Partitioning | None = None,
    stream: Identifier = 1,
    topic: Identifier = 1,
) -> None:
    """Send messages, or bare payloads, in one request; to partition 1 where nothing else is said."""
    data = encode_sent([message if isinstance(message, Message) else Message(payload=message) for message in messages])
    peer.ask(SendMessages(stream, topic, partitioning or Partitioning.partition(1), data))


def poll(
    peer: Peer,
    kind: PollingKind = PollingKind.OFFSET,
    value: int = 0,
    count: int = 1000,
    *,
    partition: int = 1,
    consumer: offsets.ConsumerRef = CONSUMER,
    stream: Identifier = 1,
    topic: Identifier = 1,
    auto_commit: bool = False,
) -> PolledMessages:
    """Poll partition 1 from its first offset, where nothing else is said."""
    return peer.ask(PollMessages(consumer, stream, topic, partition, kind, value, count, auto_commit))


def polled(reply: PolledMessages) -> Sequence[Message]:
    """Return the messages of a reply."""
    messages = decode_polled(reply.messages)
    assert len(messages) == reply.count
    return messages


def poll_of(
    stream: Any = 1, topic: Any = 1, partition: int = 1, count: int = 1, consumer: offsets.ConsumerRef = CONSUMER
) -> PollMessages:
    return PollMessages(consumer, stream, topic, partition, PollingKind.OFFSET, 0, count, False)


def in_a_topic(stream: Any, topic: Any) -> list[Command[Any]]:
    """Return every command that needs a topic, on that one."""
    return [
        topics.UpdateTopic(stream, topic, topics.Compression.NONE, 0, 0, 1, "renamed"),
        topics.DeleteTopic(stream, topic),
        topics.PurgeTopic(stream, topic),
        CreatePartitions(stream, topic, 1),
        DeletePartitions(stream, topic, 1),
        SendMessages(stream, topic, Partitioning.partition(1), DATA),
        poll_of(stream, topic),
        FlushMessages(stream, topic, 1, False),
        offsets.StoreOffset(CONSUMER, stream, topic, 1, 0),
        offsets.DeleteOffset(CONSUMER, stream, topic, 1),
        groups.ListGroups(stream, topic),
        groups.CreateGroup(stream, topic, 0, "group"),
        groups.DeleteGroup(stream, topic, 1),
        groups.JoinGroup(stream, topic, 1),
        groups.LeaveGroup(stream, topic, 1),
    ]


def in_a_stream(stream: Any) -> list[Command[Any]]:
    """Return every command that needs a stream, on that one."""
    own: list[Command[Any]] = [
        streams.UpdateStream(stream, "renamed"),
        streams.DeleteStream(stream),
        streams.PurgeStream(stream),
        topics.ListTopics(stream),
    ]
    return [*own, create_topic(stream, "made"), *in_a_topic(stream, 1)]
