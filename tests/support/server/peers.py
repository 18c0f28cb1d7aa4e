"""Clients of a server that know the protocol's values and nothing else, so that they cannot hide what a server does.

Both have `ask`, which raises what the server refuses; `refused` is the status by which it does.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
from typing import Any, Protocol, Self, TypeVar, cast
from urllib.parse import urlencode

from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.commands.sessions import Login, Ping
from headstream.core.wire.commands.system import Snapshot
from headstream.core.wire.frames import encode_request
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status

_R = TypeVar("_R")
_TIMEOUT_S = 60.0


class RefusedError(Exception):
    """A server's refusal.

    Args:
        status: The protocol's number.
        http_status: HTTP's, None over TCP.
        body: What came with it.
    """

    def __init__(self, status: int, http_status: int | None = None, body: bytes = b"") -> None:
        super().__init__(f"status {status}, HTTP {http_status}: {body[:200]!r}")
        self.status = status
        self.http_status = http_status
        self.body = body


class Peer(Protocol):
    """What both clients can do."""

    transport: str

    def ask(self, command: Command[_R]) -> _R:
        """Return the reply to a command."""

    def login(self, username: str = "iggy", password: str = "iggy") -> int:
        """Log in and return the user's number."""

    def close(self) -> None:
        """End the connection."""


def refused(peer: Peer, command: Command[Any]) -> int:
    """Return the status by which a server refuses a command; 0 where it answers it."""
    try:
        peer.ask(command)
    except RefusedError as error:
        return error.status
    return 0


class TcpPeer:
    """A connection over TCP.

    Args:
        address: Host and port.
        timeout_s: How long an answer may take.
    """

    transport = "tcp"

    def __init__(self, address: tuple[str, int], timeout_s: float = _TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, command: Command[_R]) -> _R:
        """Return the reply to a command.

        Raises:
            RefusedError: the server refuses it.
        """
        status, body = self.exchange(encode_request(command.code, command.encode()))
        if status:
            raise RefusedError(status, body=body)
        assert len(body) != 1, "existing clients do not read a body of one byte"
        return type(command).decode_reply(body)

    def login(self, username: str = "iggy", password: str = "iggy") -> int:
        """Log in and return the user's number."""
        return self.ask(Login(username, password)).user_id

    def exchange(self, frame: BytesLike) -> tuple[int, bytes]:
        """Send bytes and return the next response: its status and its body."""
        self.socket.sendall(frame)
        return self.receive()

    def receive(self) -> tuple[int, bytes]:
        """Return the next response.

        Raises:
            ConnectionError: the server has closed the connection.
        """
        status, length = struct.unpack("<II", self._read(8))
        return status, self._read(length)

    def is_closed(self) -> bool:
        """Return whether the server closes the connection, having sent nothing more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """End the connection."""
        self.socket.close()

    def _read(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self.socket.recv(min(count, 1 << 20))
            if not piece:
                raise ConnectionError("the server has closed the connection")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)


class HttpPeer:
    """A client over HTTP, that shows the token of its login.

    Args:
        address: Host and port.
    """

    transport = "http"

    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)
        self.token: str | None = None

    def __enter__(self) -> HttpPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, command: Command[_R]) -> _R:
        """Return the reply to a command.

        Raises:
            RefusedError: the server refuses it; 401 without a body is status 40, as existing clients take it.
        """
        asked, entry = command.to_json(), command.entry()
        path = asked.path + (f"?{urlencode(asked.query)}" if asked.query else "")
        http_status, body = self.request(asked.method, path, None if asked.body is None else json.dumps(asked.body).encode())
        if http_status == 404 and entry.is_lookup:
            assert json.loads(body) == {"id": 404, "code": "not_found", "reason": "Resource not found", "field": None}
            return type(command).reply_from_json(None)
        assert entry.route is not None
        if http_status != entry.route.success:
            raise RefusedError(_status_in(http_status, body), http_status, body)
        if isinstance(command, Snapshot):
            return cast(_R, body)
        return type(command).reply_from_json(None if isinstance(command, Ping) else json.loads(body) if body else None)

    def login(self, username: str = "iggy", password: str = "iggy") -> int:
        """Log in, keep the token, and return the user's number."""
        reply = self.ask(Login(username, password))
        assert reply.access_token is not None
        self.token = reply.access_token.token
        return reply.user_id

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Return HTTP's status of a request and its body."""
        found: dict[str, str] = {"authorization": f"Bearer {self.token}"} if self.token else {}
        found |= {"content-type": "application/json"} if body is not None else {}
        self._connection.request(method, path, body, found | headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _status_in(http_status: int, body: bytes) -> int:
    if http_status == 401 and not body:
        return Status.UNAUTHENTICATED
    document: Any = json.loads(body)
    assert set(document) >= {"id", "code", "reason", "field"}, document
    return int(document["id"])
