"""One suite for every kind of log: what is behind a URL changes, what it does does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import headstream as hs

_NUMBERS = itertools.count()


@dataclass
class Place:
    """A place for one log.

    Args:
        url: What to connect to.
        clients: Those that the fixture closes.
    """

    url: str
    clients: list[hs.Client] = field(default_factory=list)

    def connect(self) -> hs.Client:
        client = hs.connect(self.url)
        self.clients.append(client)
        return client

    def set_state(self, topic: str, partition: int, offset: int, state: int) -> None:
        """Set the state of a message through another client."""
        self.connect().set_state(topic, partition, offset, state)


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A fresh log of each kind."""
    place = Place(f"memory://behaviour-{next(_NUMBERS)}" if request.param == "memory" else (tmp_path / "log").as_uri())
    keeper = place.connect()  # a log in memory lives as long as one client has it open
    yield place
    for client in place.clients:
        client.close()
    keeper.close()


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
