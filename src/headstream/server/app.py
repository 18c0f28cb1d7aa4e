"""Server: everything put together, and its life: start, ready, drain, stop.

start   log -> users -> threads -> doors (TCP, HTTP) -> {data}/runtime/current_config.toml: ready
stop    no more connections -> what has been received is answered -> threads -> log, synced
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headstream.broker.broker import Broker
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.table import make_dispatcher
from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.broker.traffic import Traffic
from headstream.errors import HeadstreamError, InvalidOptionError, MissingExtraError
from headstream.log.files import OsFiles
from headstream.log.linux import max_open_files
from headstream.log.opening import open_directory, open_memory
from headstream.log.removal import remove_log
from headstream.server.addresses import Address
from headstream.server.config import PUBLISHED_SECRETS, ServerConfig
from headstream.server.config_file import format_toml
from headstream.server.logs import note
from headstream.server.memory_budget import MemoryBudget, default_budget_bytes
from headstream.server.tcp import TcpServer
from headstream.server.tls import make_tls
from headstream.server.workers import Workers
from headstream.wire.commands.sessions import Login

if TYPE_CHECKING:
    from headstream.server.http import HttpServer
    from headstream.server.quic import QuicServer

__all__ = ["CURRENT_CONFIG", "QUIC_CERTIFICATE", "Server"]

QUIC_CERTIFICATE: Final = "quic_certificate.pem"
"""The certificate for localhost that a server has made for itself, in the same directory: for clients to trust."""

_QUIC_KEY: Final = "quic_key.pem"

CURRENT_CONFIG: Final = "current_config.toml"
"""What the server was told, with the addresses it really has: for programs that let it choose its ports."""

_CONNECTIONS_SHARE: Final = 4
"""The part of the files that may be open which one door's connections may be: two doors leave half of them to the log and the
program."""

_SECRET_NAME: Final = "access_tokens.key"
_SECRET_BYTES: Final = 64


class Server:
    """A server, as long as the body of `async with` runs.

    Args:
        config: All that it is told.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._ends = contextlib.AsyncExitStack()
        self._dispatcher: Dispatcher | None = None
        self._tcp: TcpServer | None = None
        self._http: HttpServer | None = None
        self._quic: QuicServer | None = None
        self.tcp_address: Address | None = None
        self.http_address: Address | None = None
        self.quic_address: Address | None = None

    @property
    def dispatcher(self) -> Dispatcher:
        """What answers, once it has started."""
        if self._dispatcher is None:
            raise AssertionError("start() comes first")
        return self._dispatcher

    async def start(self) -> None:
        """Open the log and the doors; it is ready when this returns.

        Raises:
            HeadstreamError: the log cannot be opened for writing, an address cannot be had, or other machines could log in
                with the password that everybody knows.
        """
        try:
            await self._start()
        except BaseException:
            await self._ends.aclose()
            raise

    async def _start(self) -> None:
        config = self._config
        tcp_tls = None if config.tcp_tls is None else make_tls(config.tcp_tls)
        http_tls = None if config.http_tls is None else make_tls(config.http_tls)
        if config.read_from:
            note(logging.INFO, "settings read", files=config.read_from)
        self._remove_if_fresh()
        log = (
            open_memory(None, config.segment_bytes)
            if config.data is None
            else open_directory(config.data, config.segment_bytes, config.group_access)
        )
        broker = Broker(log)
        self._ends.callback(broker.close)
        broker.backing.writable_log()  # a server is the log's writer from the beginning, or does not start
        self._dispatcher = make_dispatcher(broker, config.settings)
        self._ends.callback(self._dispatcher.members.end_all)
        self._check_reachable()
        self._warn_of_exposure()
        workers = Workers()
        self._ends.callback(workers.close)
        budget = MemoryBudget(config.memory_budget_bytes or default_budget_bytes())
        if config.tcp_address is not None:
            most = self._room_for_connections(config.tcp.max_connections, "tcp")
            self._tcp = TcpServer(self._dispatcher, workers, replace(config.tcp, max_connections=most), budget)
            self.tcp_address = await self._tcp.start(config.tcp_address, tcp_tls)
            self._ends.push_async_callback(self._tcp.stop, 0)
        if config.http_address is not None:
            await self._start_http(config.http_address, http_tls, workers, budget)
        if config.quic_address is not None:
            await self._start_quic(config.quic_address, workers, budget)
        sweeping = asyncio.get_running_loop().create_task(self._sweep_often())
        self._ends.callback(sweeping.cancel)
        self._write_down()
        for warning in config.warnings:
            note(logging.WARNING, "setting without meaning", what=warning)
        note(
            logging.INFO,
            "ready",
            tcp=self._spell(self.tcp_address),
            http=self._spell(self.http_address),
            quic=self._spell(self.quic_address),
            data=config.data,
        )

    async def _start_http(self, address: Address, tls: Any, workers: Workers, budget: MemoryBudget) -> None:
        await asyncio.to_thread(importlib.import_module, "headstream.server.http")  # half of a start: TCP answers meanwhile
        from headstream.server.http import HttpServer
        from headstream.server.http_tokens import AccessTokens

        config = self._config
        settings = config.tokens if config.has_secret else replace(config.tokens, secret=self._kept_secret())
        traffic = [Traffic("http")] if self._tcp is None else [Traffic("http"), self._tcp.traffic]
        tokens = AccessTokens(settings, self.dispatcher.tokens, self.dispatcher.users)
        http = replace(config.http, max_connections=self._room_for_connections(config.http.max_connections, "http"))
        self._http = HttpServer(self.dispatcher, http, tokens, workers, traffic, budget)
        host, port = await self._http.start(address.host, address.port, tls)
        self.http_address = Address(host, port)
        self._ends.push_async_callback(self._http.stop)

    async def _start_quic(self, address: Address, workers: Workers, budget: MemoryBudget) -> None:
        config = self._config
        try:
            await asyncio.to_thread(importlib.import_module, "headstream.server.quic")
        except ImportError as error:
            raise MissingExtraError(f"QUIC needs {error.name}", where="quic.enabled", advice="Install headstream[quic]") from None
        from headstream.server.quic import QuicServer, QuicSettings
        from headstream.server.quic_tls import make_self_signed

        with contextlib.ExitStack() as stack:
            files = config.quic_files
            if files is None:
                kept = self._runtime() or Path(stack.enter_context(tempfile.TemporaryDirectory()))
                files = make_self_signed(kept / QUIC_CERTIFICATE, kept / _QUIC_KEY)
            settings = QuicSettings(
                files=files,
                max_connections=config.tcp.max_connections,
                idle_s=config.quic_idle_s,
                limits=config.tcp.limits,
            )
            self._quic = QuicServer(self.dispatcher, workers, settings, budget)
        self.quic_address = self._quic.start(address)
        self._ends.callback(self._quic.stop)
        if self._http is not None:
            self._http.show(self._quic.traffic)

    @staticmethod
    def _room_for_connections(wanted: int, transport: str) -> int:
        """Return how many connections one door takes: idle ones leave enough of the files that may be open to the log."""
        most = min(wanted, max_open_files() // _CONNECTIONS_SHARE)
        if most < wanted:
            note(logging.INFO, "fewer connections than allowed", most=most, wanted=wanted, transport=transport)
        return most

    def _remove_if_fresh(self) -> None:
        """Remove the log that is there, where that was asked for."""
        config = self._config
        if config.is_fresh and config.data is not None:
            removed = remove_log(os.path.realpath(config.data), OsFiles(), [config.runtime])
            note(logging.WARNING if removed else logging.INFO, "log removed: --fresh", data=config.data, removed=removed)

    def _warn_of_exposure(self) -> None:
        """Log what other machines can do or read because of the settings."""
        config = self._config
        doors = (
            ("tcp", config.tcp_address, config.tcp_tls is not None),
            ("http", config.http_address, config.http_tls is not None),
            ("quic", config.quic_address, True),
        )
        for transport, address, is_encrypted in doors:
            if address is None or address.is_loopback:
                continue
            if config.allow_default_password:
                note(logging.WARNING, "other machines may log in with the default password", transport=transport, on=str(address))
            if not is_encrypted:
                note(logging.WARNING, "passwords and messages are not encrypted (no TLS)", transport=transport, on=str(address))

    def _check_reachable(self) -> None:
        """Refuse to serve other machines as long as the root user has the password that everybody knows."""
        config = self._config
        doors = [address for address in (config.tcp_address, config.http_address, config.quic_address) if address is not None]
        if all(address.is_loopback for address in doors) or config.allow_default_password:
            return
        advice = "Listen on 127.0.0.1, choose another one, or allow it by --allow-default-password"
        if config.tokens.secret.decode("latin-1") in PUBLISHED_SECRETS:
            raise InvalidOptionError(
                "access tokens would be signed by a secret that everybody knows", where="http.jwt", advice=advice
            )
        session = self.dispatcher.sessions.open("startup:0")
        try:
            self.dispatcher.answer(session, Login(DEFAULT_USERNAME, DEFAULT_PASSWORD))
        except HeadstreamError:
            return
        finally:
            self.dispatcher.sessions.close(session)
        where = " and ".join(str(address) for address in doors if not address.is_loopback)
        raise InvalidOptionError(
            f"other machines could log in as {DEFAULT_USERNAME!r} with the password that everybody knows",
            where=where,
            advice=advice,
        )

    async def _sweep_often(self) -> None:
        """End the sessions of silent clients, and remove expired tokens."""
        config = self._config
        heartbeat_us = config.settings.heartbeat_us
        times_s = [time_s for time_s in (config.token_sweep_s, None if heartbeat_us is None else heartbeat_us / 1e6) if time_s]
        while times_s:
            await asyncio.sleep(min(times_s))
            try:
                await asyncio.to_thread(self.dispatcher.sweep)
            except HeadstreamError as error:
                note(logging.ERROR, "sweeping failed", error)

    async def stop(self) -> None:
        """Accept no more, answer what has been received, and close the log, synced; stopping twice is fine.

        Raises:
            PartitionClosedError: what was acknowledged could not be synced; everything is closed all the same.
        """
        note(logging.INFO, "stopping")
        doors = []
        if self._tcp is not None:
            doors.append(self._tcp.stop(self._config.drain_s))
        if self._http is not None:
            doors.append(self._http.stop())
        await asyncio.gather(*doors)
        if self._quic is not None:
            self._quic.stop()
        await self._ends.aclose()
        note(logging.INFO, "stopped")

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # -- what lies beside the log ---------------------------------------------------------------------------

    def _runtime(self) -> Path | None:
        if self._config.data is None:
            return None
        path = Path(self._config.data) / self._config.runtime
        path.mkdir(0o700, exist_ok=True)  # the secret of tokens is in it: no group's business
        return path

    def _write_down(self) -> None:
        """Write what the server was told, with the addresses it really has."""
        runtime = self._runtime()
        if runtime is None:
            return
        values = dict(self._config.values)
        for door, address in (("tcp", self.tcp_address), ("http", self.http_address), ("quic", self.quic_address)):
            values[f"{door}.enabled"] = address is not None
            if address is not None:
                values[f"{door}.address"] = str(address)
        partial = runtime / f"{CURRENT_CONFIG}.{os.getpid()}"
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(format_toml(values.items()))
        partial.replace(runtime / CURRENT_CONFIG)

    def _kept_secret(self) -> bytes:
        """Return the secret that access tokens are signed by: tokens outlive a restart."""
        runtime = self._runtime()
        if runtime is None:
            return os.urandom(_SECRET_BYTES)
        path = runtime / _SECRET_NAME
        with contextlib.suppress(FileNotFoundError):
            kept = path.read_bytes()
            if len(kept) == _SECRET_BYTES:
                return kept
        secret = os.urandom(_SECRET_BYTES)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        return secret

    @staticmethod
    def _spell(address: Address | None) -> str | None:
        return None if address is None else str(address)
