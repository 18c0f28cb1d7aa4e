"""Names: 1 to 255 bytes, told apart by case; those of streams and topics, unlike Iggy's, without control characters."""

from __future__ import annotations

import pytest

from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands import groups, offsets, streams, topics
from tests.behaviour.conformance.scenes import create_topic, poll, polled, send
from tests.support.server.peers import RefusedError, TcpPeer

NAMES = ["x", " sp ace ", "a.b", "a/b", "../..", ".", "..", "123", "4294967296", "ü☃", "\u202e", "\xa0", "a" * 255, "é" * 127]


@pytest.mark.parametrize("name", NAMES)
def test_streams_topics_groups_and_consumers_have_any_name(root: TcpPeer, name: str) -> None:
    stream = root.ask(streams.CreateStream(0, name))
    topic = root.ask(create_topic(name, name, partitions=1))
    group = root.ask(groups.CreateGroup(name, name, 0, name))
    assert (stream.name, topic.name, group.name) == (name, name, name)
    send(root, [b"first", b"second"], stream=name, topic=name)
    root.ask(groups.JoinGroup(name, name, name))
    for kind in ConsumerKind:
        who = offsets.ConsumerRef(kind, name)
        found = polled(poll(root, PollingKind.NEXT, count=1, stream=name, topic=name, consumer=who, auto_commit=True))
        assert [message.payload for message in found] == [b"first"]
        root.ask(offsets.StoreOffset(who, name, name, 1, 1))
        stored = root.ask(offsets.GetOffset(who, name, name, 1))
        assert stored is not None
        assert stored.stored_offset == 1
        root.ask(offsets.DeleteOffset(who, name, name, 1))
    root.ask(groups.LeaveGroup(name, name, name))
    root.ask(groups.DeleteGroup(name, name, name))
    assert root.ask(groups.GetGroup(name, name, name)) is None
    assert root.ask(topics.GetTopic(name, name)) is not None
    root.ask(streams.DeleteStream(name))
    assert root.ask(streams.GetStream(name)) is None


@pytest.mark.parametrize("name", ["\0", "\n", "a\0b", "\x7f"])
def test_streams_and_topics_have_no_control_characters_but_groups_may(root: TcpPeer, name: str) -> None:
    root.ask(streams.CreateStream(0, "s"))
    root.ask(create_topic("s", "t", partitions=1))
    with pytest.raises(RefusedError):
        root.ask(streams.CreateStream(0, name))
    with pytest.raises(RefusedError):
        root.ask(create_topic("s", name, partitions=1))
    assert root.ask(groups.CreateGroup("s", "t", 0, name)).name == name


def test_names_are_told_apart_by_case(root: TcpPeer) -> None:
    for number, name in enumerate(["a", "A"], 1):
        assert root.ask(streams.CreateStream(0, name)).id == number
        assert root.ask(create_topic("a", name, partitions=1)).id == number
        assert root.ask(groups.CreateGroup("a", "a", 0, name)).id == number
        root.ask(offsets.StoreOffset(offsets.ConsumerRef(ConsumerKind.GROUP, name), "a", "a", 1, 0))
    root.ask(groups.DeleteGroup("a", "a", "A"))
    assert root.ask(offsets.GetOffset(offsets.ConsumerRef(ConsumerKind.GROUP, "a"), "a", "a", 1)) is not None
