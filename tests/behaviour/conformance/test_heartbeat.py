"""Clients that are asked to ping: who does is served, who does not is stale and has left its groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.core.wire.commands.groups import CreateGroup, GetGroup, JoinGroup
from headstream.core.wire.commands.sessions import Ping
from headstream.core.wire.commands.streams import GetStream, ListStreams
from headstream.core.wire.commands.system import GetMe, ListClients
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import build
from tests.support.server.peers import TcpPeer, refused
from tests.support.server.server_process import ServerProcess

PATIENCE_S = 30.0


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that waits for 1.2 times two seconds."""
    environ = {"IGGY_HEARTBEAT_ENABLED": "true", "IGGY_HEARTBEAT_INTERVAL": "2 s"}
    with ServerProcess(tmp_path / "log", environ=environ) as server:
        yield server


def test_a_client_that_does_not_ping_is_stale_and_one_that_does_is_served(impatient: ServerProcess) -> None:
    with TcpPeer(impatient.tcp) as pinging, TcpPeer(impatient.tcp) as silent:
        pinging.login()
        silent.login()
        build(pinging)
        pinging.ask(CreateGroup(1, 1, 1, "group"))
        silent.ask(JoinGroup(1, 1, 1))
        silent_id = silent.ask(GetMe()).client_id
        give_up_s = time.monotonic() + PATIENCE_S
        while silent_id in {client.client_id for client in pinging.ask(ListClients())} and time.monotonic() < give_up_s:
            pinging.ask(Ping())
            time.sleep(0.05)
        assert refused(silent, ListStreams()) == Status.STALE_CLIENT
        assert refused(silent, GetStream(1)) == Status.STALE_CLIENT
        group = pinging.ask(GetGroup(1, 1, 1))
        assert group is not None
        assert group.members == ()
        with TcpPeer(impatient.tcp) as again:
            again.login()
            assert len(again.ask(ListStreams())) == 1
