"""Creates listening sockets with configured options, and writes responses in pieces."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Final, cast

from headstream.core.codec.buffer import BytesLike
from headstream.errors import EnvironmentSetupError
from headstream.server.network.addresses import Address

_JOINED_BYTES: Final = 32 << 10
"""Up to this size, writing one joined copy is faster than writing many pieces."""
_MOST_HELD: Final = 1.5
"""Maximum memory that a response holds, as a multiple of its size; allocating 1 MiB takes longer than copying 1 MiB."""

_PAUSES_AFTER_LINES: Final = not ((3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2))
"""Whether writelines() of asyncio's transports pauses the protocol while many bytes are unsent. In other versions, a client that
reads nothing would take memory without limit (CVE-2024-12254)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """Connection socket options that override the system's defaults.

    Args:
        receive_bytes: Size of the system's receive buffer.
        send_bytes: Size of the system's send buffer.
        keepalive: Whether the system probes silent peers (SO_KEEPALIVE).
        linger_s: Maximum time that closing waits for unsent bytes, seconds; 0 does not wait.
    """

    receive_bytes: int
    send_bytes: int
    keepalive: bool
    linger_s: int


def listen(address: Address, options: SocketOptions | None = None) -> tuple[socket.socket, Address]:
    """Return a listening socket, whose options accepted sockets inherit, and its address; EnvironmentSetupError on failure."""
    advice = "Choose another address, or port 0 for any free port"
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise EnvironmentSetupError(f"cannot listen: {error.strerror or error}", where=str(address), advice=advice) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options is not None:
            _set(sock, options)
        sock.bind(place)
        sock.listen(1024)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise EnvironmentSetupError(f"cannot listen: {error.strerror or error}", where=str(address), advice=advice) from None
    return sock, Address(address.host, sock.getsockname()[1])


def write_pieces(transport: asyncio.WriteTransport, pieces: list[BytesLike], size_bytes: int, *, is_joined: bool) -> None:
    """Write a response.

    Args:
        is_joined: Whether to write a joined copy, so that the much larger buffers of the pieces do not stay in memory.
    """
    if size_bytes <= _JOINED_BYTES or (is_joined and _held_bytes(pieces) > _MOST_HELD * size_bytes):
        transport.write(b"".join(pieces))
    elif _PAUSES_AFTER_LINES:
        transport.writelines(cast(list[bytes], pieces))
    else:
        for piece in pieces:
            transport.write(cast(bytes, piece))


def _held_bytes(pieces: list[BytesLike]) -> int:
    """Return the total size of the buffers that pieces keep in memory."""
    return sum(len(cast(bytes, piece.obj if isinstance(piece, memoryview) else piece)) for piece in pieces)


def _set(sock: socket.socket, options: SocketOptions) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_bytes)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_bytes)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, options.keepalive)
    if options.linger_s:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, options.linger_s))
