"""KilledServer: a server process that is killed and restarted within a tenth of a second.

Its processes are forked from one that has imported everything, so that a campaign can have thousands of kills.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import random
import socket
import weakref
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from headstream.errors import HeadstreamError

__all__ = ["KilledServer"]

_HOST: Final = "127.0.0.1"
_START_S: Final = 300.0
_CHEAP_ROUNDS: Final = 4
"""The cheapest password hash: nothing is secret here, and each connection logs in."""

_PORTS: Final = range(20_000, 32_768)
"""Below the ports that Linux gives to connections (from 32768): one of those could be taken while the server is down."""
_PORT_TRIES: Final = 100

_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["headstream.server.app", "headstream.testing.killed_servers"])


def _serve(directory: str, tcp_port: int, http_port: int, ready: Connection) -> None:
    from headstream.broker.settings import ServerSettings
    from headstream.server.app import ServerApp
    from headstream.server.config.config import ServerConfig
    from headstream.server.network.addresses import Address

    logging.disable(logging.CRITICAL)  # each kill and each broken connection logs lines

    async def serve() -> None:
        config = ServerConfig(
            data=directory,
            tcp_address=Address(_HOST, tcp_port),
            http_address=Address(_HOST, http_port),
            settings=ServerSettings(password_rounds=_CHEAP_ROUNDS),
        )
        async with ServerApp(config) as running:
            if running.tcp_address is None or running.http_address is None:
                raise AssertionError("both listeners were requested")
            ready.send((running.tcp_address.port, running.http_address.port))
            await asyncio.Event().wait()

    asyncio.run(serve())


def _reserve_ports() -> list[socket.socket]:
    """Return two sockets bound to free ports, which nothing else takes while the server is down.

    They do not listen: the system refuses connections to them. SO_REUSEADDR, set after they are bound, lets the server listen on
    the same ports, and only sockets that set it too; the probe of another reservation does not.
    """
    found: list[socket.socket] = []
    chance = random.SystemRandom()  # several campaigns can run concurrently with the same seeds
    for port in chance.sample(_PORTS, _PORT_TRIES):
        reserved = socket.socket()
        try:
            reserved.bind((_HOST, port))
        except OSError:
            reserved.close()
            continue
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.append(reserved)
        if len(found) == 2:
            return found
    _close(found)
    raise HeadstreamError("no free ports are found", where=f"{_HOST}, ports {_PORTS.start} to {_PORTS.stop - 1}")


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


class KilledServer:
    """A server on a directory.

    Args:
        directory: Its log's directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        reserved = _reserve_ports()
        weakref.finalize(self, _close, reserved)
        self.tcp_port, self.http_port = (each.getsockname()[1] for each in reserved)
        self.kills = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self.start()

    def start(self) -> None:
        """Start it on its previous ports.

        Raises:
            HeadstreamError: it does not start within five minutes.
        """
        ours, its = _context.Pipe()
        process = _context.Process(target=_serve, args=(str(self._directory), self.tcp_port, self.http_port, its), daemon=True)
        process.start()
        its.close()
        if not ours.poll(_START_S):
            process.kill()
            raise HeadstreamError("the server does not start", where=str(self._directory))
        try:
            self.tcp_port, self.http_port = ours.recv()
        except EOFError:
            raise HeadstreamError("the server exited while starting", where=str(self._directory)) from None
        self._process = process

    def kill(self) -> None:
        """Kill it immediately; does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
            self.kills += 1
