"""KilledServer: a server in a process of its own that is killed and started again within a tenth of a second.

Its processes are forked from one that has imported everything, so that a campaign of thousands of kills is possible.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from headstream.errors import HeadstreamError

__all__ = ["KilledServer"]

_HOST: Final = "127.0.0.1"
_START_S: Final = 60.0
_CHEAP_ROUNDS: Final = 4
"""Passwords are hashed as cheaply as can be: nothing is secret here, and each connection logs in."""

_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["headstream.server.app", "headstream.testing.killed_servers"])


def _serve(directory: str, tcp_port: int, http_port: int, ready: Connection) -> None:
    from headstream.broker.settings import ServerSettings
    from headstream.server.addresses import Address
    from headstream.server.app import Server
    from headstream.server.config import ServerConfig

    logging.disable(logging.CRITICAL)  # each kill and each broken connection leaves lines

    async def serve() -> None:
        config = ServerConfig(
            data=directory,
            tcp_address=Address(_HOST, tcp_port),
            http_address=Address(_HOST, http_port),
            settings=ServerSettings(password_rounds=_CHEAP_ROUNDS),
        )
        async with Server(config) as running:
            if running.tcp_address is None or running.http_address is None:
                raise AssertionError("both doors were asked for")
            ready.send((running.tcp_address.port, running.http_address.port))
            await asyncio.Event().wait()

    asyncio.run(serve())


class KilledServer:
    """A server on a directory.

    Args:
        directory: Its log's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.tcp_port = self.http_port = 0
        self.kills = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self.start()

    def start(self) -> None:
        """Start it, on the ports that it had before.

        Raises:
            HeadstreamError: it does not start within a minute.
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
            raise HeadstreamError("the server ended as it started", where=str(self._directory)) from None
        self._process = process

    def kill(self) -> None:
        """Kill it at once, whatever it is doing; one that is killed already stays so."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
            self.kills += 1
