"""TCP settings: the number of connections, and the limits of each connection."""

from __future__ import annotations

from dataclasses import dataclass

from headstream.core.wire.frames import MAX_FRAME_BYTES
from headstream.server.network.sockets import SocketOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of one connection.

    Args:
        frame_bytes: Maximum size of a request, bytes.
        unsent_bytes: Size of unsent responses above which no request is read, bytes.
        frame_s: Timeout for receiving a request, seconds.
        bytes_a_second: Number of received bytes that extend `frame_s` by one second.
        stall_s: Maximum time for which a client can leave responses unread, seconds.
        login_s: Maximum time for which a connection can be open without a login, seconds; infinity disables the limit.
        hold_s: Maximum wait of a poll without messages, for clients of Iggy's protocol 0.11, seconds.
    """

    frame_bytes: int = MAX_FRAME_BYTES
    unsent_bytes: int = 256 << 10
    frame_s: float = 30.0
    bytes_a_second: int = 16 << 10
    stall_s: float = 60.0
    login_s: float = 600.0
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSettings:
    """TCP settings.

    Args:
        max_connections: Maximum number of connections; additional connections are closed immediately.
        limits: Limits of each connection.
        unsent_bytes: Size of unsent responses to all clients above which polls return less data, bytes.
        socket: Options of each connection's socket.
    """

    max_connections: int = 10_000
    limits: ConnectionLimits = ConnectionLimits()
    unsent_bytes: int = 256 << 20
    socket: SocketOptions | None = None
