"""What tests of commands share: clients of a server with a topic, one of which sends Headstream's own commands."""

from __future__ import annotations

import pytest

from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from tests.support.server.servers import Peer, Server
from tests.support.server.small_clients import with_topic


@pytest.fixture
def peer(server: Server) -> Peer:
    """A client of ours, of a server with a topic `shop/orders` of 2 partitions."""
    peer = server.ours()
    peer.ask(CreateOpenTopic("shop", "orders", 2))
    return peer


@pytest.fixture
def root(server: Server) -> Peer:
    """A logged in client of a server with stream 1 `shop` and topic 1 `orders` of 3 partitions."""
    return with_topic(server)
