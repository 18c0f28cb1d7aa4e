"""Intake: reads small requests of many connections with one epoll, without asyncio transports; compiled.

    one epoll for all idle connections -> the event loop calls read_ready()
        -> for each readable connection: bytes -> SmallRequests -> response
        -> all responses of the round together, because waking several clients at once costs less
        -> responses of waits that the requests have ended
        -> a spin of _SPIN_S for more requests if worthwhile: sleeping and waking costs more than a small request
    remaining bytes of a connection -> IntakeHandler.take(), which switches back to the transport if more bytes are needed

If epoll is not available (on systems other than Linux) or TLS is used, transports read all connections.
"""

from __future__ import annotations

import asyncio
import os
import select
from contextlib import suppress
from time import perf_counter
from typing import Final, Protocol

from headstream.core.codec.buffer import BytesLike
from headstream.server.iggy.fast_path.small_requests import SmallRequests
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.resources.wakeups import Wakeups

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.server.iggy.fast_path.uncompiled_socket_primitives import receive, send
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.server.iggy.fast_path.small_requests import SmallRequests
    from cython.cimports.headstream.server.iggy.fast_path.socket_primitives import receive, send
    from cython.cimports.headstream.server.iggy.fast_path.traffic import Traffic

_MAX_REQUESTS_PER_CALL: Final = 32
"""Number of requests that are answered before the event loop continues with other work."""

_MAX_EVENTS: Final = 64
"""Maximum number of connections returned by one epoll call."""

_SPIN_S: Final = 40e-6
"""Time for which the intake spins for the next request, seconds."""

_EARN_S: Final = 100e-6
"""A request within this time of the last round, seconds, earns a credit, because a spin could have received it."""

_SPIN_CREDIT_MAX: Final = 8
_SPIN_COST: Final = 16
"""Credits that an unsuccessful spin costs; the intake spins while credits are left."""


class IntakeHandler(Protocol):
    """The interface of a connection for the intake."""

    def respond(self, response: memoryview) -> None:
        """Write the part of a response that the socket has not accepted."""

    def take(self, received: memoryview) -> None:
        """Handle the remaining bytes, which are valid only during the call; empty at the end of the stream."""


class IdleConnection:
    """An idle connection without TLS, whose transport is paused; `short` answers the small requests."""

    def __init__(self, connection: IntakeHandler, transport: asyncio.Transport, short: SmallRequests) -> None:
        self.connection = connection
        self.transport = transport
        self.unsent_bytes = transport.get_write_buffer_size
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.short = short
        self.response: BytesLike = b""


class Intake:
    """Reads all idle connections of a server, in the event loop. The connections share the receive buffer `scratch`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scratch: bytearray, traffic: Traffic, wakeups: Wakeups) -> None:
        self._loop = loop
        self._scratch = scratch
        self._view = memoryview(scratch)
        self._traffic = traffic
        self._wakeups = wakeups
        self._due = wakeups.due
        self._epoll = select.epoll()
        self._idle: dict[int, IdleConnection] = {}
        self._answered: list[IdleConnection] = []
        self._spin_credit = 0
        self._last_round_s = 0.0
        self._is_single_core = len(os.sched_getaffinity(0)) == 1  # on one core, a spin keeps clients from running
        loop.add_reader(self._epoll.fileno(), self.read_ready)

    def begin(self, idle: IdleConnection) -> None:
        """Start reading a connection."""
        self._idle[idle.descriptor] = idle
        self._epoll.register(idle.descriptor, select.EPOLLIN)

    def end(self, idle: IdleConnection) -> None:
        """Stop reading a connection before its transport reads or is closed; repeated calls have no effect."""
        if self._idle.get(idle.descriptor) is idle:
            del self._idle[idle.descriptor]
            with suppress(OSError):  # a broken transport has closed the socket, and epoll has dropped it
                self._epoll.unregister(idle.descriptor)

    def close(self) -> None:
        """Stop reading all connections."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._idle.clear()

    def read_ready(self) -> None:
        """Answer all readable connections."""
        if perf_counter() - self._last_round_s < _EARN_S and self._spin_credit < _SPIN_CREDIT_MAX:
            self._spin_credit += 1
        done: cython.Py_ssize_t = 0
        while done < _MAX_REQUESTS_PER_CALL:
            events = self._find(done)
            if not events:
                break
            done += len(events)
            for descriptor, _ in events:
                found = self._idle.get(descriptor)
                if found is not None:
                    self._answer(found)
            for idle in self._answered:
                self._respond(idle)
            self._answered.clear()
            if self._due:
                self._wakeups.run()
        self._last_round_s = perf_counter()

    def _find(self, done: cython.Py_ssize_t) -> list[tuple[int, int]]:
        """Return the readable descriptors; spin for further descriptors while credits are left."""
        events: list[tuple[int, int]] = self._epoll.poll(0, _MAX_EVENTS)
        if events or not done or self._spin_credit <= 0 or self._is_single_core:
            return events
        until_s: cython.double = perf_counter() + _SPIN_S
        while not events and perf_counter() < until_s:
            events = self._epoll.poll(0, _MAX_EVENTS)
        self._spin_credit = _SPIN_CREDIT_MAX if events else self._spin_credit - _SPIN_COST
        return events

    def _answer(self, idle: IdleConnection) -> None:
        """Answer the received bytes of one connection."""
        try:
            count: cython.longlong = receive(idle.descriptor, c.writable(self._scratch), len(self._scratch))
            if count < 0:  # the transport reports the error
                idle.connection.take(self._view[:0])
            elif count > 0:
                self._traffic.received_bytes += count
                end, idle.response = idle.short.answer(self._view, count)
                at: cython.longlong = end
                if at == count:
                    self._answered.append(idle)
                else:
                    self._respond(idle)
                    idle.connection.take(self._view[at:count])
        except Exception as error:
            self._fail(idle, error)

    def _respond(self, idle: IdleConnection) -> None:
        """Send a response, if any."""
        response = idle.response
        size: cython.longlong = len(response)
        if size == 0:
            return
        idle.response = b""
        self._traffic.sent_bytes += size
        view = memoryview(response)
        try:
            done: cython.longlong = 0 if idle.unsent_bytes() else send(idle.descriptor, c.readable(view), size)
            if done < size:
                idle.connection.respond(view[done:])
        except Exception as error:
            self._fail(idle, error)

    def _fail(self, idle: IdleConnection, error: Exception) -> None:
        """Abort the connection in which an internal error occurred."""
        self._loop.call_exception_handler({"message": "internal error", "exception": error})
        self.end(idle)
        idle.transport.abort()
