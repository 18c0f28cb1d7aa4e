"""The original suite's system scenario: what one client sees of streams, topics, messages, offsets, groups and statistics."""

from __future__ import annotations

import io
import time
import zipfile

import pytest

from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import PollingKind
from headstream.core.wire.commands import system
from headstream.core.wire.commands.groups import CreateGroup, DeleteGroup, GetGroup, JoinGroup, LeaveGroup, ListGroups
from headstream.core.wire.commands.offsets import DeleteOffset, GetOffset, StoreOffset
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions
from headstream.core.wire.commands.sessions import Ping
from headstream.core.wire.commands.streams import CreateStream, GetStream, ListStreams, StreamDetails
from headstream.core.wire.commands.topics import NEVER, Compression, GetTopic, ListTopics, PurgeTopic, TopicDetails, UpdateTopic
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import CONSUMER, STREAM, TOPIC, build, create_topic, poll, polled, send
from tests.support.server.peers import Peer, TcpPeer, refused

PAYLOADS = [b"message %d" % number for number in range(1000)]
BARE_BYTES = sum(45 + len(payload) for payload in PAYLOADS)
"""What a message counts: 45 bytes and its own."""


def stream_of(peer: Peer, name: int | str = 1) -> StreamDetails:
    found = peer.ask(GetStream(name))
    assert found is not None
    return found


def topic_of(peer: Peer, name: int | str = 1) -> TopicDetails:
    found = peer.ask(GetTopic(1, name))
    assert found is not None
    return found


def test_a_ping_needs_no_login(guest: Peer) -> None:
    guest.ask(Ping())


def test_a_stream_is_made_listed_and_found_by_id_and_name(peer: Peer) -> None:
    assert peer.ask(ListStreams()) == ()
    made = peer.ask(CreateStream(1, STREAM))
    assert (made.id, made.name, made.topics) == (1, STREAM, ())
    [listed] = peer.ask(ListStreams())
    assert (listed.id, listed.name, listed.topics_count, listed.size_bytes, listed.messages_count) == (1, STREAM, 0, 0, 0)
    assert 0 < listed.created_us <= time.time_ns() // 1000
    assert stream_of(peer, 1) == stream_of(peer, STREAM) == made


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (CreateStream(1, "other"), Status.STREAM_ID_ALREADY_EXISTS),
        (CreateStream(2, STREAM), Status.STREAM_NAME_ALREADY_EXISTS),
        (CreateStream(1, STREAM), Status.STREAM_NAME_ALREADY_EXISTS),
        (create_topic(1, "other", id=1), Status.TOPIC_ID_ALREADY_EXISTS),
        (create_topic(1, TOPIC, id=2), Status.TOPIC_NAME_ALREADY_EXISTS),
        (create_topic(1, TOPIC, id=1), Status.TOPIC_NAME_ALREADY_EXISTS),
    ],
)
def test_an_id_or_a_name_in_use_is_refused(peer: Peer, command: CreateStream, status: Status) -> None:
    build(peer)
    assert refused(peer, command) == status


def test_a_topic_is_made_listed_and_found_by_id_and_name(peer: Peer) -> None:
    peer.ask(CreateStream(1, STREAM))
    made = peer.ask(create_topic(1, id=1))
    assert (made.id, made.name) == (1, TOPIC)
    [listed] = peer.ask(ListTopics(1))
    assert (listed.partitions_count, listed.compression, listed.size_bytes, listed.messages_count) == (3, Compression.NONE, 0, 0)
    assert (listed.message_expiry, listed.max_topic_size, listed.replication_factor) == (NEVER, NEVER, 1)
    details = topic_of(peer)
    assert details == topic_of(peer, TOPIC) == made
    assert [partition.id for partition in details.partitions] == [1, 2, 3]
    for partition in details.partitions:
        assert (partition.segments_count, partition.size_bytes, partition.current_offset, partition.messages_count) == (
            1,
            0,
            0,
            0,
        )
        assert partition.created_us > 0
    assert [topic.id for topic in stream_of(peer).topics] == [1]
    assert stream_of(peer).topics_count == 1


def test_sent_messages_are_polled_at_once_and_in_batches_and_counted(peer: Peer) -> None:
    build(peer)
    send(peer, PAYLOADS)
    reply = poll(peer)
    assert (reply.partition, reply.current_offset, reply.count) == (1, 999, 1000)
    messages = polled(reply)
    assert [message.payload for message in messages] == PAYLOADS
    assert [message.offset for message in messages] == list(range(1000))
    assert all(message.timestamp and message.id and message.verify() for message in messages)
    assert len({message.id for message in messages}) == 1000
    batches = [polled(poll(peer, value=100 * number, count=100)) for number in range(10)]
    assert [message for batch in batches for message in batch] == messages
    topic = topic_of(peer)
    assert topic.messages_count == 1000
    assert topic.size_bytes == BARE_BYTES + 24 == 55_914  # the original writes after 1000 messages, with a head of 24 bytes
    first, second, _ = topic.partitions
    assert (first.segments_count, first.current_offset, first.messages_count) == (1, 999, 1000)
    assert first.size_bytes == topic.size_bytes
    assert (second.size_bytes, second.current_offset, second.messages_count) == (0, 0, 0)
    assert (poll(peer, partition=2).count, poll(peer, partition=2).current_offset) == (0, 0)
    assert stream_of(peer).size_bytes == topic.size_bytes


def test_an_offset_is_stored_found_deleted_and_moved_by_a_poll_that_commits(peer: Peer) -> None:
    build(peer)
    send(peer, PAYLOADS)
    where = (CONSUMER, 1, 1, 1)
    assert peer.ask(GetOffset(*where)) is None
    peer.ask(StoreOffset(*where, 10))
    found = peer.ask(GetOffset(*where))
    assert found is not None
    assert (found.partition, found.current_offset, found.stored_offset) == (1, 999, 10)
    peer.ask(DeleteOffset(*where))
    assert peer.ask(GetOffset(*where)) is None
    assert refused(peer, DeleteOffset(*where)) == Status.CONSUMER_OFFSET_NOT_FOUND
    peer.ask(StoreOffset(*where, 10))
    taken = polled(poll(peer, PollingKind.NEXT, count=10, auto_commit=True))
    assert [message.offset for message in taken] == list(range(11, 21))
    found = peer.ask(GetOffset(*where))
    assert found is not None
    assert found.stored_offset == 20


def test_an_offset_past_the_newest_message_is_refused(peer: Peer) -> None:
    build(peer)
    send(peer, PAYLOADS[:3])
    assert refused(peer, StoreOffset(CONSUMER, 1, 1, 1, 3)) == Status.INVALID_OFFSET
    assert refused(peer, StoreOffset(CONSUMER, 1, 1, 1, 2)) == 0


def test_a_group_is_made_listed_found_and_deleted(peer: Peer) -> None:
    build(peer)
    assert peer.ask(ListGroups(1, 1)) == ()
    made = peer.ask(CreateGroup(1, 1, 1, "test-consumer-group"))
    assert (made.id, made.name, made.members) == (1, "test-consumer-group", ())
    [listed] = peer.ask(ListGroups(1, 1))
    assert (listed.id, listed.partitions_count, listed.members_count) == (1, 3, 0)
    assert peer.ask(GetGroup(1, 1, 1)) == peer.ask(GetGroup(1, 1, "test-consumer-group")) == made
    assert refused(peer, CreateGroup(1, 1, 1, "other")) == Status.CONSUMER_GROUP_ID_ALREADY_EXISTS
    assert refused(peer, CreateGroup(1, 1, 2, "test-consumer-group")) == Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS
    peer.ask(DeleteGroup(1, 1, 1))
    assert peer.ask(ListGroups(1, 1)) == ()
    assert peer.ask(GetGroup(1, 1, 1)) is None


def test_a_client_joins_and_leaves_a_group(root: TcpPeer) -> None:
    build(root)
    root.ask(CreateGroup(1, 1, 1, "test-consumer-group"))
    root.ask(JoinGroup(1, 1, 1))
    group = root.ask(GetGroup(1, 1, 1))
    assert group is not None
    assert [(len(member.partitions), member.id) for member in group.members] == [(3, root.ask(system.GetMe()).client_id)]
    assert root.ask(system.GetMe()).groups == (system.ClientGroup(1, 1, 1),)
    root.ask(LeaveGroup(1, 1, 1))
    group = root.ask(GetGroup(1, 1, 1))
    assert group is not None
    assert (group.members_count, group.members) == (0, ())
    assert root.ask(system.GetMe()).groups == ()


def test_statistics_tell_what_there_is(peer: Peer) -> None:
    build(peer)
    send(peer, PAYLOADS)
    stats = peer.ask(system.GetStats())
    assert (stats.streams_count, stats.topics_count, stats.partitions_count, stats.segments_count) == (1, 1, 3, 3)
    assert (stats.messages_count, stats.messages_size_bytes) == (1000, topic_of(peer).size_bytes)
    assert all((stats.hostname, stats.os_name, stats.os_version, stats.kernel_version, stats.server_version))
    assert stats.server_version.startswith("0.4.")
    assert stats.server_semver >= 4000
    assert stats.process_id > 0
    assert 0 < stats.memory_bytes < stats.total_memory_bytes
    assert stats.start_time_us + stats.run_time_us <= time.time_ns() // 1000 + 1_000_000


def test_partitions_are_added_and_the_highest_ones_deleted(peer: Peer) -> None:
    build(peer)
    peer.ask(CreatePartitions(1, 1, 3))
    assert [partition.id for partition in topic_of(peer).partitions] == [1, 2, 3, 4, 5, 6]
    peer.ask(DeletePartitions(1, 1, 3))
    assert [partition.id for partition in topic_of(peer).partitions] == [1, 2, 3]
    peer.ask(DeletePartitions(1, 1, 100))
    assert topic_of(peer).partitions == ()
    peer.ask(CreatePartitions(1, 1, 1))
    assert [partition.id for partition in topic_of(peer).partitions] == [1]
    for status in (
        refused(peer, create_topic(1, "wide", partitions=1001)),
        refused(peer, CreatePartitions(1, 1, 0)),
        refused(peer, DeletePartitions(1, 1, 1001)),
    ):
        assert status == Status.TOO_MANY_PARTITIONS


def test_a_topic_gets_other_settings(peer: Peer) -> None:
    build(peer)
    peer.ask(UpdateTopic(1, 1, Compression.GZIP, 1000, 2_000_000_000, 5, "new-topic"))
    topic = topic_of(peer, "new-topic")
    assert topic.id == 1
    assert (topic.compression, topic.message_expiry, topic.max_topic_size) == (Compression.GZIP, 1000, 2_000_000_000)
    assert topic.replication_factor == 5
    assert peer.ask(GetTopic(1, TOPIC)) is None


def test_a_purged_topic_begins_anew(peer: Peer) -> None:
    build(peer)
    send(peer, PAYLOADS)
    peer.ask(StoreOffset(CONSUMER, 1, 1, 1, 10))
    peer.ask(PurgeTopic(1, 1))
    reply = poll(peer)
    assert (reply.current_offset, reply.count) == (0, 0)
    assert (topic_of(peer).messages_count, topic_of(peer).size_bytes) == (0, 0)
    assert peer.ask(GetOffset(CONSUMER, 1, 1, 1)) is None
    send(peer, [b"again"])
    assert [(message.offset, message.payload) for message in polled(poll(peer))] == [(0, b"again")]


def test_clients_that_are_connected_are_listed_and_those_over_http_are_not(peer: Peer, root: TcpPeer) -> None:
    me = root.ask(system.GetMe())
    listed = {client.client_id: client for client in peer.ask(system.ListClients())}
    assert len(listed) == 1
    assert (listed[me.client_id].user_id, listed[me.client_id].address) == (1, me.address)
    assert me.address == "{}:{}".format(*root.socket.getsockname())
    with TcpPeer(root.socket.getpeername()) as other:
        other.login()
        assert [client.client_id for client in peer.ask(system.ListClients())] == sorted(
            [me.client_id, other.ask(system.GetMe()).client_id]
        )


def test_balanced_sends_of_one_message_go_to_all_partitions_in_turn(peer: Peer) -> None:
    build(peer)
    for number in range(30):
        send(peer, [b"%d" % number], Partitioning.balanced())
    for partition in (1, 2, 3):
        payloads = [message.payload for message in polled(poll(peer, partition=partition))]
        assert payloads == [b"%d" % number for number in range(partition - 1, 30, 3)]


def test_a_snapshot_of_a_test_holds_a_text(peer: Peer) -> None:
    archive = peer.ask(system.Snapshot(system.SnapshotCompression.DEFLATED, (system.SnapshotType.TEST,)))
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {"test.txt": b"test\n"}
