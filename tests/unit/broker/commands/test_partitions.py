"""Unit tests of headstream.broker.commands.partitions."""

from __future__ import annotations

from headstream.broker.broker import Broker
from headstream.core.model.identifiers import TopicName
from headstream.core.wire.commands import partitions, streams, topics
from headstream.log.opening import open_memory
from tests.support.server.servers import Peer, Server
from tests.unit.broker.commands.test_topics import make_topic, send


def test_topic_may_have_no_partitions_when_made_over_the_protocol(root: Peer) -> None:
    assert root.ask(make_topic("empty", partitions=0)).partitions == ()
    assert root.dispatcher.broker.topics.get(TopicName("shop", "empty")).partitions == ()


def test_delete_segments_drops_closed_ones_alone_when_there_are_some() -> None:
    server = Server()
    server.broker.close()
    server.broker = Broker(open_memory(segment_bytes=4096), clock_us=server.clock.now_us, monotonic=server.clock.monotonic)
    dispatcher = type(server.dispatcher)(server.broker, server.dispatcher.settings, server.dispatcher._handlers)
    root = Peer(dispatcher, dispatcher.sessions.open("127.0.0.1:1")).log_in()
    root.ask(streams.CreateStream(0, "shop"))
    root.ask(make_topic())
    for _ in range(4):
        send(root, 1, 4000)
    for count, left in ((1, 3), (100, 1), (100, 1)):
        root.ask(partitions.DeleteSegments("shop", "orders", 1, count))
        topic = root.ask(topics.GetTopic("shop", "orders"))
        assert topic is not None
        assert (topic.partitions[0].segments_count, topic.partitions[0].current_offset) == (left, 3)
