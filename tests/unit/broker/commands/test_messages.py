"""Sending, polling and stored offsets by their commands: what is answered, and every status by which it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.broker.commands.requests import answer_request
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.model.topology import Limits
from headstream.core.wire.commands import permissions, streams, topics
from headstream.core.wire.commands.messages import FlushMessages, PolledMessages, PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef, DeleteOffset, StoreOffset
from headstream.core.wire.extensions.messages import SetState
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.core.wire.records import Command
from headstream.core.wire.shapes import Identifier
from tests.support.server.servers import Peer, Server

ONE, GROUP = ConsumerKind.CONSUMER, ConsumerKind.GROUP
READER = ConsumerRef(ONE, 1)
FIRST, LAST, NEXT = (PollingKind.FIRST, 0), (PollingKind.LAST, 0), (PollingKind.NEXT, 0)


@pytest.fixture
def root() -> Peer:
    """A logged in client of a server with stream 1 `shop` and topics 1 `orders` of 3 partitions, 2 `empty` of none."""
    return with_topics(Server().root())


def with_topics(peer: Peer) -> Peer:
    peer.ask(streams.CreateStream(0, "shop"))
    for name, partitions in (("orders", 3), ("empty", 0)):
        peer.ask(topics.CreateTopic("shop", 0, partitions, topics.Compression.NONE, 0, 0, 0, name))
    return peer


def to(partition: int) -> Partitioning:
    return Partitioning(PartitioningKind.PARTITION_ID, partition.to_bytes(4, "little"))


def by(key: bytes) -> Partitioning:
    return Partitioning(PartitioningKind.MESSAGES_KEY, key)


def messages(*payloads: bytes) -> bytes:
    return encode_sent([Message(payload=payload) for payload in payloads])


def send(payloads: bytes, partitioning: Partitioning | None = None, topic: Identifier = "orders") -> SendMessages:
    return SendMessages("shop", topic, to(1) if partitioning is None else partitioning, payloads)


def poll(
    begin: tuple[PollingKind, int] = FIRST,
    count: int = 10,
    *,
    who: ConsumerRef = READER,
    partition: int = 1,
    commit: bool = False,
    topic: Identifier = "orders",
    stream: Identifier = "shop",
) -> PollMessages:
    return PollMessages(who, stream, topic, partition, *begin, count, commit)


def offsets(polled: PolledMessages) -> list[int | None]:
    return [message.offset for message in decode_polled(polled.messages)]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (send(b""), 4009),
        (send(messages(b"a"), topic=9), 2010),
        (send(messages(b"a"), topic="nope"), 2011),
        (SendMessages(9, 1, to(1), messages(b"a")), 1009),
        (SendMessages("nope", 1, to(1), messages(b"a")), 1010),
        (send(messages(b"a"), to(4)), 3007),
        (send(messages(b"a"), to(0)), 3007),
        (send(messages(b"a"), topic="empty"), 3008),
        (send(messages(b"a"), by(b"k"), topic="empty"), 3008),
        (send(messages(b"a"), Partitioning(PartitioningKind.BALANCED), topic="empty"), 3008),
        (send(messages(b"a")[:-1]), 3),
        (send(bytes(16) + b"\0\0\0\0" + b"\0\0\0\0"), 4024),  # a message without payload
        (send(messages(b"x" * 10_000_001)), 4022),
        (send(messages(b"x" * 10_000_000)), 0),
        (poll(count=0), 4009),
        (poll(count=0, topic=9), 4009),  # before existence
        (poll(topic=9), 2010),
        (poll(stream="nope"), 1010),
        (poll(topic="empty"), 3008),
        (poll(partition=4), 3007),
        (poll(who=ConsumerRef(GROUP, 9)), 5000),
        (poll(who=ConsumerRef(GROUP, "nope")), 5003),
        (StoreOffset(READER, "shop", "orders", 1, 1), 4100),
        (StoreOffset(READER, "shop", "orders", 4, 0), 3007),
        (StoreOffset(READER, "shop", "empty", 1, 0), 3007),
        (StoreOffset(ConsumerRef(GROUP, 9), "shop", "orders", 1, 0), 5000),
        (DeleteOffset(READER, "shop", "orders", 1), 3021),
        (DeleteOffset(READER, "shop", "nope", 1), 2011),
        (FlushMessages("shop", "orders", 1, True), 0),
        (FlushMessages("shop", "orders", 4, False), 3007),
        (FlushMessages("shop", 9, 1, False), 2010),
    ],
)
def test_command_is_answered_with_its_status_when_asked_by_root(root: Peer, command: Command[Any], status: int) -> None:
    assert root.status(command) == status


@pytest.mark.parametrize(
    "command",
    [
        send(messages(b"a")),
        poll(),
        FlushMessages("shop", "orders", 1, True),
        StoreOffset(READER, "shop", "orders", 1, 0),
        DeleteOffset(READER, "shop", "orders", 1),
    ],
)
def test_command_is_refused_when_nobody_or_a_user_without_permissions_asks(command: Command[Any]) -> None:
    server = Server()
    with_topics(server.root())
    assert [server.connect().status(command), server.connect_as("guest").status(command)] == [40, 41]
    payload = memoryview(command.encode())
    with pytest.raises(Exception, match="requires a login"):
        answer_request(server.dispatcher, server.connect().session, command.code, payload)


def test_existence_comes_before_permission_when_both_are_missing() -> None:
    server = Server()
    with_topics(server.root())
    sender = server.connect_as("sender", permissions.Permissions(permissions.GlobalPermissions(send_messages=True)))
    assert [sender.status(send(messages(b"a"))), sender.status(poll()), sender.status(poll(topic=9))] == [0, 41, 2010]


@pytest.mark.parametrize(("sizes", "status"), [([255] * 392 + [40], 0), ([255] * 392 + [41], 4017)])
def test_send_takes_100000_bytes_of_header_values_when_they_are_no_more(root: Peer, sizes: list[int], status: int) -> None:
    headers = Headers({f"key-{number}": b"v" * size for number, size in enumerate(sizes)})
    assert root.status(send(encode_sent([Message(payload=b"a", headers=headers)]))) == status


def test_balanced_sends_go_round_from_partition_1_when_a_topic_is_new(root: Peer) -> None:
    def partition() -> int:
        before = counts(root)
        root.ask(send(messages(b"a", b"b"), Partitioning(PartitioningKind.BALANCED)))
        (found,) = [number for number, (old, new) in enumerate(zip(before, counts(root), strict=True), 1) if new - old == 2]
        return found

    assert [partition() for _ in range(7)] == [1, 2, 3, 1, 2, 3, 1]
    root.ask(topics.DeleteTopic("shop", "orders"))
    root.ask(topics.CreateTopic("shop", 1, 2, topics.Compression.NONE, 0, 0, 0, "orders"))
    assert [partition() for _ in range(3)] == [1, 2, 1]


def counts(peer: Peer) -> list[int]:
    topic = peer.ask(topics.GetTopic("shop", "orders"))
    assert topic is not None
    return [partition.messages_count for partition in topic.partitions]


@pytest.mark.parametrize(
    ("key", "partition"), [(b"\1\0\0\0", 2), (b"\2\0\0\0", 3), (b"\3\0\0\0", 2), (b"key-1", 1), (b"my-consumer", 1)]
)
def test_key_chooses_the_original_partition_when_there_are_three(root: Peer, key: bytes, partition: int) -> None:
    root.ask(send(messages(b"a"), by(key)))
    assert counts(root) == [int(number == partition) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("begin", "count", "found"),
    [
        ((PollingKind.OFFSET, 3), 2, [3, 4]),
        ((PollingKind.OFFSET, 8), 10, [8, 9]),
        ((PollingKind.OFFSET, 10), 10, []),
        ((PollingKind.OFFSET, (1 << 64) - 1), 10, []),
        ((PollingKind.TIMESTAMP, 0), 3, [0, 1, 2]),
        ((PollingKind.TIMESTAMP, 1_700_000_001_000_000), 3, [5, 6, 7]),
        ((PollingKind.TIMESTAMP, (1 << 64) - 1), 3, []),
        (FIRST, 2, [0, 1]),
        (LAST, 3, [7, 8, 9]),
        (LAST, 100, list(range(10))),
        (NEXT, 2, [0, 1]),
    ],
)
def test_poll_begins_where_its_strategy_says_when_there_are_ten(
    begin: tuple[PollingKind, int], count: int, found: list[int]
) -> None:
    server = Server()
    peer = with_topics(server.root())
    for _ in range(2):
        peer.ask(send(messages(*[b"m"] * 5)))
        server.clock.now_s += 1
    polled = peer.ask(poll(begin, count))
    assert (offsets(polled), polled.partition, polled.current_offset, polled.count) == (found, 1, 9, len(found))


def test_messages_get_ids_times_and_checksums_when_they_are_stored(root: Peer) -> None:
    root.ask(send(encode_sent([Message(payload=b"a"), Message(payload=b"b", id=7, headers=Headers({"k": "v"}))])))
    one, two = decode_polled(root.ask(poll()).messages)
    assert one.id != 0
    assert (one.id.to_bytes(16, "little")[6] >> 4, two.id) == (7, 7)
    assert [message.timestamp for message in (one, two)] == [1_700_000_000_000_000] * 2
    assert (two.payload, two.headers) == (b"b", Headers({"k": "v"}))


def test_poll_steps_over_what_is_not_available_when_an_existing_client_asks() -> None:
    server = Server()
    peer = with_topics(server.root())
    peer.ask(send(messages(*[b"m"] * 6)))
    own = server.ours()
    own.ask(SetState("shop", "orders", 1, (1, 2), MessageState.POISONED.value, "why"))
    assert [offsets(peer.ask(poll(NEXT, 2, commit=True))) for _ in range(3)] == [[0, 3], [4, 5], []]


def test_wide_topic_is_refused_by_name_when_an_existing_client_asks() -> None:
    server = Server()
    own = server.ours()
    own.ask(CreateOpenTopic("shop", "orders", 1, Limits.WIDE))
    assert [server.root().status(command) for command in (send(messages(b"a")), poll())] == [5, 5]
    assert [own.status(command) for command in (send(messages(b"a")), poll())] == [0, 0]


def test_answer_of_a_poll_is_the_same_when_it_comes_in_pieces(root: Peer) -> None:
    root.ask(send(messages(*[b"x" * 1000] * 100)))
    command = poll(count=100)
    pieces = answer_request(root.dispatcher, root.session, command.code, memoryview(command.encode()))
    assert PollMessages.decode_reply(b"".join(pieces)) == root.ask(command)
    assert len(pieces) == 2
