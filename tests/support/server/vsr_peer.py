"""A client of Iggy's protocol 0.11 for tests, written from the description of its bytes and from nothing in the product."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import NamedTuple

import xxhash

CLIENT = bytes(range(1, 17))
LOGIN, READ, SEND = 1, 2, 160
CHECKED = {1, 128, 132, 139, 148}


class Answer(NamedTuple):
    """What the server answered: a reply's status and body, or the reason of an eviction."""

    status: int
    body: bytes
    eviction: int = 0
    header: bytes = b""


def login_body(user: str = "iggy", password: str = "iggy", version: int = 11 << 10) -> bytes:
    texts = b"".join(bytes([len(text)]) + text.encode() for text in ("rust-sdk", "0.11.0", user, password))
    return struct.pack("<I", version) + texts + bytes(4)


def request_frame(
    operation: int, body: bytes, *, code: int = 0, session: int = 0, number: int = 0, client: bytes = CLIENT
) -> bytes:
    head = bytearray(256)
    struct.pack_into("<I", head, 48, 256 + len(body))
    head[60] = 5
    head[128:144] = client
    if operation in CHECKED:
        struct.pack_into("<Q", head, 144, xxhash.xxh3_64_intdigest(body))
    struct.pack_into("<Q", head, 168, number)
    head[176] = operation
    struct.pack_into("<Q", head, 184, session)
    struct.pack_into("<I", head, 196, code)
    return bytes(head) + body


def frame(payload: bytes, headers: bytes = b"", *, message_id: int = 0, offset: int = 0, origin: int = 0) -> bytes:
    body = (
        message_id.to_bytes(16, "little") + struct.pack("<4IQ", offset, origin, len(headers), len(payload), 0) + payload + headers
    )
    return struct.pack("<Q", xxhash.xxh3_64_intdigest(body)) + body


def batch(frames: list[bytes], *, partition: int = 0, offset: int = 0, time: int = 0, origin: int = 0) -> bytes:
    head = struct.pack("<5Q", partition, offset, time, origin, 256 + sum(map(len, frames)))
    count = struct.pack("<I", len(frames))
    checksum = xxhash.xxh3_64_intdigest(head + count + b"".join(each[:8] for each in frames))
    return head + struct.pack("<Q", checksum) + count + bytes(204) + b"".join(frames)


def send_body(stream: str, topic: str, sent: bytes, *, partition: int = 0, count: int = 1) -> bytes:
    named = b"".join(b"\x02" + bytes([len(text)]) + text.encode() for text in (stream, topic))
    named += b"\x02\x04" + struct.pack("<II", partition, count)
    return struct.pack("<I", len(named)) + named + sent


class VsrPeer:
    """One connection; logged in from the construction on, unless `user` is empty."""

    def __init__(self, address: tuple[str, int], user: str = "iggy", password: str = "iggy") -> None:
        self.socket = socket.create_connection(address, 30)
        self.session = self.number = 0
        if user:
            answer = self.ask(LOGIN, login_body(user, password))
            assert answer.status == answer.eviction == 0, answer
            self.session = struct.unpack_from("<Q", answer.body, 8)[0]

    def __enter__(self) -> VsrPeer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()

    def ask(self, operation: int, body: bytes = b"", *, code: int = 0) -> Answer:
        """Return the answer to a request."""
        self.number += operation != READ
        self.socket.sendall(request_frame(operation, body, code=code, session=self.session, number=self.number))
        return self.receive()

    def read(self, code: int, body: bytes = b"") -> Answer:
        """Return the answer to a read."""
        return self.ask(READ, body, code=code)

    def receive(self) -> Answer:
        """Return the next answer.

        Raises:
            ConnectionError: the connection is closed.
        """
        head = self._take(256)
        size, status = struct.unpack_from("<I", head, 48)[0], struct.unpack_from("<I", head, 216)[0]
        if head[60] == 13:
            assert size == 256
            assert any(head[128:144])
            return Answer(0, b"", head[255], head)
        assert head[60] == 8
        return Answer(status, self._take(size - 256), 0, head)

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return data
