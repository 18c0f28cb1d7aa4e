"""HttpConnections: extends aiohttp's connections with limits and log lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError

from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.network.unauthenticated_connections import UnauthenticatedConnections
from headstream.server.reporting.logs import note

_LINGERING_S: Final = 1.0
"""Time for which a rejected body is still read, seconds, so that the client receives the reply."""


def _is_fault(record: logging.LogRecord) -> bool:
    """Return whether a log record is an internal error; client errors are logged in one line without a traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
        return True
    address = record.args[0] if isinstance(record.args, tuple) and record.args else None
    note(logging.INFO, "invalid request", address=address, reason=str(error)[:200])
    return False


_LOGGER: Final = logging.getLogger("headstream.server.http")
"""The logger that aiohttp uses."""

_LOGGER.addFilter(_is_fault)


class _HttpConnection(web.RequestHandler):
    """One connection; unlike aiohttp's handler, it does not wait for the rest of a malformed body."""

    body: StreamReader | None = None
    """The body of the current request."""

    is_logged_in = False
    """Whether a request with a valid token was received."""

    @property
    def is_busy(self) -> bool:
        """Whether a request with a complete body is being answered."""
        return self._current_request is not None and (self.body is None or self.body.is_eof())

    def abort(self) -> None:
        """Close immediately."""
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; raise an error for a body with an invalid chunk."""
        super().data_received(data)
        if self._messages:  # a message after an unfinished body is not a request: it is the parser's error
            before = self._messages[-2][1] if len(self._messages) > 1 else self.body
            if before is not None and not before.is_eof():
                before.set_exception(web.RequestPayloadError("invalid chunk of a body"))


class HttpConnections(web.Server):
    """All HTTP connections; connections above the limit are closed immediately.

    Args:
        most: Maximum number of connections.
        idle_s: Timeout of a connection without data between requests, seconds.
    """

    def __init__(self, most: int, traffic: Traffic, handle: Callable[[web.BaseRequest], Any], idle_s: float) -> None:
        super().__init__(handle, request_factory=self._request, handler_cancellation=True)
        self._most = most
        self._traffic = traffic
        self._idle_s = idle_s
        self._unauthenticated = UnauthenticatedConnections[_HttpConnection](_HttpConnection.abort)

    def __call__(self) -> _HttpConnection:
        """Return the protocol of a new connection."""
        return _HttpConnection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # disables it
            logger=_LOGGER,
            keepalive_timeout=self._idle_s,
            lingering_time=_LINGERING_S,
        )

    def count_free(self) -> int:
        """Return the number of additional connections that are allowed."""
        return self._most - self._traffic.connections

    def evict_one(self) -> bool:
        """Close the oldest connection that has sent no valid token; return whether a connection was closed."""
        return self._unauthenticated.end_oldest()

    @staticmethod
    def authenticated(protocol: web.RequestHandler) -> None:
        """Record that a connection has sent a request with a valid token."""
        assert isinstance(protocol, _HttpConnection)
        protocol.is_logged_in = True

    @staticmethod
    def is_authenticated(protocol: web.RequestHandler) -> bool:
        """Return whether a connection has sent a request with a valid token."""
        assert isinstance(protocol, _HttpConnection)
        return protocol.is_logged_in

    def refuse(self) -> None:
        """Count a connection that was closed because of the limit."""
        self._traffic.refused_connections += 1

    @staticmethod
    def _request(message: Any, payload: StreamReader, protocol: web.RequestHandler, writer: Any, task: Any) -> web.BaseRequest:
        assert isinstance(protocol, _HttpConnection)
        protocol.body = payload
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Register a connection; at the limit, close an unauthenticated connection, or else the new connection."""
        super().connection_made(handler, transport)
        self._traffic.connections += 1
        assert isinstance(handler, _HttpConnection)
        if self._traffic.connections > self._most and not self.evict_one():
            self.refuse()
            handler.force_close()
            return
        self._unauthenticated.add(handler)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Count a closed connection."""
        super().connection_lost(handler, exc)
        assert isinstance(handler, _HttpConnection)
        self._unauthenticated.discard(handler)
        self._traffic.connections -= 1
