"""pytest fixtures. In conftest.py: pytest_plugins = ["headstream.testing.fixtures"]"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from headstream.errors import JavaError
from headstream.testing.kafka_broker import KafkaBroker

__all__ = ["kafka_broker"]


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """Give a running Kafka broker, one for the whole run; where a test failed, the end of its log is shown.

    Tests that need it are skipped, with the reason, on a machine without Java.
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
