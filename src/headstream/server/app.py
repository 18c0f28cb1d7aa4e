"""ServerApp: assembles all parts of a server and controls their life cycle: start, ready, drain, stop.

start   log -> users -> threads -> listeners (TCP, HTTP, QUIC, Kafka) -> {data}/runtime/current_config.toml: ready
stop    no new connections -> received requests answered -> threads -> log, synced
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

from headstream.broker.accounts.users import ROOT
from headstream.broker.broker import Broker
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.table import make_dispatcher
from headstream.broker.deliveries.delivery_audit import DeliveryAudit
from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.core.wire.commands.sessions import Login
from headstream.errors import HeadstreamError, InvalidOptionError, MissingExtraError
from headstream.interceptors.batch_tracing import BatchTracing
from headstream.log.checks.removal import remove_log
from headstream.log.opening import open_directory, open_memory
from headstream.log.system.files import OsFiles
from headstream.log.system.linux import max_open_files
from headstream.server.config.config import PUBLISHED_SECRETS, ServerConfig
from headstream.server.config.file import format_toml
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.iggy.tcp.server import TcpServer
from headstream.server.network.addresses import Address
from headstream.server.network.admission import Admission
from headstream.server.network.tls import make_tls
from headstream.server.reporting.logs import note
from headstream.server.resources.memory_budget import MemoryBudget, default_budget_bytes
from headstream.server.resources.workers import Workers

if TYPE_CHECKING:
    from headstream.server.http.pipeline_reports import PipelineReports
    from headstream.server.http.server import HttpServer
    from headstream.server.iggy.quic.server import QuicServer
    from headstream.server.kafka.listener import KafkaServer

QUIC_CERTIFICATE: Final = "quic_certificate.pem"
"""File in the runtime directory with the self-signed certificate for localhost, which clients can trust."""

_QUIC_KEY: Final = "quic_key.pem"

CURRENT_CONFIG: Final = "current_config.toml"
"""File with the effective settings and the bound addresses, for programs that use port 0."""

_CONNECTIONS_SHARE: Final = 4
"""One listener can use 1/n of the open-file limit for connections; two listeners leave half to the log."""

_SECRET_NAME: Final = "access_tokens.key"
_SECRET_BYTES: Final = 64


class ServerApp:
    """A server that runs in the body of an `async with` statement.

    Args:
        pipelines: Reports of Replicate pipelines for the console.
        tracer_provider: Tracer provider of OpenTelemetry's SDK, for `config.tracing`; by default the global provider.
    """

    def __init__(self, config: ServerConfig, pipelines: PipelineReports | None = None, *, tracer_provider: Any = None) -> None:
        self._config = config
        self._pipelines = pipelines
        self._tracer_provider = tracer_provider
        self._ends = contextlib.AsyncExitStack()
        self._dispatcher: Dispatcher | None = None
        self._tcp: TcpServer | None = None
        self._http: HttpServer | None = None
        self._quic: QuicServer | None = None
        self._kafka: KafkaServer | None = None
        self.tcp_address: Address | None = None
        self.http_address: Address | None = None
        self.quic_address: Address | None = None
        self.kafka_address: Address | None = None

    @property
    def console_url(self) -> str | None:
        """The URL of the console; None if the console is not served."""
        if self.http_address is None or not self._config.http.console:
            return None
        return f"{'http' if self._config.http_tls is None else 'https'}://{self.http_address}/console"

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher of commands, after start()."""
        if self._dispatcher is None:
            raise AssertionError("start() must be called first")
        return self._dispatcher

    async def start(self) -> None:
        """Open the log and the listeners; HeadstreamError on failure, or if other machines can use the default password."""
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
        broker.backing.writable_log()  # fails unless the server can be the log's writer
        if config.tracing:
            broker.messages.tracing = BatchTracing(self._tracer_provider)
        self._dispatcher = make_dispatcher(broker, replace(config.settings, stores_scram=config.kafka_address is not None))
        if config.delivery_audit is not None:
            self._dispatcher.audit = DeliveryAudit(broker, config.delivery_audit, self._name_of_user)
            self._ends.callback(self._dispatcher.audit.close)  # runs after the group members are removed
        self._ends.callback(self._dispatcher.members.end_all)
        self._check_reachable()
        self._warn_of_exposure()
        workers = Workers()
        self._ends.callback(workers.close)
        admission = Admission(config.connection_rate)
        budget = MemoryBudget(config.memory_budget_bytes or default_budget_bytes())
        if config.tcp_address is not None:
            most = self._limit_of_connections(config.tcp.max_connections, "tcp")
            self._tcp = TcpServer(self._dispatcher, workers, replace(config.tcp, max_connections=most), budget, admission)
            self.tcp_address = await self._tcp.start(config.tcp_address, tcp_tls)
            self._ends.push_async_callback(self._tcp.stop, 0)
        if config.http_address is not None:
            await self._start_http(config.http_address, http_tls, workers, budget, admission)
        if config.quic_address is not None:
            await self._start_quic(config.quic_address, workers, budget, admission)
        if config.kafka_address is not None:
            await self._start_kafka(config.kafka_address, workers, budget, admission)
        if config.metrics_otlp:
            self._push_metrics()
        sweeping = asyncio.get_running_loop().create_task(self._sweep_periodically())
        self._ends.callback(sweeping.cancel)
        self._write_current_config()
        for warning in config.warnings:
            note(logging.WARNING, "setting ignored", what=warning)
        note(
            logging.INFO,
            "ready",
            tcp=self._format_address(self.tcp_address),
            http=self._format_address(self.http_address),
            quic=self._format_address(self.quic_address),
            kafka=self._format_address(self.kafka_address),
            data=config.data,
        )

    def _name_of_user(self, user_id: int) -> str:
        user = self.dispatcher.users.find(user_id)
        return "" if user is None else user.record.name

    async def _start_http(self, address: Address, tls: Any, workers: Workers, budget: MemoryBudget, admission: Admission) -> None:
        # The import takes half of the start time; TCP connections are served meanwhile.
        await asyncio.to_thread(importlib.import_module, "headstream.server.http.server")
        from headstream.server.http.pipeline_reports import NO_PIPELINES
        from headstream.server.http.server import HttpServer
        from headstream.server.http.tokens import AccessTokens

        config = self._config
        settings = config.tokens if config.has_secret else replace(config.tokens, secret=self._stored_secret())
        traffic = [Traffic("http")] if self._tcp is None else [Traffic("http"), self._tcp.traffic]
        tokens = AccessTokens(settings, self.dispatcher.tokens, self.dispatcher.users)
        http = replace(config.http, max_connections=self._limit_of_connections(config.http.max_connections, "http"))
        reports = self._pipelines or NO_PIPELINES
        self._http = HttpServer(self.dispatcher, http, tokens, workers, traffic, budget, admission, reports)
        host, port = await self._http.start(address.host, address.port, tls)
        self.http_address = Address(host, port)
        self._ends.push_async_callback(self._http.stop)

    def _push_metrics(self) -> None:
        """Send the metrics over OTLP until the server stops."""
        if self._http is None:
            raise InvalidOptionError("metrics over OTLP require the HTTP listener", where="headstream.metrics_otlp")
        from headstream.metrics.output import open_push

        push = open_push("headstream-server", self._http.pages.describe_metrics)
        self._ends.push_async_callback(asyncio.to_thread, push.close)

    async def _start_quic(self, address: Address, workers: Workers, budget: MemoryBudget, admission: Admission) -> None:
        config = self._config
        try:
            await asyncio.to_thread(importlib.import_module, "headstream.server.iggy.quic.server")
        except ImportError as error:
            raise MissingExtraError(f"QUIC needs {error.name}", where="quic.enabled", advice="Install headstream[quic]") from None
        from headstream.server.iggy.quic.server import QuicServer, QuicSettings
        from headstream.server.iggy.quic.tls import make_self_signed

        with contextlib.ExitStack() as stack:
            files = config.quic_files
            if files is None:
                stored = self._runtime() or Path(stack.enter_context(tempfile.TemporaryDirectory()))
                files = make_self_signed(stored / QUIC_CERTIFICATE, stored / _QUIC_KEY)
            settings = QuicSettings(
                files=files, max_connections=config.tcp.max_connections, idle_s=config.quic_idle_s, limits=config.tcp.limits
            )
            self._quic = QuicServer(self.dispatcher, workers, settings, budget, admission)
        self.quic_address = self._quic.start(address)
        self._ends.callback(self._quic.stop)
        if self._http is not None:
            self._http.show(self._quic.traffic)

    async def _start_kafka(self, address: Address, workers: Workers, budget: MemoryBudget, admission: Admission) -> None:
        config = self._config
        tls = None if config.kafka_tls is None else make_tls(config.kafka_tls)
        try:
            await asyncio.to_thread(importlib.import_module, "headstream.server.kafka.listener")
        except ImportError as error:
            raise MissingExtraError(
                f"Kafka's protocol needs {error.name}", where="kafka.enabled", advice="Install headstream[kafka-server]"
            ) from None
        from headstream.server.kafka.listener import KafkaServer

        self._check_anonymous(address)
        most = self._limit_of_connections(config.kafka.max_connections, "kafka")
        self._kafka = KafkaServer(self.dispatcher, replace(config.kafka, max_connections=most), workers, budget, admission)
        self.kafka_address = await self._kafka.start(address, tls)
        self._ends.push_async_callback(self._kafka.stop, 0)
        if self._http is not None:
            self._http.show(self._kafka.traffic)

    def _check_anonymous(self, address: Address) -> None:
        """Raise an error if Kafka clients without a login act as root and other machines can connect."""
        name = self._config.kafka.anonymous_user
        user = None if name is None else self.dispatcher.users.find(name)
        if name is None or (user is not None and (user.id != ROOT or address.is_loopback)):
            return
        if user is None:
            note(logging.WARNING, "kafka.anonymous_user does not exist: clients without a login are refused", user=name)
            return
        raise InvalidOptionError(
            f"other machines would have all rights without a login: {name!r} is the root user",
            where="kafka.anonymous_user",
            advice="Set a user that has only the permissions that these clients need, or listen on 127.0.0.1",
        )

    @staticmethod
    def _limit_of_connections(wanted: int, transport: str) -> int:
        """Return the connection limit of one listener; some of the open files are reserved for the log."""
        most = min(wanted, max_open_files() // _CONNECTIONS_SHARE)
        if most < wanted:
            note(logging.INFO, "connection limit lowered", most=most, wanted=wanted, transport=transport)
        return most

    def _remove_if_fresh(self) -> None:
        """Remove an existing log if `--fresh` is set."""
        config = self._config
        if config.is_fresh and config.data is not None:
            removed = remove_log(os.path.realpath(config.data), OsFiles(), [config.runtime])
            note(logging.WARNING if removed else logging.INFO, "log removed: --fresh", data=config.data, removed=removed)

    def _warn_of_exposure(self) -> None:
        """Log warnings about settings that expose the server to other machines."""
        config = self._config
        listeners = (
            ("tcp", config.tcp_address, config.tcp_tls is not None),
            ("http", config.http_address, config.http_tls is not None),
            ("quic", config.quic_address, True),
            ("kafka", config.kafka_address, config.kafka_tls is not None),
        )
        for transport, address, is_encrypted in listeners:
            if address is None or address.is_loopback:
                continue
            if config.allow_default_password:
                note(logging.WARNING, "other machines can log in with the default password", transport=transport, on=str(address))
            if not is_encrypted:
                note(logging.WARNING, "passwords and messages are not encrypted (no TLS)", transport=transport, on=str(address))

    def _check_reachable(self) -> None:
        """Raise an error if the root user has the default password and other machines can reach an address."""
        config = self._config
        addresses = (config.tcp_address, config.http_address, config.quic_address, config.kafka_address)
        open_addresses = [address for address in addresses if address is not None]
        if all(address.is_loopback for address in open_addresses) or config.allow_default_password:
            return
        advice = "Listen on 127.0.0.1, change the password or secret, or use --allow-default-password"
        if config.tokens.secret.decode("latin-1") in PUBLISHED_SECRETS:
            raise InvalidOptionError("access tokens would be signed with a published secret", where="http.jwt", advice=advice)
        session = self.dispatcher.sessions.open("startup:0")
        try:
            self.dispatcher.answer(session, Login(DEFAULT_USERNAME, DEFAULT_PASSWORD))
        except HeadstreamError:
            return
        finally:
            self.dispatcher.sessions.close(session)
        where = " and ".join(str(address) for address in open_addresses if not address.is_loopback)
        raise InvalidOptionError(
            f"other machines could log in as {DEFAULT_USERNAME!r} with the default password", where=where, advice=advice
        )

    async def _sweep_periodically(self) -> None:
        """End the sessions of clients without heartbeats, and remove expired tokens."""
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
        """Stop listening, answer received requests, sync and close the log; idempotent. PartitionClosedError if a sync failed."""
        note(logging.INFO, "stopping")
        stopping = []
        if self._tcp is not None:
            stopping.append(self._tcp.stop(self._config.drain_s))
        if self._http is not None:
            stopping.append(self._http.stop())
        if self._kafka is not None:
            stopping.append(self._kafka.stop(self._config.drain_s))
        await asyncio.gather(*stopping)
        if self._quic is not None:
            self._quic.stop()
        await self._ends.aclose()
        note(logging.INFO, "stopped")

    async def __aenter__(self) -> ServerApp:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # -- the runtime directory ------------------------------------------------------------------------------

    def _runtime(self) -> Path | None:
        if self._config.data is None:
            return None
        path = Path(self._config.data) / self._config.runtime
        path.mkdir(0o700, exist_ok=True)  # contains the token secret: no access for the group
        return path

    def _write_current_config(self) -> None:
        """Write the effective settings, with the bound addresses."""
        runtime = self._runtime()
        if runtime is None:
            return
        values = dict(self._config.values)
        addresses = (self.tcp_address, self.http_address, self.quic_address, self.kafka_address)
        for transport, address in zip(("tcp", "http", "quic", "kafka"), addresses, strict=True):
            values[f"{transport}.enabled"] = address is not None
            if address is not None:
                values[f"{transport}.address"] = str(address)
        partial = runtime / f"{CURRENT_CONFIG}.{os.getpid()}"
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(format_toml(values.items()))
        partial.replace(runtime / CURRENT_CONFIG)

    def _stored_secret(self) -> bytes:
        """Return the stored secret for access tokens, which keeps tokens valid after a restart."""
        runtime = self._runtime()
        if runtime is None:
            return os.urandom(_SECRET_BYTES)
        path = runtime / _SECRET_NAME
        with contextlib.suppress(FileNotFoundError):
            stored = path.read_bytes()
            if len(stored) == _SECRET_BYTES:
                return stored
        secret = os.urandom(_SECRET_BYTES)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        return secret

    @staticmethod
    def _format_address(address: Address | None) -> str | None:
        return None if address is None else str(address)
