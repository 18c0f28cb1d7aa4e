"""Sessions: connected clients with their users and times.

A session is one connection or, over HTTP, one request. State that belongs to a connection is removed by callbacks (`on_close`).
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from dataclasses import dataclass

import xxhash

from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.core.wire.commands.system import TransportKind
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status


def client_id_of(address: str) -> int:
    """Return a client's id, unsigned 32-bit: the hash of its address, such as `127.0.0.1:54321` or `[::1]:54321`."""
    return xxhash.xxh32_intdigest(address.encode())


@dataclass(slots=True, eq=False)
class Session:
    """One client from connect to disconnect; runs one command at a time.

    Args:
        client_id: Unsigned 32-bit; 0 over HTTP.
        address: The peer's `host:port`.
        user_id: The logged-in user; 0 before the login.
        generation: The user's generation at login; the session becomes invalid when the user's generation changes.
        is_extended: Whether the client supports Headstream's own commands and statuses.
        pinged_s: Time of the last ping or of the connection; monotonic seconds.
        is_stale: Whether the client's heartbeat timed out, so that its commands are rejected.
        is_ended: Whether to close the connection after the response.
        poll_bytes: Current approximate maximum size of a poll's response, bytes; set by the transport.
        last_user_id: The user of the last login, even after a logout; 0 before the first login.
        token_id: The id of an HTTP request's access token, or empty.
        server_address: The server's `host:port` to which the client has connected.
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
    poll_bytes: int = MAX_BATCH_BYTES
    last_user_id: int = 0
    token_id: str = ""
    server_address: str = ""

    @classmethod
    def over_http(cls, address: str, user_id: int = 0, generation: int = 0, token_id: str = "") -> Session:
        """Return the session of one HTTP request, which is not listed as a client; `user_id` is 0 if there is no token."""
        return cls(0, address, None, user_id, generation, is_extended=True, token_id=token_id)

    @property
    def client(self) -> int | str:
        """The key for sharing resources fairly between clients: the logged-in user's id, else the peer's host."""
        return self.user_id or self.address.rpartition(":")[0]

    def check_alive(self) -> None:
        """Raise the error (30) for a session whose heartbeat timed out."""
        if self.is_stale:
            raise refusal(Status.STALE_CLIENT, "the client's heartbeat timed out", advice="Connect and log in again")


class Sessions:
    """All connections of a server; thread-safe. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sessions: dict[int, Session] = {}
        self._listeners: list[Callable[[Session], None]] = []

    def on_close(self, listener: Callable[[Session], None]) -> None:
        """Register a function that is called with each session that ends."""
        self._listeners.append(listener)

    def open(self, address: str, transport: TransportKind = TransportKind.TCP) -> Session:
        """Return the session for a new connection from the peer `address` (`host:port`)."""
        session = Session(client_id_of(address), address, transport, pinged_s=self._monotonic())
        with self._lock:
            while session.client_id in self._sessions or not session.client_id:  # two addresses with the same hash
                session.client_id = (session.client_id + 1) & 0xFFFF_FFFF
            self._sessions[session.client_id] = session
        return session

    def close(self, session: Session) -> None:
        """End a session; a second call does nothing."""
        with self._lock:
            if self._sessions.get(session.client_id) is not session:
                return
            del self._sessions[session.client_id]
        for listener in self._listeners:
            listener(session)

    def ping(self, session: Session) -> None:
        """Record a client's heartbeat."""
        session.pinged_s = self._monotonic()

    def find(self, client_id: int) -> Session | None:
        """Return the session of a client, or None."""
        return self._sessions.get(client_id)

    def list(self) -> list[Session]:
        """Return all sessions, ordered by id."""
        with self._lock:
            return [session for _, session in sorted(self._sessions.items())]

    def sweep(self, silent_s: float) -> builtins.list[Session]:
        """Mark the sessions without a ping for `silent_s` seconds as stale and end them; return these sessions."""
        silent_since = self._monotonic() - silent_s
        stale = [session for session in self.list() if session.pinged_s < silent_since]
        for session in stale:
            session.is_stale = True
            self.close(session)
        return stale
