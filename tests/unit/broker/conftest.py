"""What all tests of a server without sockets begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headstream.broker.broker import Broker
from headstream.log.opening import open_memory
from tests.support.server.servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.broker.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker(open_memory(), clock_us=lambda: 7, entropy=bytes)
    yield broker
    broker.close()
