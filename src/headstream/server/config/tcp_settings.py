"""Settings of TCP: the number of connections, and the limits of each."""

from __future__ import annotations

from dataclasses import dataclass

from headstream.core.wire.frames import MAX_FRAME_BYTES
from headstream.server.network.sockets import SocketOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of one connection.

    Args:
        frame_bytes: Limit of a request, bytes.
        unsent_bytes: With more unsent bytes of responses, no request is read.
        frame_s: Timeout of receiving a request, seconds, and
        bytes_a_second: one more second per this number of received bytes.
        stall_s: How long a client can leave unsent responses unread, seconds.
        login_s: How long a connection can stay without a login, seconds; infinity disables it.
        hold_s: How long an empty poll of a client of Iggy's protocol 0.11 waits for messages, seconds.
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
    """Settings of TCP.

    Args:
        max_connections: Limit of connections; further connections are closed immediately.
        limits: Limits of each connection.
        unsent_bytes: With more unsent bytes of responses to all clients together, a poll returns smaller parts.
        socket: Options of each connection's socket.
    """

    max_connections: int = 10_000
    limits: ConnectionLimits = ConnectionLimits()
    unsent_bytes: int = 256 << 20
    socket: SocketOptions | None = None
