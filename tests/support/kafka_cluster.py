"""One Kafka broker for all tests of a process that need one, emptied for each."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from confluent_kafka.admin import AdminClient

from headstream.errors import JavaError
from headstream.testing import KafkaBroker

_PROPERTIES = {"auto.create.topics.enable": "false", "message.max.bytes": "20000000", "group.min.session.timeout.ms": "1000"}


@cache
def shared_broker() -> KafkaBroker:
    """Return the broker of this process, started at its first use."""
    broker = KafkaBroker(properties=_PROPERTIES, start_seconds=300)
    try:
        broker.start()
    except JavaError as error:
        pytest.skip(str(error))
    atexit.register(broker.stop)
    return broker


@contextmanager
def killed_broker() -> Iterator[None]:
    """Kill the broker, and start it again with its data and on its port when the body has ended."""
    broker = shared_broker()
    broker.kill()
    try:
        yield
    finally:
        broker.start()


@contextmanager
def empty_cluster() -> Iterator[str]:
    """Give the URL of a Kafka cluster without topics and groups."""
    broker = shared_broker()
    try:
        yield broker.url
    finally:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [name for name in admin.list_topics(timeout=60).topics if not name.startswith("__")]
        for future in admin.delete_topics(topics).values() if topics else ():
            future.result(60)
        groups = [group.group_id for group in admin.list_consumer_groups().result(60).valid]
        for future in admin.delete_consumer_groups(groups).values() if groups else ():
            if future.exception(60) is not None:
                continue  # its members are about to leave
