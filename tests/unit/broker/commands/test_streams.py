"""Unit tests of headstream.broker.commands.streams."""

from __future__ import annotations

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, UpdateStream
from headstream.core.wire.statuses import Status
from headstream.errors import InvalidInputError
from tests.support.server.servers import Peer
from tests.unit.broker.commands.test_topics import make_topic, update


def test_ids_are_the_smallest_free_ones_when_none_is_chosen(root: Peer) -> None:
    names = (f"stream {number}" for number in range(100))

    def create(id_: int) -> int:
        return root.ask(CreateStream(id_, next(names))).id

    assert [create(id_) for id_ in (0, 7, 0, 4, 0, 0)] == [2, 7, 3, 4, 5, 6]
    root.ask(DeleteStream(3))
    assert [create(0), create(0)] == [3, 8]
    assert [root.ask(make_topic("a", 3)).id, root.ask(make_topic("b")).id, root.ask(make_topic("c")).id] == [3, 2, 4]


@pytest.mark.parametrize("name", ["a\x00b", "a\tb", "\n", "\x7f", "a\x85"])
def test_no_protocol_gives_a_new_stream_or_topic_a_name_with_control_characters(root: Peer, name: str) -> None:
    streams, topics = root.dispatcher.broker.streams, root.dispatcher.broker.topics
    assert root.status(CreateStream(0, name)) == root.status(UpdateStream("shop", name)) == Status.INVALID_STREAM_NAME
    assert root.status(make_topic(name)) == root.status(update(name)) == Status.INVALID_TOPIC_NAME
    for change in (
        lambda: streams.create(name),
        lambda: streams.rename("shop", name),
        lambda: topics.create(NewTopic(TopicName(name, "orders"), 1, Limits.WIDE)),
        lambda: topics.create(NewTopic(TopicName("shop", name), 1, Limits.WIDE)),
        lambda: topics.rename(TopicName("shop", "orders"), name),
    ):
        with pytest.raises(InvalidInputError, match=r"control characters|NUL"):
            change()
