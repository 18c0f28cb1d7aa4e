"""TlsListener: accepts encrypted connections, and bounds how many handshakes are under way, and for how long.

The event loop's own server knows of a connection only once its handshake is done: silent clients could hold all descriptors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from headstream.server.logs import note
from headstream.server.tls import FAREWELL_S

__all__ = ["HANDSHAKE_S", "TlsListener"]

HANDSHAKE_S: Final = 5.0
"""How long a handshake may take: three round trips of a slow line, and a processor that is busy."""

_ACCEPTED_A_TURN: Final = 64
"""After so many new connections, whatever else the event loop has to do has its turn."""

_RETRY_S: Final = 1.0
"""How long to wait where the system has no descriptor for a new connection."""


class TlsListener:
    """Accepts connections on one socket, encrypted; only in the event loop.

    Args:
        sock: It listens, and does not block; the listener closes it.
        tls: How connections are encrypted.
        make_protocol: Returns what a new connection is kept by.
        count_room: Returns how many more connections there may be, besides those whose handshake is under way.
        refuse: Called for each connection that was closed because there was no room.
        most_handshakes: How many may be under way; one more ends the oldest of them.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        count_room: Callable[[], int],
        refuse: Callable[[], None],
        most_handshakes: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._tls = tls
        self._make_protocol = make_protocol
        self._count_room = count_room
        self._refuse = refuse
        self._most_handshakes = most_handshakes
        # Each with its socket, until a transport has it.
        self._handshakes: dict[asyncio.Task[None], socket.socket | None] = {}
        self._resuming: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock.fileno(), self._accept)

    @property
    def handshakes_count(self) -> int:
        """How many handshakes are under way."""
        return len(self._handshakes)

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way; closing twice is fine."""
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
                note(logging.ERROR, "no connection can be accepted", error, retry_s=_RETRY_S)
                self._loop.remove_reader(self._sock.fileno())
                self._resuming = self._loop.call_later(_RETRY_S, self._loop.add_reader, self._sock.fileno(), self._accept)
                return
            if self._count_room() <= len(self._handshakes):
                self._refuse()
                accepted.close()
                continue
            if len(self._handshakes) >= self._most_handshakes:
                self._end_oldest()
            accepted.setblocking(False)
            handshake = self._loop.create_task(self._shake_hands(accepted))
            self._handshakes[handshake] = accepted
            handshake.add_done_callback(self._ended)

    def _end_oldest(self) -> None:
        handshake = next(iter(self._handshakes))
        accepted = self._handshakes.pop(handshake)
        if accepted is not None:  # the task has not begun, and never will
            accepted.close()
        handshake.cancel()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        handshake = asyncio.current_task()
        assert handshake is not None
        self._handshakes[handshake] = None  # from now on a transport closes it
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=FAREWELL_S,
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError and time-outs are OSErrors
            note(logging.DEBUG, "handshake failed", reason=str(error) or type(error).__name__)

    def _ended(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)
        if not handshake.cancelled() and handshake.exception() is not None:
            note(logging.ERROR, "fault in the server", handshake.exception(), what="a handshake")
