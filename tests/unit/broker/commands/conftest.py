"""What tests of commands share: a client that sends Headstream's own commands."""

from __future__ import annotations

import pytest

from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from tests.support.server.servers import Peer, Server


@pytest.fixture
def peer(server: Server) -> Peer:
    """A client of ours, of a server with a topic `shop/orders` of 2 partitions."""
    peer = server.ours()
    peer.ask(CreateOpenTopic("shop", "orders", 2))
    return peer
