"""KilledServer: it comes back on its own ports, and nothing on this machine can have taken them meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headstream.connect import connect
from tests.campaigns.killed_servers import KilledServer

_FIRST_OF_CONNECTIONS = 32_768


def test_killed_server_comes_back_on_its_ports_which_nothing_else_gets(tmp_path: Path) -> None:
    server = KilledServer(tmp_path / "log")
    try:
        ports = server.tcp_port, server.http_port
        assert max(ports) < _FIRST_OF_CONNECTIONS
        assert len(set(ports)) == 2
        server.kill()
        for port in ports:
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            with socket.socket() as client, pytest.raises(ConnectionRefusedError):
                client.connect(("127.0.0.1", port))
        server.start()
        assert (server.tcp_port, server.http_port) == ports
        for url in (f"headstream://iggy:iggy@127.0.0.1:{ports[0]}", f"http://iggy:iggy@127.0.0.1:{ports[1]}"):
            with connect(url) as log:
                log.create_topic("arena/messages", if_not_exists=True)
    finally:
        server.kill()
    assert server.kills == 2
