"""The original suite's matrix of polls: by offset and by time, across batches of several sizes, whole in all parts."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import pytest
import xxhash

from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import PollingKind
from headstream.core.wire.commands.offsets import StoreOffset
from tests.behaviour.conformance.scenes import CONSUMER, build, poll, polled, send
from tests.support.server.peers import Peer, TcpPeer

BATCHES = (3, 4, 5, 6, 7)
COUNT = sum(BATCHES)


def make_message(number: int, size: int) -> Message:
    headers = Headers(
        {"number": HeaderValue(HeaderKind.UINT64, struct.pack("<Q", number)), "text": HeaderValue(HeaderKind.STRING, b"v")}
    )
    return Message(payload=b"%d." % number + b"x" * size, id=number + 1, headers=headers)


def batches(size: int) -> Iterator[Sequence[Message]]:
    begin = 0
    for count in BATCHES:
        yield [make_message(number, size) for number in range(begin, begin + count)]
        begin += count


def numbers(messages: Sequence[Message]) -> list[int]:
    """Return which messages those are, having checked that nothing of them has changed."""
    found = []
    for message in messages:
        number = message.id - 1
        sent = make_message(number, len(message.payload or b"") - len(b"%d." % number))
        assert (message.payload, message.headers.as_bytes()) == (sent.payload, sent.headers.as_bytes())
        assert message.offset == number
        found.append(number)
    return found


@pytest.mark.parametrize("size", [50, 1000, 20_000])
def test_polls_by_offset_find_messages_across_batches(root: TcpPeer, size: int) -> None:
    build(root, partitions=1)
    for batch in batches(size):
        send(root, batch)
    everything = list(range(COUNT))
    for value, count in ((0, COUNT), (0, 3), (4, 8), (12, COUNT), (COUNT - 1, 10), (COUNT, 10), (COUNT + 5, 10), (1 << 63, 1)):
        reply = poll(root, value=value, count=count)
        assert numbers(polled(reply)) == everything[value : value + count]
        assert reply.current_offset == COUNT - 1
    assert numbers(polled(poll(root, PollingKind.FIRST, count=3))) == [0, 1, 2]
    assert numbers(polled(poll(root, PollingKind.LAST, count=3))) == everything[-3:]
    assert numbers(polled(poll(root, PollingKind.LAST, count=1000))) == everything


@pytest.mark.parametrize("size", [50, 1000, 20_000])
def test_polls_by_time_find_the_first_message_not_older(root: TcpPeer, size: int) -> None:
    build(root, partitions=1)
    for batch in batches(size):
        send(root, batch)
    messages = polled(poll(root))
    times = [message.timestamp or 0 for message in messages]
    assert times == sorted(times)
    for value in (0, times[0], times[12], times[12] + 1, times[-1], times[-1] + 1, (1 << 64) - 1):
        expected = [number for number, time in enumerate(times) if time >= value]
        assert numbers(polled(poll(root, PollingKind.TIMESTAMP, value))) == expected
        assert numbers(polled(poll(root, PollingKind.TIMESTAMP, value, 8))) == expected[:8]


def test_poll_next_continues_behind_the_stored_offset_to_the_end(peer: Peer) -> None:
    build(peer, partitions=1)
    for batch in batches(50):
        send(peer, batch)
    assert numbers(polled(poll(peer, PollingKind.NEXT, count=4))) == [0, 1, 2, 3]
    assert numbers(polled(poll(peer, PollingKind.NEXT, count=4))) == [0, 1, 2, 3]
    taken = [numbers(polled(poll(peer, PollingKind.NEXT, count=10, auto_commit=True))) for _ in range(4)]
    assert taken == [list(range(10)), list(range(10, 20)), list(range(20, 25)), []]
    peer.ask(StoreOffset(CONSUMER, 1, 1, 1, COUNT - 1))
    assert poll(peer, PollingKind.NEXT).count == 0
    peer.ask(StoreOffset(CONSUMER, 1, 1, 1, 7))
    assert numbers(polled(poll(peer, PollingKind.NEXT, count=2))) == [8, 9]


def test_keys_choose_partitions_by_the_hash_that_clients_share(peer: Peer) -> None:
    build(peer)
    keys = [struct.pack("<I", number) for number in (1, 2, 3)] + [b"key-1", b"my-consumer", b"\xff", b"k" * 255]
    for key in keys:
        send(peer, [key], Partitioning.key(key))
    expected: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    for key in keys:
        expected[xxhash.xxh32_intdigest(key) % 3 or 3].append(key)
    assert expected[2][:2] == [keys[0], keys[2]]
    for partition, payloads in expected.items():
        assert [message.payload for message in polled(poll(peer, partition=partition))] == payloads


def test_a_number_says_the_partition_of_a_whole_send(peer: Peer) -> None:
    build(peer)
    send(peer, [b"a", b"b", b"c"], Partitioning.partition(3))
    assert [poll(peer, partition=number).count for number in (1, 2, 3)] == [0, 0, 3]
