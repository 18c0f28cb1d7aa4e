"""Unit tests of headstream.broker.commands.offsets."""

from __future__ import annotations

from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.wire.commands.offsets import ConsumerRef, DeleteOffset, GetOffset, StoredOffset, StoreOffset
from tests.support.server.servers import Peer
from tests.unit.broker.commands.test_messages import NEXT, ONE, READER, messages, offsets, poll, root, send

__all__ = ["root"]  # fixtures

NAME = TopicName("shop", "orders")


def test_offset_is_the_last_one_that_is_done_when_stored(root: Peer) -> None:
    root.ask(send(messages(*[b"m"] * 10)))
    get = GetOffset(READER, "shop", "orders", 1)
    assert root.ask(get) is None
    root.ask(StoreOffset(READER, "shop", "orders", 0, 3))  # no partition is the first
    assert root.ask(get) == StoredOffset(1, 9, 3)
    assert offsets(root.ask(poll(NEXT, 2, commit=True))) == [4, 5]
    assert root.ask(get) == StoredOffset(1, 9, 5)
    assert root.dispatcher.broker.offsets.committed(NAME, OffsetOwner.named("1")) == {1: 6}
    assert offsets(root.ask(poll(NEXT, 100, commit=True))) == [6, 7, 8, 9]
    assert offsets(root.ask(poll(NEXT, 100, commit=True))) == []
    root.ask(DeleteOffset(READER, "shop", "orders", 1))
    assert root.ask(get) is None
    assert offsets(root.ask(poll(NEXT, 1))) == [0]


def test_named_and_numbered_consumers_are_their_own_when_they_store(root: Peer) -> None:
    root.ask(send(messages(*[b"m"] * 10)))
    who = [ConsumerRef(ONE, 1), ConsumerRef(ONE, 2), ConsumerRef(ONE, "reader")]
    for number, consumer in enumerate(who):
        root.ask(StoreOffset(consumer, "shop", "orders", 1, number))
    found = [root.ask(GetOffset(consumer, "shop", "orders", 1)) for consumer in who]
    assert found == [StoredOffset(1, 9, number) for number in range(3)]


def test_storing_0_in_an_empty_partition_skips_nothing_when_messages_come(root: Peer) -> None:
    root.ask(StoreOffset(READER, "shop", "orders", 1, 0))
    assert root.ask(GetOffset(READER, "shop", "orders", 1)) == StoredOffset(1, 0, 0)
    root.ask(send(messages(b"a", b"b")))
    assert offsets(root.ask(poll(NEXT))) == [0, 1]
