"""One suite for every kind of log: what is behind a URL changes, what it does does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import headstream as hs
from headstream.log.files import Files
from headstream.log.shared import close_log, open_directory, open_memory
from headstream.segments.layout import segment_path

_NUMBERS = itertools.count()


@dataclass
class Place:
    """A place for one log.

    Args:
        url: What to connect to.
        open_files: Opens the files behind it, for tests that change what no client can, and lets go of them.
    """

    url: str
    clients: list[hs.Client] = field(default_factory=list)

    def connect(self) -> hs.Client:
        client = hs.connect(self.url)
        self.clients.append(client)
        return client

    def set_state(self, topic: str, partition: int, offset: int, state: int) -> None:
        """Set the state of a message of the first segment, as a later command will."""
        log = open_directory(self.url[7:]) if self.url.startswith("file:") else open_memory(self.url[9:])
        stream, _, name = topic.partition("/")
        record = log.snapshot()[stream].topics[name]
        _poke(log.files, segment_path(log.partition_directory(record, partition), 0, ".log"), offset, state)
        close_log(log)


def _poke(files: Files, path: str, offset: int, state: int) -> None:
    file = files.open_write(path)
    data = memoryview(bytearray(file.size_bytes()))
    file.read_into(data, 0)
    at = 0
    for _ in range(offset):
        headers = int.from_bytes(data[at + 37 : at + 41], "little")
        at += 45 + headers + int.from_bytes(data[at + 41 + headers : at + 45 + headers], "little")
    file.write_at(bytes([state]), at + 8)
    file.close()


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
