"""Unit tests of headstream.broker.commands.system."""

from __future__ import annotations

from headstream.broker.accounts.sessions import Session
from headstream.core.wire.commands.groups import CreateGroup, JoinGroup
from headstream.core.wire.commands.system import GetMe, GetStats
from tests.support.server.servers import Peer, Server
from tests.unit.broker.commands.test_epochs import AT


def test_stats_need_a_login_when_an_unauthenticated_client_asks(server: Server) -> None:
    assert server.connect().status(GetStats()) == 40


def test_stats_say_what_there_is_when_a_user_asks(peer: Peer) -> None:
    stats = peer.ask(GetStats())
    assert (stats.streams_count, stats.topics_count, stats.partitions_count, stats.clients_count) == (1, 1, 2, 1)
    assert (stats.server_version, stats.server_semver) == ("0.4.300", 4300)
    assert all([stats.hostname, stats.os_name, stats.os_version, stats.kernel_version, stats.memory_bytes])


def test_http_session_has_no_client_when_it_asks(server: Server, peer: Peer) -> None:
    asks = Peer(server.dispatcher, Session.over_http("127.0.0.1:9", 1))
    asks.ask(CreateGroup(*AT, 0, "billing"))
    assert [asks.status(GetMe()), asks.status(JoinGroup(*AT, 1))] == [5, 5]
