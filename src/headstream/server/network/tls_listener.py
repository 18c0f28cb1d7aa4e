"""TlsListener: accepts encrypted connections, and limits the number and duration of pending handshakes.

The event loop's own server reports a connection only after its handshake: silent clients could hold all descriptors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from headstream.server.network.tls import FAREWELL_S
from headstream.server.reporting.logs import note

__all__ = ["HANDSHAKE_S", "TlsListener"]

HANDSHAKE_S: Final = 5.0
"""Timeout of a handshake: three round trips of a slow line, with a busy processor."""

_ACCEPTED_A_TURN: Final = 64
"""New connections accepted before the event loop runs its other callbacks."""

_RETRY_S: Final = 1.0
"""Delay before the next accept when the system has no descriptor left."""


class TlsListener:
    """Accepts connections on one socket, encrypted; only in the event loop.

    Args:
        sock: A non-blocking listening socket; the listener closes it.
        tls: The context that encrypts connections.
        make_protocol: Returns the protocol of a new connection.
        count_room: Returns how many more connections are allowed; pending handshakes are not yet subtracted.
        make_room: Closes a connection without a login, and returns whether there was one. Without any, the oldest pending
            handshake makes room.
        refuse: Called for each connection closed because the limit is reached.
        most_handshakes: Limit of pending handshakes; one more aborts the oldest.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        count_room: Callable[[], int],
        make_room: Callable[[], bool],
        refuse: Callable[[], None],
        most_handshakes: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._tls = tls
        self._make_protocol = make_protocol
        self._count_room = count_room
        self._make_room = make_room
        self._refuse = refuse
        self._most_handshakes = most_handshakes
        # Each with its socket until a transport owns it.
        self._handshakes: dict[asyncio.Task[None], socket.socket | None] = {}
        self._resuming: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock.fileno(), self._accept)

    @property
    def handshakes_count(self) -> int:
        """Number of pending handshakes."""
        return len(self._handshakes)

    def close(self) -> None:
        """Stop accepting and abort pending handshakes; idempotent."""
        if self._sock.fileno() < 0:
            return
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        while self._handshakes:
            self._end_oldest()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_A_TURN):
            try:
                accepted, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                note(logging.ERROR, "accept failed", error, retry_s=_RETRY_S)
                self._loop.remove_reader(self._sock.fileno())
                self._resuming = self._loop.call_later(_RETRY_S, self._loop.add_reader, self._sock.fileno(), self._accept)
                return
            if self._count_room() <= len(self._handshakes) and not self._make_room():
                if not self._handshakes:
                    self._refuse()
                    accepted.close()
                    continue
                self._end_oldest()
            if len(self._handshakes) >= self._most_handshakes:
                self._end_oldest()
            accepted.setblocking(False)
            handshake = self._loop.create_task(self._shake_hands(accepted))
            self._handshakes[handshake] = accepted
            handshake.add_done_callback(self._ended)

    def _end_oldest(self) -> None:
        handshake = next(iter(self._handshakes))
        accepted = self._handshakes.pop(handshake)
        if accepted is not None:  # the task has not started and is cancelled before it does
            accepted.close()
        handshake.cancel()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        handshake = asyncio.current_task()
        assert handshake is not None
        self._handshakes[handshake] = None  # the transport closes it from here on
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=FAREWELL_S,
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError and timeouts are OSErrors
            note(logging.DEBUG, "handshake failed", reason=str(error) or type(error).__name__)

    def _ended(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)
        if not handshake.cancelled() and handshake.exception() is not None:
            note(logging.ERROR, "internal error", handshake.exception(), what="a handshake")
