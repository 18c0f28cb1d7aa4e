"""A connection over TCP: frames with commands and replies, over a blocking socket."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from headstream.client.closing import limited
from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.connection import (
    Connection,
    break_link,
    has_something,
    log_in,
    lost,
    make_tls,
    unreachable,
)
from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.frames import request_head
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import decode_refusal
from headstream.core.wire.statuses import Status
from headstream.errors import LimitError, OutcomeUnknownError
from headstream.forks import close_copy, register_for_forks

_R = TypeVar("_R")
_HEAD_BYTES: Final = 8
_FIRST_BYTES: Final = 64 << 10
"""Size of the buffer that suffices for most replies; the remainder of a longer reply is received into a separate buffer."""
_LEAST_LIMIT_BYTES: Final = 1000
"""A request size that every server accepts."""
_MAX_REPLY_BYTES: Final = 256 << 20
_JOINED_BYTES: Final = 64 << 10
"""Pieces up to this size are joined, because the copy costs less than a system call."""


class TcpConnector:
    """Opens connections to one server."""

    def __init__(self, address: ServerUrl) -> None:
        self._address = address
        self._tls = make_tls(address) if address.options.tls else None

    def connect(self, begin: Callable[[Connection], None]) -> TcpConnection:
        address = self._address
        try:
            link = socket.create_connection((address.host, address.port), limited(address.options.connect_timeout_ms / 1000))
        except OSError as error:
            raise unreachable(address, error) from error
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                link = self._tls.wrap_socket(link, server_hostname=address.options.tls_domain or address.host)
            connection = TcpConnection(address, link)
            begin(connection)
            log_in(connection, address)
        except (OSError, OutcomeUnknownError) as error:
            link.close()
            raise unreachable(address, error) from error
        except BaseException:
            link.close()
            raise
        return connection


class TcpConnection:
    """One connection; see Connection."""

    def __init__(self, address: ServerUrl, link: socket.socket) -> None:
        self._address = address
        self._link = link
        self._first = bytearray(_FIRST_BYTES)
        self._sent_bytes = 0
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: leave the connection to the parent process."""
        close_copy(self._link)

    @property
    def is_usable(self) -> bool:
        return not has_something(self._link)

    def send(self, command: Command[Any], wait_ms: float = 0) -> None:
        pieces = command.encode_pieces()
        self._sent_bytes = size = sum(len(piece) for piece in pieces)
        try:
            self._link.settimeout(limited((self._address.options.timeout_ms + wait_ms) / 1000))
            self._write((request_head(command.code, size), *pieces), size)
        except OSError as error:
            if self._has_been_refused():
                raise self._too_long() from error
            raise lost(self._address, error) from error

    def _write(self, pieces: Sequence[BytesLike], size: int) -> None:
        if size <= _JOINED_BYTES or isinstance(self._link, ssl.SSLSocket):
            self._link.sendall(b"".join(pieces))
            return
        views = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        while views:
            sent = self._link.sendmsg(views)
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if sent:
                views[0] = views[0][sent:]

    def has_reply(self, wait_ms: int) -> bool:
        return has_something(self._link, wait_ms)

    def receive(self, command: Command[_R]) -> _R:
        try:
            status, body = self._read()
        except OSError as error:
            raise lost(self._address, error) from error
        if status == Status.INVALID_COMMAND and not body and self._sent_bytes >= _LEAST_LIMIT_BYTES:
            raise self._too_long()
        if status:
            raise decode_refusal(status, body)
        return type(command).decode_reply(body)

    def _has_been_refused(self) -> bool:
        """Return whether the server replied before it read the entire request, because the request exceeds the server's limit."""
        try:
            return has_something(self._link) and self._read()[0] == Status.INVALID_COMMAND
        except (OSError, OutcomeUnknownError):
            return False

    def _too_long(self) -> LimitError:
        error = LimitError(
            f"a request of {self._sent_bytes} bytes exceeds the server's limit",
            where=self._address.place,
            advice="Send smaller batches (batch_bytes), or raise headstream.max_frame_size of the server",
        )
        error.status = Status.INVALID_COMMAND
        return error

    def _read(self) -> tuple[int, BytesLike]:
        """Return a response's status and body (in a separate buffer)."""
        first = memoryview(self._first)
        count = self._link.recv_into(first)
        while 0 < count < _HEAD_BYTES:
            more = self._link.recv_into(first[count:])
            count = count + more if more else 0
        if not count:
            raise lost(self._address, "the server closed the connection")
        status, size = int.from_bytes(first[:4], "little"), int.from_bytes(first[4:8], "little")
        if size > _MAX_REPLY_BYTES or count > _HEAD_BYTES + size:
            is_http = self._first.startswith(b"HTTP")
            what = "the server speaks HTTP: begin the URL with http://" if is_http else f"status {status}, {size} bytes"
            raise lost(self._address, f"invalid response ({what})")
        body = bytearray(size)
        view, at = memoryview(body), count - _HEAD_BYTES
        view[:at] = first[_HEAD_BYTES:count]
        while at < size:
            more = self._link.recv_into(view[at:])
            if not more:
                raise lost(self._address, "the server closed the connection during a response")
            at += more
        return status, view

    def interrupt(self) -> None:
        break_link(self._link)

    def close(self) -> None:
        self._link.close()
