"""What the original's benchmark tool asks of a server: its ids and names, full batches, and several actors at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands.groups import CreateGroup, JoinGroup
from headstream.core.wire.commands.messages import FlushMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.streams import CreateStream, ListStreams
from headstream.core.wire.commands.system import GetStats
from headstream.core.wire.commands.topics import NEVER, Compression, CreateTopic
from tests.behaviour.conformance.scenes import build, poll, polled, send
from tests.support.server.peers import TcpPeer
from tests.support.waiting import run_together

Connect = Callable[..., TcpPeer]

STREAMS = range(3_000_001, 3_000_005)
BATCHES = 10
BATCH = 100
PAYLOAD = (b"abcdefghijklmnopqrstuvwxyz" * 4)[:100]


def prepare(peer: TcpPeer, partitions: int, streams: range = STREAMS) -> None:
    listed = {stream.id for stream in peer.ask(ListStreams())}
    for stream in streams:
        assert stream not in listed
        assert peer.ask(CreateStream(stream, f"stream {stream}")).id == stream
        assert peer.ask(CreateTopic(stream, 0, partitions, Compression.NONE, NEVER, NEVER, 1, "topic 1")).id == 1


def run_all(*actors: Callable[[], None]) -> None:
    """Run actors side by side, and raise what the first of them raised."""
    errors: list[BaseException] = []

    def act(actor: Callable[[], None]) -> None:
        try:
            actor()
        except BaseException as error:
            errors.append(error)

    run_together(*(partial(act, actor) for actor in actors))
    if errors:
        raise errors[0]


def test_pinned_producers_and_consumers_get_full_batches(root: TcpPeer, connect: Connect) -> None:
    prepare(root, partitions=1)

    def produce(peer: TcpPeer, stream: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(BATCHES):
                send(peer, [PAYLOAD] * BATCH, Partitioning.partition(1), stream)

        return run

    def consume(peer: TcpPeer, stream: int, consumer: int) -> Callable[[], None]:
        def run() -> None:
            reader = ConsumerRef(ConsumerKind.CONSUMER, consumer)
            for batch in range(BATCHES):
                reply = poll(peer, PollingKind.OFFSET, batch * BATCH, BATCH, consumer=reader, stream=stream)
                assert reply.count == BATCH

        return run

    peers = [connect("iggy", "iggy") for _ in STREAMS]
    run_all(*(produce(peer, stream) for peer, stream in zip(peers, STREAMS, strict=True)))
    stats = root.ask(GetStats())
    assert stats.messages_count == len(STREAMS) * BATCHES * BATCH
    written = 24 * len(STREAMS)  # the original counts the head of what it writes after each 1000 messages of a partition
    assert stats.messages_size_bytes == stats.messages_count * (45 + len(PAYLOAD)) + written
    run_all(*(consume(peer, stream, number) for number, (peer, stream) in enumerate(zip(peers, STREAMS, strict=True), 1)))
    for stream in STREAMS:
        root.ask(FlushMessages(stream, 1, 1, True))


def test_a_balanced_consumer_group_gets_every_batch_whole_while_it_is_produced(root: TcpPeer, connect: Connect) -> None:
    streams, producers, consumers = range(3_000_001, 3_000_002), 3, 2
    prepare(root, 6, streams)
    [stream] = streams
    assert root.ask(CreateGroup(stream, 1, 1, "cg-1")).id == 1
    group = ConsumerRef(ConsumerKind.GROUP, 1)
    share = producers * BATCHES // consumers  # each has half of the partitions, and each partition as many batches
    members = [connect("iggy", "iggy") for _ in range(consumers)]
    for member in members:
        member.ask(JoinGroup(stream, 1, 1))

    def produce(peer: TcpPeer) -> Callable[[], None]:
        def run() -> None:
            for _ in range(BATCHES):
                send(peer, [PAYLOAD] * BATCH, Partitioning.balanced(), stream)

        return run

    def consume(peer: TcpPeer) -> Callable[[], None]:
        def run() -> None:
            for _ in range(share):
                count = 0
                while not count:
                    count = poll(
                        peer, PollingKind.NEXT, 0, BATCH, partition=0, consumer=group, stream=stream, auto_commit=True
                    ).count
                assert count == BATCH

        return run

    run_all(*(produce(connect("iggy", "iggy")) for _ in range(producers)), *map(consume, members))


def test_sends_to_one_partition_stay_together_and_are_seen_whole(root: TcpPeer, connect: Connect) -> None:
    build(root, partitions=1)
    writers, batches, size = 4, 50, 7

    def write(peer: TcpPeer, writer: int) -> Callable[[], None]:
        def run() -> None:
            for batch in range(batches):
                send(peer, [Message(payload=b"%d.%d.%d" % (writer, batch, number)) for number in range(size)])

        return run

    found: list[tuple[int, ...]] = []

    def read(peer: TcpPeer) -> Callable[[], None]:
        def run() -> None:
            while len(found) < writers * batches * size:
                messages = polled(poll(peer, PollingKind.NEXT, count=100_000, auto_commit=True))
                assert len(messages) % size == 0
                assert [message.offset for message in messages] == list(range(len(found), len(found) + len(messages)))
                found.extend(tuple(map(int, (message.payload or b"").split(b"."))) for message in messages)

        return run

    run_all(read(root), *(write(connect("iggy", "iggy"), writer) for writer in range(writers)))
    sends = [found[begin : begin + size] for begin in range(0, len(found), size)]
    assert all(each == [(*each[0][:2], number) for number in range(size)] for each in sends)
    for writer in range(writers):
        assert [each[0][1] for each in sends if each[0][0] == writer] == list(range(batches))
    assert Counter(each[0][:2] for each in sends).most_common(1)[0][1] == 1
