"""The interface of connections to a server. A command's reply must be received before the next command is sent."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from headstream.client.closing import limited
from headstream.client.transports.remote.address import ServerUrl
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands.sessions import LoggedIn, Login
from headstream.core.wire.commands.tokens import LoginWithToken
from headstream.core.wire.records import Command
from headstream.errors import (
    AuthenticationError,
    HeadstreamError,
    InvalidOptionError,
    NotFoundError,
    OutcomeUnknownError,
    ServerUnreachableError,
)
from headstream.version import __version__

_R = TypeVar("_R")
_TLS_PROBE_S: Final = 2.0
"""Timeout of a handshake that only improves an error message, seconds."""


class Connection(Protocol):
    """One logged-in connection; not thread-safe."""

    @property
    def is_usable(self) -> bool:
        """Whether the socket is still open; sends no request."""

    def send(self, command: Command[Any], wait_ms: float = 0) -> None:
        """Send a command; `wait_ms` is additional time for the response. OutcomeUnknownError if the connection broke.

        Raises:
            InvalidInputError: the protocol cannot express the command; nothing was sent.
        """

    def has_reply(self, wait_ms: int) -> bool:
        """Return whether a reply starts to arrive within `wait_ms` milliseconds."""

    def receive(self, command: Command[_R]) -> _R:
        """Return the reply, or raise the server's error; OutcomeUnknownError if the connection broke or timed out."""

    def interrupt(self) -> None:
        """Break the connection; called from a different thread."""

    def close(self) -> None:
        """Close the connection, even with a pending reply."""


class Connector(Protocol):
    """Opens connections to one server."""

    def connect(self, begin: Callable[[Connection], None]) -> Connection:
        """Call `begin` with a new, logged-in connection; return the connection. ServerUnreachableError, AuthenticationError."""


def login_of(address: ServerUrl) -> Command[LoggedIn]:
    """Return the login command for an address; the client announces support for extensions."""
    if address.token is not None:
        return LoginWithToken(address.token, __version__, EXTENSION_CONTEXT)
    return Login(address.username or "", address.password, __version__, EXTENSION_CONTEXT)


def unreachable(address: ServerUrl, error: Exception) -> ServerUnreachableError:
    """Return the error for a connection that cannot be opened."""
    advice = "Check that the server is running, and that the URL is correct"
    if isinstance(error, TimeoutError):
        reason = f"no answer within {address.options.connect_timeout_ms} ms"
    elif isinstance(error, ssl.SSLCertVerificationError):
        reason = f"the server's certificate is not trusted: {error.verify_message}"
    elif isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        is_http = address.scheme == "https"
        reason = "the port does not support TLS"
        advice = "Begin the URL with http://" if is_http else "Omit tls=true, or use the TLS port of the server"
    elif _is_refusal_of_plain_bytes(error) and not address.options.tls and _speaks_tls(address):
        reason = "the port requires TLS"
        advice = "Begin the URL with https://" if address.scheme == "http" else "Add tls=true to the URL: ...:8090?tls=true"
    elif isinstance(error, HeadstreamError):
        reason = error.what
    else:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ServerUnreachableError(f"the server cannot be reached: {reason}", where=address.place, advice=advice)


def _is_refusal_of_plain_bytes(error: Exception) -> bool:
    """Return whether a connection ended the way TLS servers end plain connections: closed, reset, or with an alert."""
    return isinstance(error, (OutcomeUnknownError, ConnectionError)) and not isinstance(error, ConnectionRefusedError)


def _speaks_tls(address: ServerUrl) -> bool:
    """Return whether a TLS handshake with the server succeeds; the certificate is not checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    timeout_s = limited(min(address.options.connect_timeout_ms / 1000, _TLS_PROBE_S))
    try:
        with (
            socket.create_connection((address.host, address.port), timeout_s) as link,
            context.wrap_socket(link, server_hostname=address.host),
        ):
            return True
    except OSError:
        return False


def lost(address: ServerUrl, error: Exception | str) -> OutcomeUnknownError:
    """Return the error for a connection that broke with a pending reply."""
    if isinstance(error, TimeoutError):
        error = f"no answer within {address.options.timeout_ms} ms"
    reason = str(error)
    return OutcomeUnknownError(
        f"the connection to the server broke: {reason if reason.isprintable() else repr(reason)}",
        where=address.place,
        advice="The outcome of the command is unknown: check the outcome before repeating the command",
    )


def log_in(connection: Connection, address: ServerUrl) -> None:
    """Log in over a new connection; AuthenticationError if the login is refused."""
    login = login_of(address)
    try:
        connection.send(login)
        connection.receive(login)
    except (AuthenticationError, NotFoundError) as error:  # an unknown token is "not found"
        raise explain_login(address, error) from None


def explain_login(address: ServerUrl, error: HeadstreamError) -> AuthenticationError:
    """Return the error for a refused login, with user and server."""
    advice = "Check the user name and the password"
    if address.token is not None:
        advice = "The token may have expired or been deleted: create a new token with `headstream token create`"
    explained = AuthenticationError(f"{address.who} cannot log in: {error.what}", where=address.place, advice=advice)
    explained.status = error.status
    return explained


def make_tls(address: ServerUrl) -> ssl.SSLContext:
    """Return the TLS context that checks a server's certificate; InvalidOptionError if trusted certificates cannot be loaded."""
    try:
        context = ssl.create_default_context(cafile=address.options.tls_ca_file)
    except OSError as error:
        raise InvalidOptionError(
            f"cannot load tls_ca_file: {error.strerror or error}",
            where=address.options.tls_ca_file,
            advice="Specify a PEM file with certificates",
        ) from None
    if not address.options.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def break_link(link: socket.socket) -> None:
    """Break a socket on which another thread can be blocked; sends no TLS shutdown."""
    with suppress(OSError):
        socket.socket.shutdown(link, socket.SHUT_RDWR)


def has_something(link: socket.socket, wait_ms: int = 0) -> bool:
    """Return whether a socket is readable; an idle socket is usually readable because the server closed the connection."""
    try:
        poll = select.poll()
        poll.register(link, select.POLLIN | select.POLLERR | select.POLLHUP)
        return bool(poll.poll(wait_ms))
    except (OSError, ValueError):
        return True
