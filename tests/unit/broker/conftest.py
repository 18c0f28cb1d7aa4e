"""What all tests of a server without sockets begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server.servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.broker.close()
