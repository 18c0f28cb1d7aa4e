"""Acceptor: accepts connections on one socket, with limits per round of the event loop, and per second and address.

asyncio's server accepts all waiting connections at once, and reports an encrypted connection only after the handshake. A flood of
connections would block the loop, and silent clients would use all descriptors.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from headstream.server.network.admission import HANDSHAKE_COST, Admission
from headstream.server.network.tls import TLS_SHUTDOWN_TIMEOUT_S
from headstream.server.reporting.logs import note

HANDSHAKE_S: Final = 5.0
"""Timeout of a handshake, seconds: three round trips over a slow connection, with a busy processor."""

_RETRY_S: Final = 1.0
"""Delay before the next accept if the system has no free descriptor, seconds."""


class Acceptor:
    """Accepts connections on one socket; runs in the event loop.

    Args:
        sock: A non-blocking listening socket, which the acceptor closes.
        count_free: Returns the number of additional connections that are allowed, without subtracting pending connections.
        evict_one: Closes a connection without a login; returns False if there is none: then the oldest pending connection is
            closed.
        refuse: Called for each connection that is closed because the limit is reached.
        most_pending: Maximum number of delayed connections and handshakes; above it, the oldest is aborted.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext | None,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        count_free: Callable[[], int],
        evict_one: Callable[[], bool],
        refuse: Callable[[], None],
        most_pending: int,
        admission: Admission,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._tls = tls
        self._make_protocol = make_protocol
        self._count_free = count_free
        self._evict_one = evict_one
        self._refuse = refuse
        self._most_pending = most_pending
        self._admission = admission
        self._cost = 1 if tls is None else HANDSHAKE_COST
        # Delayed connections and connections in a handshake; the socket is stored until a transport owns it.
        self._pending: dict[asyncio.Task[None], socket.socket | None] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock.fileno(), self._accept)

    @property
    def pending_count(self) -> int:
        """Number of connections that are delayed or in a handshake."""
        return len(self._pending)

    def close(self) -> None:
        """Stop accepting and abort pending connections; idempotent."""
        if self._sock.fileno() < 0:
            return
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        while self._pending:
            self._end_oldest()
        for task in self._opening:
            task.cancel()

    def _accept(self) -> None:
        quota, rates = self._admission.quota, self._admission.rates
        while quota.has_capacity:  # otherwise, the loop calls again in the next round
            try:
                accepted, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                note(logging.ERROR, "accept failed", error, retry_s=_RETRY_S)
                self._loop.remove_reader(self._sock.fileno())
                self._resuming = self._loop.call_later(_RETRY_S, self._loop.add_reader, self._sock.fileno(), self._accept)
                return
            quota.spend(self._cost)
            delay_s = rates.delay_s(address[0], self._loop.time())
            if delay_s is None or (self._is_pending(delay_s) and not self._make_space()):
                self._refuse()
                accepted.close()
                continue
            accepted.setblocking(False)
            task = self._loop.create_task(self._open(accepted, delay_s))
            self._opening.add(task)
            if self._is_pending(delay_s):
                self._pending[task] = accepted
            task.add_done_callback(functools.partial(self._opened, accepted))

    def _is_pending(self, delay_s: float) -> bool:
        """Return whether a new connection uses a descriptor before the protocol counts the connection."""
        return delay_s > 0 or self._tls is not None

    def _make_space(self) -> bool:
        """Close another connection if necessary; return whether a connection can be accepted."""
        if self._count_free() <= len(self._pending) and not self._evict_one():
            if not self._pending:
                return False
            self._end_oldest()
        if len(self._pending) >= self._most_pending:
            self._end_oldest()
        return True

    def _end_oldest(self) -> None:
        pending = next(iter(self._pending))
        accepted = self._pending.pop(pending)
        if accepted is not None:  # no transport owns the socket yet
            accepted.close()
        pending.cancel()

    async def _open(self, accepted: socket.socket, delay_s: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        if self._tls is None:
            self._pending.pop(task, None)
        else:
            self._pending[task] = None  # from here on, the transport closes the socket
        timeouts = (
            {} if self._tls is None else {"ssl_handshake_timeout": HANDSHAKE_S, "ssl_shutdown_timeout": TLS_SHUTDOWN_TIMEOUT_S}
        )
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, accepted, ssl=self._tls, **timeouts)
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError and timeouts are OSErrors
            note(logging.DEBUG, "connection failed", reason=str(error) or type(error).__name__)

    def _opened(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # before the task began, or during the delay: no transport owns the socket
            accepted.close()
        self._opening.discard(task)
        self._pending.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            note(logging.ERROR, "internal error", task.exception(), what="a new connection")
