"""What there is: whoever has no right to a stream or topic gets the same answer whether there is one or not."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.broker.commands.messages import begin_wait
from headstream.broker.commands.requests import answer_request
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message, MessageState
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands import messages, offsets, streams, topics
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.extensions.messages import AppendMessages, FetchMessages, SetState
from headstream.core.wire.refusals import status_of
from headstream.core.wire.shapes import Identifier
from headstream.errors import HeadstreamError
from tests.support.server.servers import Peer, Server

ONE = encode_sent([Message(payload=b"one")])
CONSUMER = offsets.ConsumerRef(ConsumerKind.CONSUMER, 1)
PLACES: list[tuple[Identifier, Identifier]] = [
    *(("shop", topic) for topic in ("orders", "nothing", 1, 77)),
    *((stream, "orders") for stream in ("nothing", 77)),
]


@pytest.fixture
def shop(server: Server) -> Peer:
    root = server.root()
    root.ask(streams.CreateStream(0, "shop"))
    for name in ("orders", "bills"):
        root.ask(topics.CreateTopic("shop", 0, 1, topics.Compression.NONE, 0, 0, 0, name))
    root.session.is_extended = True
    return root


def refusal_of(peer: Peer, command: Any) -> tuple[int, str]:
    """Return the status and the text by which a command, arrived as bytes, is refused."""
    code = type(command).code
    peer.session.is_extended = True
    with pytest.raises(HeadstreamError) as caught:
        answer_request(peer.dispatcher, peer.session, code, memoryview(command.encode()))
    return status_of(caught.value), str(caught.value)


def commands_on(stream: Identifier, topic: Identifier) -> list[Any]:
    fetch = FetchMessages(stream, topic, 1, PollingKind.OFFSET, 0, 1)
    return [
        messages.SendMessages(stream, topic, Partitioning(PartitioningKind.BALANCED), ONE),
        messages.PollMessages(CONSUMER, stream, topic, 1, PollingKind.OFFSET, 0, 1, False),
        messages.FlushMessages(stream, topic, 1, False),
        offsets.StoreOffset(CONSUMER, stream, topic, 1, 0),
        topics.DeleteTopic(stream, topic),
        topics.PurgeTopic(stream, topic),
        AppendMessages(stream, topic, 1, ONE),
        fetch,
        SetState(stream, topic, 1, (0,), MessageState.POISONED),
    ]


@pytest.mark.parametrize(
    "permissions",
    [
        None,
        Permissions(GlobalPermissions(manage_servers=True, manage_users=True)),
        Permissions(streams={1: StreamPermissions(topics={2: TopicPermissions(manage_topic=True)})}),
        Permissions(streams={9: StreamPermissions(manage_topics=True)}),
    ],
)
def test_refusals_are_the_same_when_a_place_is_missing_and_when_it_is_not_the_users(
    server: Server, shop: Peer, permissions: Permissions | None
) -> None:
    guest = server.connect_as("guest", permissions)
    for number, command in enumerate(commands_on(*PLACES[0])):
        there = refusal_of(guest, command)
        assert there[0] == 41
        assert [refusal_of(guest, commands_on(*place)[number]) for place in PLACES[1:]] == [there] * (len(PLACES) - 1)
    assert refusal_of(guest, streams.DeleteStream("shop")) == refusal_of(guest, streams.DeleteStream("nothing"))
    assert refusal_of(guest, topics.ListTopics("shop")) == refusal_of(guest, topics.ListTopics("nothing"))


def test_waits_are_refused_alike_when_a_place_is_missing_and_when_it_is_not_the_users(server: Server, shop: Peer) -> None:
    guest = server.connect_as("guest")
    guest.session.is_extended = True
    refused = []
    for stream, topic in PLACES:
        with pytest.raises(HeadstreamError) as caught:
            begin_wait(server.dispatcher, guest.session, FetchMessages(stream, topic, 1, PollingKind.OFFSET, 0, 1), lambda: None)
        refused.append((status_of(caught.value), str(caught.value)))
    assert refused == [refused[0]] * len(PLACES)


def test_missing_places_are_named_when_the_user_may_know_what_there_is(server: Server, shop: Peer) -> None:
    sender = server.connect_as("sender", Permissions(streams={1: StreamPermissions(send_messages=True)}))
    assert [refusal_of(sender, commands_on("shop", topic)[0])[0] for topic in ("nothing", 77)] == [2011, 2010]
    assert refusal_of(sender, commands_on("nothing", "orders")[0])[0] == 41
    assert "is not allowed to poll" in refusal_of(sender, commands_on("shop", "orders")[1])[1]  # it knows of the topic
    everywhere = server.connect_as("everywhere", Permissions(GlobalPermissions(poll_messages=True)))
    assert [refusal_of(everywhere, commands_on(*place)[0])[0] for place in PLACES] == [41, 2011, 41, 2010, 1010, 1009]
    assert refusal_of(shop, commands_on("shop", "nothing")[0])[0] == 2011
