"""A client of Kafka's protocol that sends what it is told to, also what real clients do not send."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from headstream.server.kafka.apis import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from headstream.server.kafka.protocol.framing import skip_tags
from tests.support.server.kafka_listeners import KafkaListener


def encode_request(api: int, version: int, correlation_id: int, **values: Any) -> bytes:
    """Return a request with its length and head."""
    name, schema = b"test", APIS[api].request
    body = struct.pack(">hhih", api, version, correlation_id, len(name)) + name + bytes(schema.is_flexible(version))
    body += b"".join(bytes(piece) for piece in schema.encode(version, values))
    return struct.pack(">i", len(body)) + body


class KafkaSocket:
    """A connection of the user iggy to a listener, or without a login to a broker's address; it reads responses in turn."""

    def __init__(self, listener: KafkaListener | str) -> None:
        address = listener if isinstance(listener, str) else listener.bootstrap_servers
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 20)
        if isinstance(listener, str):
            return
        self.send(encode_request(SASL_HANDSHAKE, 1, 1, mechanism="PLAIN"))
        assert self.receive(SASL_HANDSHAKE, 1, 1)["error_code"] == 0
        self.send(encode_request(SASL_AUTHENTICATE, 0, 2, auth_bytes=b"\0iggy\0iggy"))
        assert self.receive(SASL_AUTHENTICATE, 0, 2)["error_code"] == 0

    def ask(self, api: int, version: int, **values: Any) -> dict[str, Any]:
        """Send a request, and return its response."""
        self.send(encode_request(api, version, 9, **values))
        return self.receive(api, version, 9)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, api: int, version: int, correlation_id: int) -> dict[str, Any]:
        """Return the next response, which is that of this request."""
        (size,) = struct.unpack(">i", self._exactly(4))
        data, schema = memoryview(self._exactly(size)), APIS[api].response
        assert struct.unpack_from(">i", data)[0] == correlation_id
        has_tags = schema.is_flexible(version) and api != API_VERSIONS
        return schema.decode(version, data[skip_tags(data, 4) if has_tags else 4 :])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the server closed the connection"
            data += more
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
