"""The original suite's cases about segments: polls across many of them, closed ones deleted, all of it there after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.polling import PollingKind
from headstream.core.wire.commands import offsets, partitions, topics
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import CONSUMER, build, create_topic, poll, polled, send
from tests.support.server.peers import TcpPeer, refused
from tests.support.server.server_process import ServerProcess

SMALL = {"IGGY_SYSTEM_SEGMENT_SIZE": "4096"}
COUNT = 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose segments are as small as they can be."""
    with ServerProcess(tmp_path_factory.mktemp("server"), environ=SMALL) as server:
        yield server
        assert server.stop() == 0, server.output


def make_message(number: int) -> Message:
    headers = Headers({"number": HeaderValue(HeaderKind.UINT32, number.to_bytes(4, "little"))})
    return Message(payload=b"%d." % number + b"x" * (number % 7 * 100), id=number + 1, headers=headers)


def fill(peer: TcpPeer) -> None:
    """Send messages in batches of 1 to 7: a few dozen segments."""
    build(peer, partitions=1)
    begin = 0
    while begin < COUNT:
        end = min(begin + 1 + begin % 7, COUNT)
        send(peer, [make_message(number) for number in range(begin, end)])
        begin = end


def partition(peer: TcpPeer) -> topics.PartitionInfo:
    topic = peer.ask(topics.GetTopic(1, 1))
    assert topic is not None
    return topic.partitions[0]


def check_whole(messages: Sequence[Message], numbers: range) -> None:
    assert [message.offset for message in messages] == list(numbers)
    for message, number in zip(messages, numbers, strict=True):
        sent = make_message(number)
        assert (message.payload, message.id, message.headers) == (sent.payload, sent.id, sent.headers)


def test_polls_go_across_segments(root: TcpPeer) -> None:
    fill(root)
    assert partition(root).segments_count > 10
    check_whole(polled(poll(root)), range(COUNT))
    for begin in range(0, COUNT, 13):
        check_whole(polled(poll(root, value=begin, count=40)), range(begin, min(begin + 40, COUNT)))
    check_whole(polled(poll(root, PollingKind.LAST, count=30)), range(COUNT - 30, COUNT))
    times = [message.timestamp or 0 for message in polled(poll(root))]
    for number in range(0, COUNT, 29):
        first = times.index(times[number])
        check_whole(polled(poll(root, PollingKind.TIMESTAMP, times[number], 20)), range(first, min(first + 20, COUNT)))
    for begin in range(0, COUNT, 50):
        check_whole(polled(poll(root, PollingKind.NEXT, count=50, auto_commit=True)), range(begin, begin + 50))


def test_the_oldest_closed_segments_are_deleted_and_the_one_that_is_written_stays(root: TcpPeer) -> None:
    fill(root)
    before = partition(root)
    for _ in range(3):  # files are open from here on, and messages in memory
        check_whole(polled(poll(root, count=5)), range(5))
    root.ask(partitions.DeleteSegments(1, 1, 1, 2))
    again = polled(poll(root, count=5))
    after = partition(root)
    assert after.segments_count == before.segments_count - 2
    assert after.current_offset == before.current_offset == COUNT - 1
    assert (after.size_bytes, after.messages_count) < (before.size_bytes, before.messages_count)
    [oldest] = polled(poll(root, PollingKind.FIRST, count=1))
    first = oldest.offset or 0
    assert first > 0
    check_whole(again, range(first, first + 5))
    assert after.messages_count == COUNT - first
    for kind in (PollingKind.FIRST, PollingKind.NEXT, PollingKind.TIMESTAMP, PollingKind.OFFSET):
        check_whole(polled(poll(root, kind)), range(first, COUNT))
    root.ask(offsets.StoreOffset(CONSUMER, 1, 1, 1, 0))
    check_whole(polled(poll(root, PollingKind.NEXT, count=5)), range(first, first + 5))
    root.ask(partitions.DeleteSegments(1, 1, 1, 100_000))
    assert partition(root).segments_count == 1
    root.ask(partitions.DeleteSegments(1, 1, 1, 1))
    assert partition(root).segments_count == 1
    send(root, [make_message(COUNT)])
    [newest] = polled(poll(root, PollingKind.LAST, count=1))
    assert newest.offset == COUNT
    assert refused(root, partitions.DeleteSegments(1, 1, 1, 0)) == Status.INVALID_SEGMENTS_COUNT
    assert refused(root, partitions.DeleteSegments(1, 1, 9, 1)) == Status.PARTITION_NOT_FOUND


def test_a_topic_holds_a_segment_at_least(root: TcpPeer) -> None:
    build(root)
    assert refused(root, create_topic(1, "small", max_bytes=4095)) == Status.INVALID_TOPIC_SIZE
    assert refused(root, create_topic(1, "enough", max_bytes=4096)) == 0


def test_segments_are_there_again_after_a_kill(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "log", environ=SMALL) as server:
        with TcpPeer(server.tcp) as peer:
            peer.login()
            fill(peer)
            before = partition(peer)
        server.kill()
        with server.again() as again, TcpPeer(again.tcp) as peer:
            peer.login()
            assert partition(peer) == before
            check_whole(polled(poll(peer)), range(COUNT))
            send(peer, [make_message(COUNT)])
            check_whole(polled(poll(peer, PollingKind.LAST, count=2)), range(COUNT - 1, COUNT + 1))
