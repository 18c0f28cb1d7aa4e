"""HttpConnections: the connections over HTTP, as aiohttp keeps them, within our limits and by our log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError

from headstream.broker.traffic import Traffic
from headstream.server.logs import note

__all__ = ["HttpConnections"]

_LINGERING_S: Final = 1.0
"""For so long a body that was refused is still read, so that who sends it gets to read why."""


def _is_fault(record: logging.LogRecord) -> bool:
    """Return whether what aiohttp logs is a fault; what a client does wrong is a line without a traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
        return True
    address = record.args[0] if isinstance(record.args, tuple) and record.args else None
    note(logging.INFO, "request not understood", address=address, reason=str(error)[:200])
    return False


_LOGGER: Final = logging.getLogger("headstream.server.http")
"""What aiohttp logs by."""

_LOGGER.addFilter(_is_fault)


class _HttpConnection(web.RequestHandler):
    """One connection; aiohttp's own waits for the rest of a body that has broken, though there can be none."""

    body: StreamReader | None = None
    """That of the request which is being answered."""

    def data_received(self, data: bytes) -> None:
        """Take bytes; a body whose next chunk is none ends with an error."""
        super().data_received(data)
        if self._messages:  # with a body that has not ended before it, this is no request: it is what the parser complains of
            before = self._messages[-2][1] if len(self._messages) > 1 else self.body
            if before is not None and not before.is_eof():
                before.set_exception(web.RequestPayloadError("a chunk of a body that is none"))


class HttpConnections(web.Server):
    """All connections; those beyond the limit are closed at once.

    Args:
        most: How many there may be.
        traffic: Where they are counted.
        handle: Answers a request.
        idle_s: How long one may be silent between requests, seconds.
    """

    def __init__(self, most: int, traffic: Traffic, handle: Callable[[web.BaseRequest], Any], idle_s: float) -> None:
        super().__init__(handle, request_factory=self._request, handler_cancellation=True)
        self._most = most
        self._traffic = traffic
        self._idle_s = idle_s

    def __call__(self) -> _HttpConnection:
        """Return what a new connection is kept by."""
        return _HttpConnection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # none at all
            logger=_LOGGER,
            keepalive_timeout=self._idle_s,
            lingering_time=_LINGERING_S,
        )

    def count_room(self) -> int:
        """Return how many more connections there may be."""
        return self._most - self._traffic.connections

    def refuse(self) -> None:
        """Count a connection that was closed because there was no room."""
        self._traffic.refused_connections += 1

    @staticmethod
    def _request(message: Any, payload: StreamReader, protocol: web.RequestHandler, writer: Any, task: Any) -> web.BaseRequest:
        assert isinstance(protocol, _HttpConnection)
        protocol.body = payload
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection, or close it."""
        super().connection_made(handler, transport)
        self._traffic.connections += 1
        if self._traffic.connections > self._most:
            self._traffic.refused_connections += 1
            handler.force_close()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Take note that a connection has ended."""
        super().connection_lost(handler, exc)
        self._traffic.connections -= 1
