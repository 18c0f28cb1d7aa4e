"""What is decided for TCP: how many connections there may be, and what each may take."""

from __future__ import annotations

from dataclasses import dataclass

from headstream.server.sockets import SocketOptions
from headstream.wire.frames import MAX_FRAME_BYTES

__all__ = ["ConnectionLimits", "TcpSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What one connection may take.

    Args:
        frame_bytes: The most bytes of a request.
        unsent_bytes: With so many bytes of answers not yet taken, no request is read.
        frame_s: How long a request may be in coming, seconds, and
        bytes_a_second: one more second for each so many bytes of it.
        stall_s: How long a client may take nothing of the answers that wait for it, seconds.
        login_s: How long a connection may be without somebody who is logged in, seconds; infinity for ever.
    """

    frame_bytes: int = MAX_FRAME_BYTES
    unsent_bytes: int = 256 << 10
    frame_s: float = 30.0
    bytes_a_second: int = 16 << 10
    stall_s: float = 60.0
    login_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSettings:
    """What is decided for TCP.

    Args:
        max_connections: The most connections; more are closed at once.
        limits: What each of them may take.
        unsent_bytes: With so many bytes of answers not yet taken by all clients together, a poll brings a small part at a time.
        socket: Options of each connection's socket.
    """

    max_connections: int = 10_000
    limits: ConnectionLimits = ConnectionLimits()
    unsent_bytes: int = 256 << 20
    socket: SocketOptions | None = None
