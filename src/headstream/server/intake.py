"""Intake: small requests of many connections, with no transport between them and the system; compiled.

    one wait of the system's for all quiet connections -> the event loop calls look()
        -> for each that has said something: bytes -> ShortRequests -> its response
        -> all responses of the round, one after the other: whoever is woken finds others awake, which costs less
        -> a moment's wait for more, as long as that pays: to sleep and be woken costs more than a small request
    what is left of a connection's bytes -> Connection.take(), which has its transport read again if it needs more

Only Linux has such a wait (epoll); elsewhere, and where connections are encrypted, transports read all.
"""

from __future__ import annotations

import asyncio
import os
import select
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from headstream.broker.commands.short_requests import ShortRequests
from headstream.broker.traffic import Traffic
from headstream.codec.buffer import BytesLike

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.uncompiled_primitives import readable, receive, send, writable
elif not TYPE_CHECKING:
    from cython.cimports.headstream.broker.commands.short_requests import ShortRequests
    from cython.cimports.headstream.broker.traffic import Traffic
    from cython.cimports.headstream.codec.primitives import readable, writable
    from cython.cimports.headstream.codec.socket_primitives import receive, send

__all__ = ["Alone", "Intake", "Quiet"]

_REQUESTS_A_TURN: Final = 32
"""After so many, whatever else the event loop has to do has its turn."""

_AT_ONCE: Final = 64
"""So many connections are looked at between one wait and the next, at most."""

_MOMENT_S: Final = 40e-6
"""For so long the next request is waited for awake."""

_SOON_S: Final = 100e-6
"""A request that comes so soon might have come in that moment, were it not for the sleep and the waking."""

_MOST_TRUST: Final = 8
_DISTRUST: Final = 16
"""By each moment that was waited in vain, so many requests have to come soon before another one is waited."""


class Alone(Protocol):
    """A connection as its intake knows it."""

    def respond(self, response: memoryview) -> None:
        """Write what the system does not take at once."""

    def take(self, received: memoryview) -> None:
        """Answer what is not answered here, whose bytes are good as long as this runs; nothing where nothing more comes."""


class Quiet:
    """A connection between requests, whose transport does not read.

    Args:
        connection: Who it is.
        transport: Its transport, not encrypted.
        short: What answers its small requests.
    """

    def __init__(self, connection: Alone, transport: asyncio.Transport, short: ShortRequests) -> None:
        self.connection = connection
        self.transport = transport
        self.unsent_bytes = transport.get_write_buffer_size
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.short = short
        self.response: BytesLike = b""


class Intake:
    """Reads for all quiet connections of a server; only in the event loop.

    Args:
        loop: The event loop.
        scratch: Where bytes are received, of one connection after the other.
        traffic: What counts them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, scratch: bytearray, traffic: Traffic) -> None:
        self._loop = loop
        self._scratch = scratch
        self._view = memoryview(scratch)
        self._traffic = traffic
        self._epoll = select.epoll()
        self._quiet: dict[int, Quiet] = {}
        self._answered: list[Quiet] = []
        self._trust = 0
        self._left_s = 0.0
        self._is_alone = len(os.sched_getaffinity(0)) == 1  # who would say something could not, while we are awake
        loop.add_reader(self._epoll.fileno(), self.look)

    def begin(self, quiet: Quiet) -> None:
        """Read for a connection from now on."""
        self._quiet[quiet.descriptor] = quiet
        self._epoll.register(quiet.descriptor, select.EPOLLIN)

    def end(self, quiet: Quiet) -> None:
        """Read for it no more, before its transport reads or is closed; that it has been ended already is fine."""
        if self._quiet.get(quiet.descriptor) is quiet:
            del self._quiet[quiet.descriptor]
            with suppress(OSError):  # a transport that broke has closed it, and the system forgot it
                self._epoll.unregister(quiet.descriptor)

    def close(self) -> None:
        """Read for nobody any more."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._quiet.clear()

    def look(self) -> None:
        """Answer all who have said something."""
        if perf_counter() - self._left_s < _SOON_S and self._trust < _MOST_TRUST:
            self._trust += 1
        done: cython.Py_ssize_t = 0
        while done < _REQUESTS_A_TURN:
            events = self._find(done)
            if not events:
                break
            done += len(events)
            for descriptor, _ in events:
                found = self._quiet.get(descriptor)
                if found is not None:
                    self._answer(found)
            for quiet in self._answered:
                self._respond(quiet)
            self._answered.clear()
        self._left_s = perf_counter()

    def _find(self, done: cython.Py_ssize_t) -> list[tuple[int, int]]:
        """Return whose bytes have come; once some have been answered, a moment later too, if that has paid lately."""
        events: list[tuple[int, int]] = self._epoll.poll(0, _AT_ONCE)
        if events or not done or self._trust <= 0 or self._is_alone:
            return events
        until_s: cython.double = perf_counter() + _MOMENT_S
        while not events and perf_counter() < until_s:
            events = self._epoll.poll(0, _AT_ONCE)
        self._trust = _MOST_TRUST if events else self._trust - _DISTRUST
        return events

    def _answer(self, quiet: Quiet) -> None:
        """Answer what has come from one connection."""
        try:
            count: cython.longlong = receive(quiet.descriptor, writable(self._scratch), len(self._scratch))
            if count < 0:  # its transport finds out why
                quiet.connection.take(self._view[:0])
            elif count > 0:
                self._traffic.received_bytes += count
                end, quiet.response = quiet.short.answer(self._view, count)
                at: cython.longlong = end
                if at == count:
                    self._answered.append(quiet)
                else:
                    self._respond(quiet)
                    quiet.connection.take(self._view[at:count])
        except Exception as error:
            self._fail(quiet, error)

    def _respond(self, quiet: Quiet) -> None:
        """Send a response, if there is one."""
        response = quiet.response
        size: cython.longlong = len(response)
        if size == 0:
            return
        quiet.response = b""
        self._traffic.sent_bytes += size
        view = memoryview(response)
        try:
            done: cython.longlong = 0 if quiet.unsent_bytes() else send(quiet.descriptor, readable(view), size)
            if done < size:
                quiet.connection.respond(view[done:])
        except Exception as error:
            self._fail(quiet, error)

    def _fail(self, quiet: Quiet, error: Exception) -> None:
        """End a connection by a fault of ours, and no other one."""
        self._loop.call_exception_handler({"message": "a request failed by a fault in the server", "exception": error})
        self.end(quiet)
        quiet.transport.abort()
