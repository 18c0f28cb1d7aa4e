"""Sessions: who is connected, as whom, and since when.

A session is one connection, and over HTTP one request. What belongs to a connection ends with it: whoever keeps
something for sessions asks to be told by `on_close`.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from dataclasses import dataclass

import xxhash

from headstream.wire.commands.system import TransportKind
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["Session", "Sessions", "client_id_of"]


def client_id_of(address: str) -> int:
    """Return the number of a client, unsigned 32-bit: the hash of its address, as in `127.0.0.1:54321` or `[::1]:54321`."""
    return xxhash.xxh32_intdigest(address.encode())


@dataclass(slots=True, eq=False)
class Session:
    """One client, from its connection to its end; one command of it at a time.

    Args:
        client_id: Unsigned 32-bit; 0 over HTTP.
        address: The peer's `host:port`.
        transport: How it is connected; None over HTTP.
        user_id: Who is logged in, 0 for nobody.
        generation: The user's generation that logged in; with another one of the user, the session is not good any more.
        is_extended: Whether the client knows Headstream's own commands and statuses.
        pinged_s: When it last pinged, or came; seconds of a clock that never goes back.
        is_stale: Whether it has been silent for too long: it is not served any more.
        is_ended: Whether the connection is to be closed behind the answer.
    """

    client_id: int
    address: str
    transport: TransportKind | None
    user_id: int = 0
    generation: int = 0
    is_extended: bool = False
    pinged_s: float = 0.0
    is_stale: bool = False
    is_ended: bool = False

    @classmethod
    def over_http(cls, address: str, user_id: int = 0, generation: int = 0) -> Session:
        """Return the session of one request over HTTP, which no list of clients shows.

        Args:
            address: The peer's `host:port`.
            user_id: Who its token is of, 0 without one.
            generation: The user's generation that the token was issued to.
        """
        return cls(0, address, None, user_id, generation, is_extended=True)

    @property
    def client(self) -> int | str:
        """Who shares what there is with others: the logged-in user by its number, else the host that it comes from."""
        return self.user_id or self.address.rpartition(":")[0]

    def check_alive(self) -> None:
        """Refuse (30) a session that has been silent for too long."""
        if self.is_stale:
            raise refusal(Status.STALE_CLIENT, "the client has been silent for too long", advice="Connect and log in again")


class Sessions:
    """All connections of a server; any thread.

    Args:
        monotonic: Returns seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sessions: dict[int, Session] = {}
        self._listeners: list[Callable[[Session], None]] = []

    def on_close(self, listener: Callable[[Session], None]) -> None:
        """Have a function called with each session that ends."""
        self._listeners.append(listener)

    def open(self, address: str, transport: TransportKind = TransportKind.TCP) -> Session:
        """Return the session of a new connection.

        Args:
            address: The peer's `host:port`.
            transport: How it is connected.
        """
        session = Session(client_id_of(address), address, transport, pinged_s=self._monotonic())
        with self._lock:
            while session.client_id in self._sessions or not session.client_id:  # two addresses with one hash
                session.client_id = (session.client_id + 1) & 0xFFFF_FFFF
            self._sessions[session.client_id] = session
        return session

    def close(self, session: Session) -> None:
        """End a session; ending it twice is fine."""
        with self._lock:
            if self._sessions.get(session.client_id) is not session:
                return
            del self._sessions[session.client_id]
        for listener in self._listeners:
            listener(session)

    def ping(self, session: Session) -> None:
        """Take note that a client is alive."""
        session.pinged_s = self._monotonic()

    def find(self, client_id: int) -> Session | None:
        """Return the session of a client, or None."""
        return self._sessions.get(client_id)

    def list(self) -> list[Session]:
        """Return all sessions, in the order of their numbers."""
        with self._lock:
            return [session for _, session in sorted(self._sessions.items())]

    def sweep(self, silent_s: float) -> builtins.list[Session]:
        """End the sessions that have not pinged for so many seconds, and return them: they are stale from now on."""
        silent_since = self._monotonic() - silent_s
        stale = [session for session in self.list() if session.pinged_s < silent_since]
        for session in stale:
            session.is_stale = True
            self.close(session)
        return stale
