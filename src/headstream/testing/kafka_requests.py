"""The three Kafka requests that tests need, so that no Kafka client has to be installed.

request    size i32 | api_key i16 | version i16 | correlation i32 | client_id STRING | body        big-endian
response   size i32 | correlation i32 | body
STRING     size i16 (-1: null) | UTF-8        ARRAY   count i32 (-1: null) | elements

Metadata 4       topics ARRAY of name | allow_auto_topic_creation i8
              -> throttle_ms i32 | brokers ARRAY of (id i32, host, port i32, rack) | cluster_id | controller i32 |
                 topics ARRAY of (error i16, name, internal i8,
                                  partitions ARRAY of (error i16, number i32, leader i32,
                                                       replicas ARRAY of i32, in_sync ARRAY of i32))
CreateTopics 2   topics ARRAY of (name, partitions i32, replicas i16, assignments ARRAY, configs ARRAY of (name, value)) |
                 timeout_ms i32 | validate_only i8
              -> throttle_ms i32 | topics ARRAY of (name, error i16, message)
CreatePartitions 0   topics ARRAY of (name, count i32, assignments ARRAY) | timeout_ms i32 | validate_only i8
              -> throttle_ms i32 | results ARRAY of (name, error i16, message)
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Final

from headstream.errors import AlreadyExistsError, EnvironmentSetupError, InvalidInputError

_METADATA: Final = (3, 4)
_CREATE_TOPICS: Final = (19, 2)
_CREATE_PARTITIONS: Final = (37, 0)
_TIMEOUT_MS: Final = 10_000
_TOPIC_EXISTS: Final = 36


class _Response:
    """A cursor over a response."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def pull(self, layout: str) -> int:
        number: int = struct.unpack_from(f">{layout}", self._data, self._at)[0]
        self._at += struct.calcsize(f">{layout}")
        return number

    def pull_text(self) -> str | None:
        size = self.pull("h")
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()


def count_brokers(address: tuple[str, int]) -> int:
    """Return the number of brokers in the cluster that accept requests; OSError if no broker answers at the address."""
    answer, brokers = _request_metadata(address, [])
    del answer
    return brokers


def count_partitions(address: tuple[str, int], topic: str) -> int:
    """Return the number of usable partitions of a topic; 0 if the topic does not exist; OSError if no broker answers."""
    answer, _ = _request_metadata(address, [topic])
    ready = 0
    for _ in range(answer.pull("i")):
        answer.pull("h")
        answer.pull_text()
        answer.pull("b")
        for _ in range(answer.pull("i")):
            error, _number, leader = answer.pull("h"), answer.pull("i"), answer.pull("i")
            for _ in range(2):
                for _ in range(answer.pull("i")):
                    answer.pull("i")
            ready += error == 0 and leader >= 0
    return ready


def create_topic(address: tuple[str, int], topic: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create a topic with one replica and with settings of Kafka; OSError if no broker answers.

    Raises:
        AlreadyExistsError: the topic exists already.
        InvalidInputError: the broker rejects the request; the message contains the reason.
    """
    settings = b"".join(_text(name) + _text(value) for name, value in config.items())
    body = struct.pack(">i", 1) + _text(topic) + struct.pack(">ihi", partitions, 1, 0) + struct.pack(">i", len(config)) + settings
    _check_result(_request(address, _CREATE_TOPICS, body + struct.pack(">ib", _TIMEOUT_MS, 0)), topic)


def add_partitions(address: tuple[str, int], topic: str, partitions: int) -> None:
    """Increase a topic's partition count; InvalidInputError if the broker rejects the request, OSError if no broker answers."""
    body = struct.pack(">i", 1) + _text(topic) + struct.pack(">iiib", partitions, -1, _TIMEOUT_MS, 0)
    _check_result(_request(address, _CREATE_PARTITIONS, body), topic)


def _check_result(answer: _Response, topic: str) -> None:
    answer.pull("i")
    answer.pull("i")
    answer.pull_text()
    error, message = answer.pull("h"), answer.pull_text()
    if error == _TOPIC_EXISTS:
        raise AlreadyExistsError(f"the topic {topic!r} already exists", advice="Use another name")
    if error:
        raise InvalidInputError(f"the broker rejected the topic {topic!r}: {message or f'error {error}'}")


def _request_metadata(address: tuple[str, int], topics: list[str]) -> tuple[_Response, int]:
    """Return the response, positioned at its topics, and the number of brokers."""
    body = struct.pack(">i", len(topics)) + b"".join(map(_text, topics)) + b"\x00"
    answer = _request(address, _METADATA, body)
    answer.pull("i")
    brokers = answer.pull("i")
    for _ in range(brokers):
        answer.pull("i")
        answer.pull_text()
        answer.pull("i")
        answer.pull_text()
    answer.pull_text()
    answer.pull("i")
    return answer, brokers


def _request(address: tuple[str, int], api: tuple[int, int], body: bytes) -> _Response:
    request = struct.pack(">hhi", *api, 1) + _text("headstream-testing") + body
    with socket.create_connection(address, timeout=_TIMEOUT_MS / 1000) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            data = stream.read(4)
            data = stream.read(struct.unpack(">i", data)[0]) if len(data) == 4 else b""
    if len(data) < 4:
        raise EnvironmentSetupError("the broker closed the connection without a response", where=f"{address[0]}:{address[1]}")
    return _Response(data[4:])


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
