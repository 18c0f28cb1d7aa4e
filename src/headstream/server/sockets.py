"""Sockets that listen, with the options that are asked for."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Final, cast

from headstream.codec.buffer import BytesLike
from headstream.errors import EnvironmentSetupError
from headstream.server.addresses import Address

__all__ = ["SocketOptions", "listen", "write_pieces"]

_JOINED_BYTES: Final = 32 << 10
"""Up to here it is quicker to write one copy than many pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """Options of each connection's socket, in place of the system's.

    Args:
        receive_bytes: The system's buffer for what comes.
        send_bytes: Its buffer for what goes.
        keepalive: Whether the system looks whether a silent peer is still there.
        linger_s: How long a close waits for what is not sent; 0 does not wait. Seconds.
    """

    receive_bytes: int
    send_bytes: int
    keepalive: bool
    linger_s: int


def listen(address: Address, options: SocketOptions | None = None) -> tuple[socket.socket, Address]:
    """Return a listening socket, and where it really is.

    Args:
        address: Where; port 0 is any that is free.
        options: What accepted sockets inherit.

    Raises:
        EnvironmentSetupError: the system refuses it: the port is taken, or the address is not of this machine.
    """
    advice = "Choose another address, or port 0 for any that is free"
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
        transport: What to write it to.
        pieces: The response.
        size_bytes: How long they are together.
        is_joined: Whether to write one copy: a piece that is not taken at once keeps all of the buffer that it is a part of.
    """
    if is_joined or size_bytes <= _JOINED_BYTES:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(cast(list[bytes], pieces))


def _set(sock: socket.socket, options: SocketOptions) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_bytes)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_bytes)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, options.keepalive)
    if options.linger_s:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, options.linger_s))
