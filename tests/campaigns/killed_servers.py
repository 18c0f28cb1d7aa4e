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
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from headstream.errors import HeadstreamError

_HOST: Final = "127.0.0.1"
_START_S: Final = 300.0
_CHEAP_ROUNDS: Final = 4
"""The cheapest password hash: nothing is secret here, and each connection logs in."""

_PORTS: Final = range(20_000, 32_768)
"""Below the ports that Linux gives to connections (from 32768): one of those could be taken while the server is down."""
_PORT_TRIES: Final = 100

_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["headstream.server.app"])


@dataclass(frozen=True, slots=True)
class _Options:
    """What a server's process gets; see KilledServer.

    Args:
        ports: Of TCP, HTTP, and of Kafka's clients if they are served.
        segment_bytes: Size at which a segment rolls.
        prepare: Called in the process before the server starts.
    """

    directory: str
    ports: tuple[int, ...]
    segment_bytes: int | None
    prepare: Callable[[], None] | None


def _serve(options: _Options, ready: Connection) -> None:
    from headstream.broker.settings import ServerSettings
    from headstream.server.app import ServerApp
    from headstream.server.config.config import ServerConfig
    from headstream.server.network.addresses import Address

    logging.disable(logging.CRITICAL)  # each kill and each broken connection logs lines
    if options.prepare is not None:
        options.prepare()
    tcp_address, http_address, *others = (Address(_HOST, port) for port in options.ports)

    async def serve() -> None:
        config = ServerConfig(
            data=options.directory,
            tcp_address=tcp_address,
            http_address=http_address,
            kafka_address=others[0] if others else None,
            segment_bytes=options.segment_bytes,
            settings=ServerSettings(password_rounds=_CHEAP_ROUNDS),
        )
        async with ServerApp(config):
            ready.send(None)
            await asyncio.Event().wait()

    asyncio.run(serve())


def _reserve_ports(count: int) -> list[socket.socket]:
    """Return so many sockets bound to free ports, which nothing else takes while the server is down.

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
        if len(found) == count:
            return found
    _close(found)
    raise HeadstreamError("no free ports are found", where=f"{_HOST}, ports {_PORTS.start} to {_PORTS.stop - 1}")


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


class KilledServer:
    """A server on a directory.

    Args:
        has_kafka: Whether it serves Kafka's clients, at `kafka_port`.
        segment_bytes: Size at which a segment rolls; None for the server's default.
        prepare: A function of a module, called in each of its processes before the server starts.
    """

    def __init__(
        self,
        directory: Path,
        *,
        has_kafka: bool = False,
        segment_bytes: int | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        reserved = _reserve_ports(3 if has_kafka else 2)
        weakref.finalize(self, _close, reserved)
        ports = tuple(each.getsockname()[1] for each in reserved)
        self._options = _Options(str(directory), ports, segment_bytes, prepare)
        self.tcp_port, self.http_port = ports[:2]
        self.kafka_port = ports[2] if has_kafka else None
        self.kills = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self.start()

    def start(self) -> None:
        """Start it on its previous ports.

        Raises:
            HeadstreamError: it does not start within five minutes.
        """
        ours, its = _context.Pipe()
        process = _context.Process(target=_serve, args=(self._options, its), daemon=True)
        process.start()
        its.close()
        if not ours.poll(_START_S):
            process.kill()
            raise HeadstreamError("the server does not start", where=self._options.directory)
        try:
            ours.recv()
        except EOFError:
            raise HeadstreamError("the server exited while starting", where=self._options.directory) from None
        self._process = process

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended by itself, and return whether it has.

        Args:
            timeout_s: How long to wait, seconds.
        """
        if self._process is None:
            return True
        self._process.join(timeout_s)
        return self._process.exitcode is not None

    def kill(self) -> None:
        """Kill it immediately; does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
            self.kills += 1
