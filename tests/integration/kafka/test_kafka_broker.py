"""The Kafka broker that users get for their tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import AlreadyExistsError, ClosedError, EnvironmentSetupError, InvalidInputError
from headstream.testing import KafkaBroker
from tests.support.waiting import wait_until

_STARTER = """
import sys, time
from headstream.testing import KafkaBroker
with KafkaBroker() as broker:
    print(broker.bootstrap_servers, broker._directory, flush=True)
    time.sleep(300)
"""


def test_kafka_broker_creates_topics_and_adds_partitions_when_asked(kafka_broker: KafkaBroker) -> None:
    assert kafka_broker.count_partitions("created") == 0
    kafka_broker.create_topic("created", partitions=3, config={"cleanup.policy": "compact"})
    assert kafka_broker.count_partitions("created") == 3
    kafka_broker.add_partitions("created", 5)
    assert kafka_broker.count_partitions("created") == 5
    with pytest.raises(AlreadyExistsError, match="'created' already exists"):
        kafka_broker.create_topic("created")
    with pytest.raises(InvalidInputError, match="rejected the topic 'no such name'"):
        kafka_broker.create_topic("no such name")


def test_kafka_broker_keeps_what_it_was_sent_when_it_is_restarted(kafka_broker: KafkaBroker) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    kafka_broker.create_topic("kept")
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce("kept", b"payload", headers=[("source", b"web")])
    assert producer.flush(120) == 0
    before = kafka_broker.bootstrap_servers
    kafka_broker.restart()
    assert kafka_broker.bootstrap_servers == before
    consumer = Consumer({"bootstrap.servers": before, "group.id": "g"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    message = consumer.poll(120)
    assert message is not None
    assert message.error() is None
    assert message.value() == b"payload"
    consumer.close()


def test_kafka_broker_shows_its_log_when_it_does_not_start() -> None:
    broker = KafkaBroker(properties={"num.io.threads": "0"})
    with pytest.raises(EnvironmentSetupError, match=r"num\.io\.threads"):
        broker.start()
    assert not broker.is_running
    assert broker._directory is None
    with pytest.raises(ClosedError, match="is not running"):
        _ = broker.url


@pytest.mark.parametrize("ending", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGKILL])
def test_kafka_broker_leaves_nothing_behind_when_its_starter_is_ended(ending: signal.Signals) -> None:
    starter = subprocess.Popen([sys.executable, "-c", _STARTER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    address, directory = starter.stdout.readline().split()
    host, _, port = address.partition(":")
    os.kill(starter.pid, ending)
    starter.communicate(timeout=180)
    wait_until(lambda: not Path(directory).exists())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
