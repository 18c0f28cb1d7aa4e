"""A real server for tests, in this process: sockets on free ports, and a log in memory or in a directory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME, ServerSettings
from headstream.errors import MissingExtraError
from headstream.server.app import ServerApp
from headstream.server.config.config import ServerConfig
from headstream.server.network.addresses import Address
from headstream.server.network.tls import TlsFiles

_HOST: Final = "127.0.0.1"
_CHEAP_ROUNDS: Final = 4
"""The cheapest password hash: tests have no secrets, and every login waits for the hash."""


class LocalServer:
    """A server that runs in a thread of this process, from start() to stop() or within a `with` statement.

    Args:
        directory: The log's directory; None for a log in memory, which is lost at a restart.
        segment_bytes: Size at which a partition begins a new file.
        tls: The certificate for TCP and HTTP; None disables encryption.
        quic: Whether the server also listens for QUIC; requires headstream[quic].
        kafka: Whether the server also listens for Kafka clients.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        segment_bytes: int | None = None,
        tls: TlsFiles | None = None,
        quic: bool = False,
        kafka: bool = False,
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._tls = tls
        self._quic = quic
        self._kafka = kafka
        self._tcp_port = self._http_port = self._quic_port = self._kafka_port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def url(self) -> str:
        """The URL for connecting as the root user over TCP."""
        query = "" if self._tls is None else "?tls=true"
        return f"headstream://{DEFAULT_USERNAME}:{DEFAULT_PASSWORD}@{_HOST}:{self._tcp_port}{query}"

    @property
    def http_url(self) -> str:
        """The URL for connecting as the root user over HTTP."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{DEFAULT_USERNAME}:{DEFAULT_PASSWORD}@{_HOST}:{self._http_port}"

    @property
    def quic_url(self) -> str:
        """The URL for connecting as the root user over QUIC; the server's self-signed certificate is not verified."""
        return f"quic://{DEFAULT_USERNAME}:{DEFAULT_PASSWORD}@{_HOST}:{self._quic_port}?tls_verify=false"

    @property
    def tcp_address(self) -> tuple[str, int]:
        """Host and port of the TCP listener."""
        return _HOST, self._tcp_port

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port of the HTTP listener."""
        return _HOST, self._http_port

    @property
    def kafka_address(self) -> tuple[str, int]:
        """Host and port of the Kafka listener; clients log in with SASL/PLAIN."""
        return _HOST, self._kafka_port

    def start(self) -> LocalServer:
        """Start the server and return when it is ready. After stop(), the server uses its previous ports again.

        Raises:
            MissingExtraError: the libraries of `headstream[server]` are not installed.
            HeadstreamError: the server cannot start.
        """
        ready = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="headstream-server", daemon=True)
        self._thread.start()
        ready.wait()
        if self._error is not None:
            self._thread.join()
            if isinstance(self._error, ModuleNotFoundError):
                advice = "Run: pip install 'headstream[server]'"
                raise MissingExtraError(f"{self._error.name} is not installed", advice=advice) from self._error
            raise self._error
        return self

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:  # raised by start() or stop()
            self._error = error
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        config = ServerConfig(
            data=None if self._directory is None else str(self._directory),
            tcp_address=Address(_HOST, self._tcp_port),
            http_address=Address(_HOST, self._http_port),
            quic_address=Address(_HOST, self._quic_port) if self._quic else None,
            kafka_address=Address(_HOST, self._kafka_port) if self._kafka else None,
            tcp_tls=self._tls,
            http_tls=self._tls,
            segment_bytes=self._segment_bytes,
            settings=ServerSettings(password_rounds=_CHEAP_ROUNDS),
        )
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with ServerApp(config) as running:
            assert running.tcp_address is not None
            assert running.http_address is not None
            self._tcp_port, self._http_port = running.tcp_address.port, running.http_address.port
            if running.quic_address is not None:
                self._quic_port = running.quic_address.port
            if running.kafka_address is not None:
                self._kafka_port = running.kafka_address.port
            ready.set()
            await self._stopping.wait()

    def stop(self) -> None:
        """Answer the received requests, close the connections and stop; idempotent. HeadstreamError if data cannot be synced."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> LocalServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()


@contextmanager
def server(directory: Path | None = None) -> Iterator[LocalServer]:
    """Run a server on free ports during the body of a `with` statement; if `directory` is None, the log is in memory."""
    with LocalServer(directory) as running:
        yield running
