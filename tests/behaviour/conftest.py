"""One suite for every kind of log: what is behind a URL changes, what it does does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.testing.local_server import LocalServer
from tests.behaviour.kafka_differences import skip_differing
from tests.support.kafka_cluster import empty_cluster

KINDS = ("memory", "file", "tcp", "http", "quic")
_NUMBERS = itertools.count()
_numbering = {"first": 1}


def at(number: int) -> int:
    """Return the number of a partition in the log of the running test, by its number from 1: Kafka's count from 0."""
    return number - 1 + _numbering["first"]


def numbers(count: int) -> range:
    """Return the numbers of so many partitions in the log of the running test."""
    return range(at(1), at(1) + count)


@dataclass
class Place:
    """A place for one log.

    Args:
        url: What to connect to.
        options: With which options.
        clients: Those that the fixture closes.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    clients: list[hs.Client] = field(default_factory=list)

    def connect(self) -> hs.Client:
        client = hs.connect(self.url, **self.options)
        self.clients.append(client)
        return client

    def set_state(self, topic: str, partition: int, offset: int, state: int) -> None:
        """Set the state of a message through another client."""
        self.connect().set_state(topic, partition, offset, state)


@contextmanager
def open_place(kind: str, directory: Path, segment_bytes: int | None = None) -> Iterator[Place]:
    """Give a fresh log of a kind: in memory or in a directory of this process, behind a server (TCP, HTTP, QUIC), or in Kafka."""
    with ExitStack() as stack:
        if kind == "kafka":
            place = Place(stack.enter_context(empty_cluster()))
            _numbering["first"] = 0
            stack.callback(_numbering.update, first=1)
            yield place
            for client in place.clients:
                client.close()
            return
        if kind in ("tcp", "http", "quic"):
            server = stack.enter_context(LocalServer(segment_bytes=segment_bytes, quic=kind == "quic"))
            place = Place({"tcp": server.url, "http": server.http_url, "quic": server.quic_url}[kind], {})
        else:
            url = f"memory://behaviour-{next(_NUMBERS)}" if kind == "memory" else (directory / "log").as_uri()
            place = Place(url, {} if segment_bytes is None else {"segment_bytes": segment_bytes})
            stack.callback(place.connect().close)  # a log in memory lives as long as one client has it open
        yield place
        for client in place.clients:
            client.close()


@pytest.fixture(params=(*KINDS, "kafka"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A fresh log of each kind."""
    skip_differing(request)
    with open_place(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def log(place: Place) -> hs.Client:
    """A client with a topic of one partition and one of three."""
    client = place.connect()
    client.create_topic("shop/orders")
    client.create_topic("shop/carts", partitions=3)
    return client


@pytest.fixture
def send(log: hs.Client) -> Callable[..., None]:
    """Send payloads to a topic and wait until they are stored."""

    def send(*payloads: bytes, topic: str = "shop/orders", partition: int | None = None) -> None:
        with log.producer(topic) as producer:
            for payload in payloads:
                producer.send(payload, partition=partition)

    return send
