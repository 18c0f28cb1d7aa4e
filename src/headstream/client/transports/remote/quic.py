"""A connection over QUIC: one stream per command, with the same bytes as TCP. A thread receives data and sends keep-alives."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from headstream.client.closing import limited
from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.connection import Connection, log_in, lost, unreachable
from headstream.core.wire.frames import encode_request
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import decode_refusal
from headstream.errors import InvalidOptionError, MissingExtraError, OutcomeUnknownError, ServerUnreachableError
from headstream.forks import close_copy, register_for_forks

try:
    from aioquic.quic import events
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.connection import QuicConnection
except ImportError as _error:
    raise MissingExtraError(f"quic:// requires {_error.name}", advice="Install headstream[quic]") from None

_R = TypeVar("_R")
_HEAD_BYTES: Final = 8
_PING_S: Final = 3.0
"""Ping interval, seconds; the server closes a connection that is idle for 10 s."""
_IDLE_S: Final = 30.0
_WINDOW_BYTES: Final = 16 << 20
"""Maximum unacknowledged bytes that the server can send."""
_PING_ID: Final = 1


class QuicConnector:
    """Opens connections to one server; InvalidOptionError if the trusted certificates cannot be loaded."""

    def __init__(self, address: ServerUrl) -> None:
        self._address = address
        options = address.options
        try:
            self._trusted = None if options.tls_ca_file is None else _read(options.tls_ca_file)
        except OSError as error:
            raise InvalidOptionError(
                f"cannot load tls_ca_file: {error.strerror or error}",
                where=options.tls_ca_file,
                advice="Specify a PEM file with certificates",
            ) from None

    def connect(self, begin: Callable[[Connection], None]) -> QuicClientConnection:
        address, options = self._address, self._address.options
        configuration = QuicConfiguration(
            is_client=True,
            idle_timeout=_IDLE_S,
            max_data=_WINDOW_BYTES,
            max_stream_data=_WINDOW_BYTES,
            server_name=options.tls_domain or address.host,
            verify_mode=ssl.CERT_REQUIRED if options.tls_verify else ssl.CERT_NONE,
            cadata=self._trusted,
            cafile=None if self._trusted is not None else ssl.get_default_verify_paths().cafile,
        )
        try:
            connection = QuicClientConnection(address, configuration)
        except OSError as error:
            raise unreachable(address, error) from error
        try:
            begin(connection)
            connection.wait_until_connected(limited(options.connect_timeout_ms / 1000))
            log_in(connection, address)
        except OutcomeUnknownError as error:
            connection.close()
            raise unreachable(address, error) from error
        except BaseException:
            connection.close()
            raise
        return connection


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - the error names the path as it was given
        return file.read()


class QuicClientConnection:
    """One connection; see Connection. OSError if the host is unknown or no socket can be created."""

    def __init__(self, address: ServerUrl, configuration: QuicConfiguration) -> None:
        self._address = address
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)  # IPv4 first, as on the server
        self._place: Any = place
        self._changed = threading.Condition()
        self._quic = QuicConnection(configuration=configuration)
        self._body = bytearray()
        self._stream: int | None = None
        self._is_connected = False
        self._is_whole = False
        self._failure: str | None = None
        self._is_closing = False
        self._timeout_s = 0.0
        self._pinged_s = time.monotonic()
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._quic.connect(self._place, now=time.monotonic())
        register_for_forks(self)
        self._thread = threading.Thread(target=self._run, name="headstream-quic", daemon=True)
        self._thread.start()

    def after_fork(self) -> None:
        """In a forked child: leave the connection to the parent process."""
        self._changed = threading.Condition()
        self._failure, self._is_closing = "the connection belongs to the parent process", True
        close_copy(self._socket)
        for descriptor in (self._wake_read, self._wake_write):
            with suppress(OSError):  # the parent's thread has ended
                os.close(descriptor)
        self._wake_read = self._wake_write = -1

    @property
    def is_usable(self) -> bool:
        """Whether the connection is still open; sends no request."""
        with self._changed:
            return self._failure is None and not self._is_closing and self._thread.is_alive()

    def wait_until_connected(self, timeout_s: float) -> None:
        """Wait for the handshake; ServerUnreachableError after a timeout or if the server's certificate is not trusted."""
        with self._changed:
            is_over = self._changed.wait_for(lambda: self._is_connected or self._failure is not None, timeout_s)
        if not is_over:
            raise unreachable(self._address, TimeoutError())
        if self._failure is not None:
            raise ServerUnreachableError(
                f"the server cannot be reached: {self._failure}",
                where=self._address.place,
                advice="Check that the server listens for QUIC at this address, and trust its certificate with tls_ca_file",
            )

    def send(self, command: Command[Any], wait_ms: float = 0) -> None:
        request = encode_request(command.code, command.encode_pieces())
        self._timeout_s = limited((self._address.options.timeout_ms + wait_ms) / 1000)
        with self._changed:
            if self._failure is not None or self._is_closing:
                raise lost(self._address, self._failure or "the client is closed")
            self._body = bytearray()
            self._is_whole = False
            self._stream = self._quic.get_next_available_stream_id()
            self._quic.send_stream_data(self._stream, request, end_stream=True)
        self._wake()

    def has_reply(self, wait_ms: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._body) or self._is_whole or self._failure is not None, wait_ms / 1000)

    def receive(self, command: Command[_R]) -> _R:
        with self._changed:
            is_over = self._changed.wait_for(lambda: self._is_whole or self._failure is not None, self._timeout_s)
            body, failure = self._body, self._failure
            is_whole, self._body, self._stream = self._is_whole, bytearray(), None
        if not is_over:
            raise lost(self._address, TimeoutError())
        if not is_whole:
            raise lost(self._address, failure or "the server closed the connection")
        status, size = int.from_bytes(body[:4], "little"), int.from_bytes(body[4:8], "little")
        if len(body) != _HEAD_BYTES + size:
            raise lost(self._address, f"invalid response (status {status}, {len(body)} bytes)")
        reply = memoryview(body)[_HEAD_BYTES:]
        if status:
            raise decode_refusal(status, reply)
        return type(command).decode_reply(reply)

    def interrupt(self) -> None:
        self._fail("the client interrupted the connection")

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._wake()

    # -- the thread -----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with suppress(OSError):  # full or closed: the thread is awake or has ended
            os.write(self._wake_write, b"x")

    def _fail(self, why: str) -> None:
        with self._changed:
            self._failure = self._failure or why
            self._changed.notify_all()
        self._wake()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except Exception as error:  # waiting callers receive any error
            self._fail(str(error) or type(error).__name__)
        finally:
            with self._changed:
                self._failure = self._failure or "it is closed"
                self._changed.notify_all()
                pipe = self._wake_read, self._wake_write
                self._wake_read = self._wake_write = -1  # before closing: the numbers can then be reused
            for descriptor in pipe:
                os.close(descriptor)
            self._socket.close()

    def _step(self) -> bool:
        """Send pending datagrams and receive once; return whether to continue."""
        now_s = time.monotonic()
        with self._changed:
            is_over = self._is_closing or self._failure is not None
            if is_over:
                self._quic.close()
            elif self._is_connected and now_s - self._pinged_s >= _PING_S:
                self._pinged_s = now_s
                self._quic.send_ping(_PING_ID)
            datagrams = self._quic.datagrams_to_send(now=now_s)
            timer_s = self._quic.get_timer()
        self._send(datagrams)
        if is_over:
            return False
        due_s = min(timer_s or now_s + _PING_S, self._pinged_s + _PING_S) - time.monotonic()
        poll = select.poll()  # select() does not accept descriptors from 1024 on
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(due_s, 0.0) * 1000)}
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        received = self._receive() if self._socket.fileno() in ready else []
        now_s = time.monotonic()
        with self._changed:
            for datagram, place in received:
                self._quic.receive_datagram(datagram, place, now=now_s)
            timer_s = self._quic.get_timer()
            if timer_s is not None and now_s >= timer_s:
                self._quic.handle_timer(now=now_s)
            self._take_events()
        return True

    def _send(self, datagrams: list[tuple[bytes, Any]]) -> None:
        for datagram, place in datagrams:
            with suppress(BlockingIOError, ConnectionRefusedError):  # a lost datagram is sent again by the protocol
                self._socket.sendto(datagram, place)

    def _receive(self) -> list[tuple[bytes, Any]]:
        received = []
        for _ in range(64):
            try:
                received.append(self._socket.recvfrom(65_536))
            except ConnectionRefusedError:
                self._fail("nothing listens there")
                break
            except OSError:
                break
        return received

    def _take_events(self) -> None:
        """Process QUIC events; the caller holds the lock."""
        event = self._quic.next_event()
        while event is not None:
            if isinstance(event, events.HandshakeCompleted):
                self._is_connected = True
            elif isinstance(event, events.StreamDataReceived) and event.stream_id == self._stream:
                self._body += event.data
                self._is_whole = event.end_stream
            elif isinstance(event, events.StreamReset) and event.stream_id == self._stream:
                self._failure = "the server refused the stream"
            elif isinstance(event, events.ConnectionTerminated):
                self._failure = self._failure or event.reason_phrase or "the server closed the connection"
            event = self._quic.next_event()
        self._changed.notify_all()
