"""A keep-alive HTTP connection: commands are requests, replies are JSON, and messages have the same bytes as over TCP."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from headstream.client.closing import limited
from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.connection import (
    Connection,
    break_link,
    explain_login,
    has_something,
    login_of,
    lost,
    make_tls,
    unreachable,
)
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.wire.commands.sessions import AccessToken
from headstream.core.wire.records import BINARY, NOTHING, Command
from headstream.core.wire.refusals import refusal_from_json
from headstream.core.wire.statuses import Status
from headstream.errors import AuthenticationError, HeadstreamError, LimitError, NotFoundError, OutcomeUnknownError, ServerError
from headstream.forks import close_copy, register_for_forks

_R = TypeVar("_R")
_NOT_LOGGED_IN: Final = (None, Status.UNAUTHENTICATED, Status.ACCESS_TOKEN_MISSING, Status.INVALID_ACCESS_TOKEN)
"""Statuses of a refused access token; the server usually sends only 401."""
_JSON: Final = "application/json"
_EARLY_S: Final = 30
"""Time before its expiry at which an access token is renewed, seconds."""


class HttpConnector:
    """Opens connections to one server, which share one access token."""

    def __init__(self, address: ServerUrl) -> None:
        self._address = address
        self._tls = make_tls(address) if address.options.tls else None
        self._lock = threading.Lock()
        self._access: AccessToken | None = None
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: log in again, because the access token belongs to the parent's session."""
        self._lock = threading.Lock()
        self._access = None

    def connect(self, begin: Callable[[Connection], None]) -> HttpConnection:
        address, timeout_s = self._address, limited(self._address.options.connect_timeout_ms / 1000)
        if self._tls is None:
            link = http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
        else:
            link = _TlsConnection(address, timeout=timeout_s, context=self._tls)
        connection = HttpConnection(address, link, self)
        begin(connection)
        try:
            link.connect()
            self.show(connection)
        except (OSError, OutcomeUnknownError) as error:
            link.close()
            raise unreachable(address, error) from error
        except BaseException:
            link.close()
            raise
        return connection

    def show(self, connection: HttpConnection, refused: str | None = None) -> str:
        """Return the access token; log in if there is no token, the token expires, or the server has `refused` it."""
        with self._lock:
            access = self._access
            if access is None or access.token == refused or access.expiry - _EARLY_S < time.time():
                access = self._access = self._log_in(connection)
            return access.token

    def _log_in(self, connection: HttpConnection) -> AccessToken:
        address = self._address
        try:
            found = connection.exchange(login_of(address), None)
        except (AuthenticationError, NotFoundError) as error:  # an unknown token is "not found"
            raise explain_login(address, error) from None
        if found.access_token is None:
            raise ServerError(
                "the server returned no access token for the login", where=address.place, advice="Check the server's version"
            )
        return found.access_token


class _TlsConnection(http.client.HTTPSConnection):
    """A TLS connection that checks the certificate for a name that differs from the host."""

    def __init__(self, address: ServerUrl, **options: Any) -> None:
        super().__init__(address.host, address.port, **options)
        self._domain = address.options.tls_domain or address.host
        self._tls = options["context"]

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._domain)


class HttpConnection:
    """One connection; see Connection. The connector holds the access token."""

    def __init__(self, address: ServerUrl, link: http.client.HTTPConnection, connector: HttpConnector) -> None:
        self._address = address
        self._link = link
        self._connector = connector
        self._shown: str | None = None
        self._wait_ms = 0.0
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: leave the connection to the parent process."""
        link, self._link.sock = self._link.sock, None
        if link is not None:
            close_copy(link)

    @property
    def is_usable(self) -> bool:
        return self._link.sock is not None and not has_something(self._link.sock)

    def send(self, command: Command[Any], wait_ms: float = 0) -> None:
        self._wait_ms = wait_ms
        self._shown = self._connector.show(self)
        self._request(command, self._shown)

    def has_reply(self, wait_ms: int) -> bool:
        return self._link.sock is None or has_something(self._link.sock, wait_ms)

    def receive(self, command: Command[_R]) -> _R:
        """Return the reply to the sent command; log in again if the login has expired. See Connection."""
        try:
            return self._reply(command)
        except AuthenticationError as error:
            if error.status not in _NOT_LOGGED_IN:
                raise
            self._shown = self._connector.show(self, self._shown)
            return self.exchange(command, self._shown)

    def exchange(self, command: Command[_R], token: str | None) -> _R:
        """Send a command, with or without an access token, and return the reply."""
        self._request(command, token)
        return self._reply(command)

    def _request(self, command: Command[Any], token: str | None) -> None:
        headers = dict[str, str]()
        if command.has_messages and command.takes_body:
            method, path, body = "POST", command.to_path(), b"".join(command.encode_pieces())
            headers |= {"Accept": f"{BINARY}, {_JSON}", "Content-Type": BINARY}
        else:
            asked = command.to_json()
            path = f"{asked.path}?{urlencode(asked.query)}" if asked.query else asked.path
            method, body = asked.method, b"" if asked.body is None else encode_json(asked.body)
            accepted = f"{BINARY}, {_JSON}" if command.has_messages else _JSON
            headers |= {"Accept": accepted} | ({"Content-Type": _JSON} if body else {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._link.timeout = limited((self._address.options.timeout_ms + self._wait_ms) / 1000)
            if self._link.sock is not None:
                self._link.sock.settimeout(self._link.timeout)
            self._link.request(method, path, body or None, headers)
        except (OSError, http.client.HTTPException) as error:
            raise lost(self._address, error) from error

    def _reply(self, command: Command[_R]) -> _R:
        try:
            response = self._link.getresponse()
            has_length = response.length is not None or response.chunked
            body = response.read()
        except http.client.RemoteDisconnected as error:
            raise lost(self._address, error) from error
        except http.client.BadStatusLine as error:
            raise lost(self._address, "the server does not speak HTTP") from error
        except (OSError, http.client.HTTPException) as error:
            raise lost(self._address, error) from error
        if not has_length:  # http.client accepts truncated headers as complete, even within a value
            raise lost(self._address, "the server closed the connection during a response")
        is_json = (response.getheader("Content-Type") or "").partition(";")[0].strip() == _JSON
        if response.status >= 300:
            refused = self._refusal(response.status, body if is_json else b"")
            if response.status == 404 and type(command).reply.is_optional and refused.status in (None, 404):
                return None  # type: ignore[return-value]  # nothing was found
            raise refused
        kind = type(command)
        if kind.reply is NOTHING:
            return kind.reply_from_json(None)
        return kind.reply_from_json(decode_json(body)) if is_json else kind.decode_reply(body)

    def _refusal(self, status: int, body: bytes) -> HeadstreamError:
        error = refusal_from_json(decode_json(body)) if body else None
        if error is not None:
            return error
        text = f"the server answered {status} {http.client.responses.get(status, '')}".rstrip()
        if status == 413:
            advice = (
                "Send smaller batches (batch_bytes), or raise the server's headstream.max_frame_size or http.max_request_size"
            )
            return LimitError("a request exceeds the server's size limit for HTTP", where=self._address.place, advice=advice)
        if status >= 500:  # usually from a proxy, which may have forwarded the request
            return lost(self._address, text)
        if status == 401:
            return AuthenticationError(text, where=self._address.place)
        return ServerError(text, where=self._address.place, advice="Check that a Headstream server is listening at this address")

    def interrupt(self) -> None:
        if self._link.sock is not None:
            break_link(self._link.sock)

    def close(self) -> None:
        self._link.close()
