"""The pytest plugin: fixtures that tests can use if headstream is installed, without code in conftest.py.

    def test_bill_is_sent(headstream_log): ...

The plugin imports headstream only when a fixture is used, so that other tests are not slowed down.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.testing.kafka_broker import KafkaBroker
    from headstream.testing.local_server import LocalServer
    from headstream.testing.postgresql import PostgresServer
    from headstream.testing.source_database import SourceDatabase


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Exclude headstream from assertion rewriting, for which pytest would compile all modules of the plugin's package again."""
    rewritten = getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(rewritten, set):  # not a public name of pytest: without it, the first import takes two seconds longer
        rewritten.discard("headstream")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `source_database`."""
    marker = "source_database(seed=0, rows=100, transactions=200, ...): arguments for the SourceDatabase of the test's fixture"
    config.addinivalue_line("markers", marker)


@pytest.fixture
def headstream_log() -> Iterator[Client]:
    """Yield a connection to an empty log in memory, with the API of every other log."""
    import headstream as hs

    with hs.connect("memory://") as log:
        yield log


@pytest.fixture
def headstream_server() -> Iterator[LocalServer]:
    """Yield a running server with an empty log in memory; clients connect to `url` (TCP) or `http_url`."""
    from headstream.testing.local_server import LocalServer  # needs the libraries of headstream[server]

    with LocalServer() as running:
        yield running


@pytest.fixture
def source_database(request: pytest.FixtureRequest) -> SourceDatabase:
    """Return a simulated source database; `@pytest.mark.source_database(seed=7, rows=10)` sets the arguments."""
    from headstream.testing.source_database import SourceDatabase

    marker = request.node.get_closest_marker("source_database")
    return SourceDatabase(*marker.args, **marker.kwargs) if marker else SourceDatabase()


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """Yield a running Kafka broker, one for the entire test run; after a failed test, the end of the broker's log is printed.

    Tests that use the broker are skipped on a machine without Java.
    """
    from headstream.errors import JavaError
    from headstream.testing.kafka_broker import KafkaBroker

    try:
        broker = KafkaBroker().start()
    except JavaError as error:
        pytest.skip(str(error))
    failed_before = request.session.testsfailed
    with broker:
        yield broker
        if request.session.testsfailed > failed_before:
            sys.stderr.write(f"\nthe end of the Kafka broker's log:\n{broker.log_tail()}\n")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield a running PostgreSQL server, one for the entire test run; each test creates separate tables or databases.

    The server's `wal_level` is logical. Tests that use the server are skipped on a machine without PostgreSQL.
    """
    from headstream.errors import EnvironmentSetupError
    from headstream.testing.postgresql import PostgresServer, find_postgresql

    try:
        find_postgresql()
    except EnvironmentSetupError as error:
        pytest.skip(str(error))
    with PostgresServer(settings={"wal_level": "logical"}) as running:
        yield running
