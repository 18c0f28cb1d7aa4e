"""HttpServer: serves commands and other routes over HTTP.

    request -> token -> find_route -> decode_http -> Dispatcher.answer -> encode_http_reply -> response
               401      404 405       400 415 413 422     400 403 404

Each request has a separate session, which is not listed as a client. Slow commands run on a worker thread; waits for messages
block no thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl as tls
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from aiohttp import web

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.messages import JSON_BYTES, begin_wait, searches_states
from headstream.broker.commands.table import codes_where
from headstream.core.model.topology import Fsync
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.sessions import LoggedIn, Login
from headstream.core.wire.commands.tokens import LoginWithToken
from headstream.core.wire.extensions.filters import FilterMessages
from headstream.core.wire.extensions.messages import AppendMessages, FetchMessages, WaitMessages
from headstream.core.wire.extensions.producers import AppendNumbered
from headstream.core.wire.records import NOTHING, Command
from headstream.core.wire.refusals import status_of
from headstream.core.wire.route_matching import FoundRoute, find_methods, find_route
from headstream.core.wire.shapes import Identifier
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr import http as vsr_http
from headstream.errors import AuthenticationError, DecodeError, HeadstreamError, NotFoundError
from headstream.server.config.http_settings import CorsSettings, HttpSettings
from headstream.server.http.connections import HttpConnections
from headstream.server.http.console.console import Console
from headstream.server.http.hosts import Hosts
from headstream.server.http.pages import Pages
from headstream.server.http.pipeline_reports import NO_PIPELINES, PipelineReports
from headstream.server.http.replies import (
    NOT_FOUND,
    OWN_HEADERS,
    UNAUTHORIZED,
    Reply,
    command_reply,
    misspelled_reply,
    refused_reply,
    text_reply,
)
from headstream.server.http.requests import (
    RefusedBodyError,
    address_of,
    bounded_for_json,
    is_binary,
    peer_of,
    read_body,
    read_query,
    read_token,
    wants_binary,
)
from headstream.server.http.tokens import AccessTokens, Claims
from headstream.server.http.views import VIEW_BYTES, Views
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.network.acceptor import Acceptor
from headstream.server.network.addresses import Address
from headstream.server.network.admission import Admission
from headstream.server.network.sockets import listen
from headstream.server.reporting.logs import note
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES, MemoryAccount, MemoryBudget
from headstream.server.resources.workers import Workers

# CORS headers, which permit requests from pages of other origins; no token is required.

_VARY: Final = "origin, access-control-request-method, access-control-request-headers"


def cors_headers(settings: CorsSettings, request: Mapping[str, str]) -> dict[str, str]:
    """Return the CORS headers of every response."""
    headers = {"Vary": _VARY}
    origin = request.get("Origin")
    if "*" in settings.allowed_origins:
        headers["Access-Control-Allow-Origin"] = "*"
    elif origin and origin in settings.allowed_origins:
        headers["Access-Control-Allow-Origin"] = origin
    if settings.allow_credentials:
        headers["Access-Control-Allow-Credentials"] = "true"
    exposed = [name for name in settings.exposed_headers if name]
    if exposed:
        headers["Access-Control-Expose-Headers"] = ",".join(exposed)
    return headers


def preflight_headers(settings: CorsSettings, request: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the response to a preflight request (OPTIONS); for arguments see cors_headers()."""
    headers = cors_headers(settings, request)
    headers.pop("Access-Control-Expose-Headers", None)
    for name, allowed in (("Methods", settings.allowed_methods), ("Headers", settings.allowed_headers)):
        named = [item for item in allowed if item]
        if named:
            headers[f"Access-Control-Allow-{name}"] = ",".join(named)
    if settings.allow_private_network and request.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


_BIG_BODY_BYTES: Final = 16_384
"""JSON bodies from this size on are decoded on a worker thread."""

_FEW_MESSAGES: Final = 20
"""Maximum messages that are encoded as JSON in the event loop; more messages are encoded on a worker thread."""

_QUICK: Final = codes_where(lambda row: row.is_quick)

_QUICK_BYTES: Final = 128 << 10
"""Memory reserved for reading a few messages, bytes."""

_JSON_GROWTH: Final = 2
"""Minimum factor by which JSON enlarges messages."""

_PENDING_SHARE: Final = 4
"""1/n of the connections can be in a TLS handshake or wait to be accepted."""

_T = TypeVar("_T")


class HttpServer:
    """Serves a dispatcher's commands over HTTP; used in one event loop.

    Args:
        workers: The threads for slow commands, which the caller closes.
        traffic: Counters of each transport, including `http`, for the metrics.
        admission: The rules for accepting connections and for answering unauthenticated clients.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: HttpSettings,
        tokens: AccessTokens,
        workers: Workers,
        traffic: list[Traffic],
        budget: MemoryBudget,
        admission: Admission,
        pipelines: PipelineReports = NO_PIPELINES,
    ) -> None:
        self._dispatcher = dispatcher
        self._log = dispatcher.broker.backing.log
        self._settings = settings
        self._tokens = tokens
        self._workers = workers
        self._budget = budget
        self._admission = admission
        self._traffic = next(one for one in traffic if one.transport == "http")
        self.pages = Pages(dispatcher, settings, tokens, traffic, budget)
        self._views = Views(traffic, pipelines)
        self._console = Console(tokens, is_served=settings.console)
        self._listener: Acceptor | None = None
        self._handlers: HttpConnections | None = None
        self._hosts: Hosts | None = None
        self._is_stopping = False
        self._waits: set[asyncio.Event] = set()

    def show(self, traffic: Traffic) -> None:
        """Add another transport's counters to the metrics."""
        self.pages.show(traffic)
        self._views.show(traffic)

    @property
    def waiting_count(self) -> int:
        """Number of requests that wait for messages."""
        return len(self._waits)

    async def start(self, host: str, port: int, ssl: tls.SSLContext | None = None) -> tuple[str, int]:
        """Start serving; return the bound host and port. Port 0 means any free port."""
        settings = self._settings
        self._hosts = Hosts(host, settings.allowed_hosts, settings.cors.allowed_origins if settings.cors else ())
        handlers = self._handlers = HttpConnections(settings.max_connections, self._traffic, self._handle, settings.idle_s)
        sock, bound = listen(Address(host, port))
        self._listener = Acceptor(
            sock,
            ssl,
            handlers,
            handlers.count_free,
            handlers.evict_one,
            handlers.refuse,
            max(settings.max_connections // _PENDING_SHARE, 1),
            self._admission,
        )
        self._console.bind(bound[1], is_secure=ssl is not None)
        return bound

    async def stop(self) -> None:
        """Stop accepting requests, complete running requests, and close; idempotent."""
        listener, handlers, self._listener, self._handlers = self._listener, self._handlers, None, None
        if listener is None or handlers is None:
            return
        listener.close()
        self._is_stopping = True
        for notified in self._waits:
            notified.set()
        handlers.pre_shutdown()
        await handlers.shutdown(self._settings.drain_s)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not HttpConnections.is_authenticated(request.protocol):
            await self._admission.quota.wait()
        memory = self._budget.open(peer_of(request))
        try:
            return await self._respond(request, memory)
        finally:
            memory.close()

    async def _respond(self, request: web.BaseRequest, memory: MemoryAccount) -> web.StreamResponse:
        started = time.perf_counter()
        cors = self._settings.cors
        code = 0
        assert self._hosts is not None  # start() has set it
        if (refused := self._hosts.refuse(request)) is not None:
            reply = refused
        elif request.method == "OPTIONS" and cors is not None:
            reply = Reply(200, headers=preflight_headers(cors, request.headers))
        else:
            code, reply = await self._answer(request, memory)
            if cors is not None:
                allowed = cors_headers(cors, request.headers)
                if "Vary" in reply.headers:
                    allowed["Vary"] += f", {reply.headers['Vary']}"
                reply = reply._replace(headers={**reply.headers, **allowed})
        memory.hold_requests(0)
        memory.note_responses(len(reply.body))
        kind = {} if reply.content_type is None else {"Content-Type": reply.content_type}
        headers = {**OWN_HEADERS, **reply.headers, **kind}
        response = web.Response(status=reply.http_status, body=reply.body or None, headers=headers)
        try:
            with suppress(ConnectionResetError):  # the client has disconnected
                async with asyncio.timeout(self._settings.reply_s):
                    await response.prepare(request)
                    await response.write_eof()
        except TimeoutError:
            note(logging.WARNING, "closed: sending the reply timed out", address=peer_of(request))
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._count(request, code, reply, time.perf_counter() - started)
        return response

    def _count(self, request: web.BaseRequest, code: int, reply: Reply, seconds: float) -> None:
        traffic = self._traffic
        traffic.answered(code, reply.status, seconds)
        traffic.received_bytes += request.content.total_bytes
        traffic.sent_bytes += len(reply.body)

    async def _answer(self, request: web.BaseRequest, memory: MemoryAccount) -> tuple[int, Reply]:
        """Return the code of the command (0 if the request is not a command) and the reply."""
        code = 0
        try:
            method = "GET" if request.method == "HEAD" else request.method
            path = request.rel_url.raw_path
            page = self.pages.find(method, path)
            if page is not None:
                body = await self._read_body(request, memory, is_unauthenticated=True) if method == "POST" else b""
                pool = Code.STATS if path == self._settings.metrics_path else 0
                return code, await self._run(pool, peer_of(request).rpartition(":")[0], page, body)
            found = find_route(method, path)
            claims = None
            if found is None and (file := self._console.find(method, path, request.headers.get("accept-encoding", ""))):
                return code, file
            if found is None or found.entry.needs_login:
                claims = self._verify(request)
                if claims is None:
                    return code, UNAUTHORIZED
                memory.log_in(claims.user_id)
                HttpConnections.authenticated(request.protocol)
                if found is None:
                    return code, await self._answer_view(request, method, path, claims, memory)
            code = int(found.entry.code)
            most_binary_bytes = self._settings.max_binary_bytes if COMMANDS[found.entry.code].has_messages else 0
            body = b""
            if method in ("POST", "PUT"):
                body = await self._read_body(request, memory, most_binary_bytes, is_unauthenticated=claims is None)
            reply = await self._answer_command(request, found, claims, body, memory)
            return code, self._console.with_cookie(request.headers, found.entry.code, reply)
        except RefusedBodyError as refused:
            return code, refused.reply
        except DecodeError as error:
            return code, misspelled_reply(error, self._log)
        except Exception as error:
            return code, refused_reply(error, self._log)

    async def _answer_view(
        self, request: web.BaseRequest, method: str, path: str, claims: Claims, memory: MemoryAccount
    ) -> Reply:
        """Answer a request for a view; its commands run with the rights of the user."""
        found = self._views.find(method, path)
        if found is None:
            return self._missing(path)
        session = Session.over_http(peer_of(request), claims.user_id, claims.generation, claims.token_id)
        ask = functools.partial(self._dispatcher.answer, session)
        query = read_query(request.rel_url.raw_query_string)
        body = await self._read_body(request, memory, is_unauthenticated=False) if method == "POST" else b""
        answer = self._views.answering(found, ask, claims.user_id, query, body)
        await memory.hold_soon(VIEW_BYTES)
        reply = await self._run(found.view.code, session.client, answer)
        return self._console.renewed(request.headers, path, claims, reply)

    async def _answer_command(
        self, request: web.BaseRequest, found: FoundRoute, claims: Claims | None, body: bytes, memory: MemoryAccount
    ) -> Reply:
        code = found.entry.code
        kind = COMMANDS[code]
        is_today = claims is not None and claims.is_today and not found.entry.is_extension
        if body and is_binary(request):
            decode = functools.partial(kind.decode_binary_http, found.path, body)
        else:
            of_form: Callable[..., Command[Any]] = kind.decode_http
            if is_today:
                of_form = functools.partial(vsr_http.decode_request, kind)
            decode = functools.partial(of_form, found.path, read_query(request.rel_url.raw_query_string), body)
        command: Command[Any] = decode() if len(body) < _BIG_BODY_BYTES else await self._run(0, 0, decode)
        if isinstance(command, Login) and command.is_of_today:
            command, is_today = replace(command, version=None), True
        login = (claims.user_id, claims.generation, claims.token_id) if claims else ()
        session = Session.over_http(peer_of(request), *login)
        session.server_address = address_of(request)
        try:
            command.validate()
            if isinstance(command, (WaitMessages, FetchMessages)) and command.timeout_ms:
                await self._wait(session, command)
            in_binary = kind.has_messages and wants_binary(request)
            if not in_binary:
                command = bounded_for_json(command)
            reply_to = functools.partial(self._reply_to, session, command, claims, in_binary, is_today)
            is_quick = self._is_quick(command, body)
            if isinstance(command, (PollMessages, FetchMessages, FilterMessages)):
                await memory.hold_soon(len(body) + self._expected_bytes(is_quick=is_quick, in_binary=in_binary))
            return reply_to() if is_quick else await self._run(code, session.client, reply_to)
        except DecodeError as error:  # the command is valid, but the messages are not
            return refused_reply(error, self._log)

    def _is_quick(self, command: Command[Any], body: bytes) -> bool:
        """Return whether a command runs in the event loop, because switching threads would cost more than the command."""
        if isinstance(command, (PollMessages, FetchMessages)):
            return command.count <= _FEW_MESSAGES and not searches_states(command)
        if isinstance(command, (SendMessages, AppendMessages, AppendNumbered)):
            return len(body) < _BIG_BODY_BYTES and not self._is_synced(command.stream, command.topic)
        return command.code in _QUICK

    def _expected_bytes(self, *, is_quick: bool, in_binary: bool) -> int:
        """Return the number of bytes to reserve before messages are read; the actual size is counted afterwards."""
        if is_quick:  # no other read runs meanwhile
            return _QUICK_BYTES
        most_bytes = self._dispatcher.poll_bytes
        return min(most_bytes if in_binary else _JSON_GROWTH * min(most_bytes, JSON_BYTES), self._budget.total_bytes // 8)

    def _is_synced(self, stream: Identifier, topic: Identifier) -> bool:
        """Return whether a send waits for the disk."""
        try:
            return self._dispatcher.lookup.topic(stream, topic).topic.fsync is Fsync.ALWAYS
        except NotFoundError:
            return False

    def _reply_to(self, session: Session, command: Command[Any], claims: Claims | None, in_binary: bool, is_today: bool) -> Reply:
        """Return the reply to a command; thread-safe."""
        try:
            value = self._dispatcher.answer(session, command)
        except HeadstreamError as error:
            if isinstance(command, (Login, LoginWithToken)):
                name = command.username if isinstance(command, Login) else None
                status, address = status_of(error), session.address
                note(logging.WARNING, "login refused", address=address, status=status, reason=error.what, name=name)
            raise
        kind, entry = type(command), command.entry()
        if value is None and kind.reply is not NOTHING:
            return NOT_FOUND
        if isinstance(value, LoggedIn):
            value = LoggedIn(value.user_id, self._tokens.issue(value.user_id, session.generation, is_today=is_today))
        elif entry.code == Code.LOGOUT and claims is not None:
            self._tokens.revoke(claims)
        return command_reply(command, value, in_binary=in_binary, is_today=is_today)

    async def _wait(self, session: Session, command: WaitMessages | FetchMessages) -> None:
        """Wait until messages are available, the timeout expires, or the server stops."""
        loop, notified = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                loop.call_soon_threadsafe(notified.set)

        wait = begin_wait(self._dispatcher, session, command, notify)
        self._waits.add(notified)
        try:
            async with asyncio.timeout(command.timeout_ms / 1000):
                while not (wait.is_ready or self._is_stopping):
                    await notified.wait()
                    notified.clear()
        except TimeoutError:
            return
        finally:
            self._waits.discard(notified)
            wait.cancel()

    def _verify(self, request: web.BaseRequest) -> Claims | None:
        token = read_token(request.headers) or self._console.read_token(request.headers)
        if token is None:
            return None
        try:
            return self._tokens.verify(token)
        except AuthenticationError as error:
            note(logging.INFO, "invalid access token", address=peer_of(request), reason=error.what)
            return None

    async def _read_body(
        self, request: web.BaseRequest, memory: MemoryAccount, most_binary_bytes: int = 0, *, is_unauthenticated: bool
    ) -> bytes:
        most_bytes = UNAUTHENTICATED_BYTES if is_unauthenticated else self._settings.max_body_bytes
        return await read_body(request, most_bytes, self._settings.body_s, memory.hold_soon, most_binary_bytes)

    async def _run(self, code: int, client: int | str, work: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.wrap_future(self._workers.submit(code, functools.partial(work, *arguments), client))

    def _missing(self, path: str) -> Reply:
        methods = sorted({*find_methods(path), *self.pages.find_methods(path), *self._views.find_methods(path)})
        if not methods:
            return NOT_FOUND
        reply = text_reply(405, f"{path} supports only {', '.join(methods)}", Status.INVALID_COMMAND)
        return reply._replace(headers={"Allow": ",".join(methods)})
