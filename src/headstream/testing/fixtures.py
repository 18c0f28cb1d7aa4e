"""pytest fixtures. In conftest.py: pytest_plugins = ["headstream.testing.fixtures"]"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headstream.errors import JavaError
from headstream.testing.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    from headstream.testing.local_server import LocalServer

__all__ = ["headstream_server", "kafka_broker"]


@pytest.fixture
def headstream_server() -> Iterator[LocalServer]:
    """Yield a running server with an empty log in memory: connect to its `url` (TCP) or `http_url`."""
    from headstream.testing.local_server import LocalServer  # needs the libraries of headstream[server]

    with LocalServer() as running:
        yield running


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """Yield a running Kafka broker, one for the whole run; after a failed test, the end of its log is printed.

    Tests that use it are skipped, with the reason, on a machine without Java.
    """
    try:
        broker = KafkaBroker().start()
    except JavaError as error:
        pytest.skip(str(error))
    failed_before = request.session.testsfailed
    with broker:
        yield broker
        if request.session.testsfailed > failed_before:
            sys.stderr.write(f"\nthe end of the Kafka broker's log:\n{broker.log_tail()}\n")
