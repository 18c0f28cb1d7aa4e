"""Clients that are asked to ping: who does is served, who does not is stale and has left its groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.core.wire.commands import groups, sessions, streams, system
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
        pinging.ask(groups.CreateGroup(1, 1, 1, "group"))
        silent.ask(groups.JoinGroup(1, 1, 1))
        silent_id = silent.ask(system.GetMe()).client_id
        give_up_s = time.monotonic() + PATIENCE_S
        while silent_id in {client.client_id for client in pinging.ask(system.ListClients())} and time.monotonic() < give_up_s:
            pinging.ask(sessions.Ping())
            time.sleep(0.05)
        assert refused(silent, streams.ListStreams()) == Status.STALE_CLIENT
        assert refused(silent, streams.GetStream(1)) == Status.STALE_CLIENT
        group = pinging.ask(groups.GetGroup(1, 1, 1))
        assert group is not None
        assert group.members == ()
        with TcpPeer(impatient.tcp) as again:
            again.login()
            assert len(again.ask(streams.ListStreams())) == 1
