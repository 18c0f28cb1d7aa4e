"""What docs/consuming.md says of Kafka's share groups, beside a real broker and Kafka's client for Java."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer
from py4j.java_gateway import GatewayParameters, JavaGateway, get_field, launch_gateway
from py4j.protocol import Py4JJavaError

from headstream.errors import JavaError
from headstream.spark.sessions.jar_sets import BROKER
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java
from headstream.testing import KafkaBroker

pytestmark = pytest.mark.nightly  # it is about Kafka, which Headstream is compared with

END_S = 120.0
LOCK_S = 2.0
_CLIENTS = "org.apache.kafka.clients"
_STRINGS = "org.apache.kafka.common.serialization.StringDeserializer"


class Worker:
    """A share consumer that acknowledges explicitly."""

    def __init__(self, kafka: Kafka, topic: str, **settings: str) -> None:
        self._kafka = kafka
        given = {"bootstrap.servers": kafka.address, "group.id": f"workers of {topic}"}
        given |= {"share.acknowledgement.mode": "explicit", "key.deserializer": _STRINGS, "value.deserializer": _STRINGS}
        self._consumer = kafka.java.org.apache.kafka.clients.consumer.KafkaShareConsumer(given | settings)
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float = END_S) -> list[Any]:
        """Return the next records; none if there are none in time."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if found := each(self._consumer.poll(self._kafka.java.java.time.Duration.ofMillis(200))):
                return found
        return []

    def say(self, record: Any, kind: str) -> None:
        """Acknowledge, release, reject or renew a record."""
        self._consumer.acknowledge(record, self._kafka.java.org.apache.kafka.clients.consumer.AcknowledgeType.valueOf(kind))

    def commit(self) -> list[str | None]:
        """Commit what was said, and return the error of each partition."""
        entries = each(self._consumer.commitSync(self._kafka.java.java.time.Duration.ofSeconds(60)).entrySet())
        results = [entry.getValue() for entry in entries]
        return [result.get().getClass().getSimpleName() if result.isPresent() else None for result in results]

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


class Kafka:
    """A broker, and a JVM with Kafka's clients."""

    def __init__(self, broker: KafkaBroker, java: Any) -> None:
        self.broker, self.java, self.address = broker, java, broker.bootstrap_servers

    def fill(self, topic: str, count: int, **group: str) -> str:
        """Make a topic with records, and the settings of its group."""
        self.broker.create_topic(topic)
        producer = Producer({"bootstrap.servers": self.address, "batch.num.messages": 50})
        for number in range(count):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(END_S) == 0
        self.set_up(topic, **group)
        return topic

    def set_up(self, topic: str, **group: str) -> None:
        """Set the options of a topic's group."""
        java, admin_of = self.java, self.java.org.apache.kafka.clients.admin
        admin = admin_of.Admin.create({"bootstrap.servers": self.address})
        resource = java.org.apache.kafka.common.config.ConfigResource
        kind = getattr(java, "org.apache.kafka.common.config.ConfigResource$Type").valueOf("GROUP")
        operation = getattr(java, f"{_CLIENTS}.admin.AlterConfigOp$OpType").valueOf("SET")
        options = {"share_auto_offset_reset": "earliest", **group}
        entries = [admin_of.ConfigEntry(name.replace("_", "."), value) for name, value in options.items()]
        changes = [admin_of.AlterConfigOp(entry, operation) for entry in entries]
        admin.incrementalAlterConfigs({resource(kind, f"workers of {topic}"): changes}).all().get()
        admin.close()


def each(iterable: Any) -> list[Any]:
    """Return what a Java object iterates over."""
    iterator, found = iterable.iterator(), []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def deliveries(records: list[Any]) -> list[tuple[int, int]]:
    """Return the offset of each record, and how often it was delivered."""
    return [(record.offset(), record.deliveryCount().get()) for record in records]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    try:
        java = str(find_java().executable)
    except JavaError as error:
        pytest.skip(str(error))
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    places = f"{fetch(jar_set=BROKER)[0].parent}/*"
    with KafkaBroker(properties={"group.share.min.record.lock.duration.ms": "1000"}, start_seconds=300) as broker:
        options = ["-Xmx256m", "-Dorg.apache.logging.log4j.simplelog.level=OFF"]
        port = launch_gateway(jarpath=str(jar), classpath=places, javaopts=options, java_path=java, die_on_exit=True)
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        try:
            yield Kafka(broker, gateway.jvm)
        finally:
            gateway.shutdown()


@pytest.fixture
def start(kafka: Kafka) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(topic: str, **settings: str) -> Worker:
        started.append(Worker(kafka, topic, **settings))
        return started[-1]

    yield start
    for worker in started:
        worker.close()


def test_a_released_record_comes_back_at_once_until_its_fifth_delivery_and_then_never(
    kafka: Kafka, start: Callable[..., Worker]
) -> None:
    worker, seen = start(kafka.fill("released", 3)), []
    for _ in range(5):
        found = worker.poll()
        seen.append(deliveries(found))
        for record in found:
            worker.say(record, "RELEASE" if record.offset() == 1 else "ACCEPT")
        assert worker.commit() == [None]
    assert seen == [[(0, 1), (1, 1), (2, 1)], *([(1, number)] for number in range(2, 6))]
    kafka.fill("released.sentinel", 1)
    assert len(start("released.sentinel").poll()) == 1  # other groups go on
    assert worker.poll(3) == []


def test_a_partition_lends_two_thousand_records_at_a_time_and_the_limits_have_these_ranges(
    kafka: Kafka, start: Callable[..., Worker]
) -> None:
    topic = kafka.fill("many", 6000)
    workers = [start(topic, **{"max.poll.records": "5000"}) for _ in range(2)]
    assert len(workers[0].poll()) == 2000
    assert workers[1].poll(3) == []
    definitions = kafka.java.org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig.CONFIG_DEF.configKeys()
    found = {
        name: (get_field(definitions[name], "defaultValue"), str(get_field(definitions[name], "validator")))
        for name in ("group.share.partition.max.record.locks", "group.share.delivery.count.limit")
    }
    assert found == {
        "group.share.partition.max.record.locks": (2000, "[100,...,10000]"),
        "group.share.delivery.count.limit": (5, "[2,...,10]"),
    }


def test_aborted_records_are_hidden_with_read_committed_alone(kafka: Kafka, start: Callable[..., Worker]) -> None:
    seen = {}
    for level in ("read_uncommitted", "read_committed"):
        topic = kafka.fill(level, 0, share_isolation_level=level)
        producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": level})
        producer.init_transactions(END_S)
        for word in ("aborted", "committed"):
            producer.begin_transaction()
            producer.produce(topic, word.encode())
            producer.flush(END_S)
            (producer.commit_transaction if word == "committed" else producer.abort_transaction)(END_S)
        seen[level] = [record.value() for record in start(topic).poll()]
    assert seen == {"read_uncommitted": ["aborted", "committed"], "read_committed": ["committed"]}


def test_a_late_acknowledgement_is_refused_for_its_partition_and_a_renewed_lock_lasts_on(
    kafka: Kafka, start: Callable[..., Worker]
) -> None:
    topic = kafka.fill("late", 2, share_record_lock_duration_ms=str(int(LOCK_S * 1000)))
    worker, other = start(topic), start(topic)
    records = worker.poll()
    assert deliveries(records) == [(0, 1), (1, 1)]
    for _ in range(4):  # twice as long as the lock
        for record in records:
            worker.say(record, "RENEW")
        assert worker.commit() == [None]
        assert other.poll(LOCK_S / 2) == []
        records = worker.poll()
        assert deliveries(records) == [(0, 1), (1, 1)]
    assert deliveries(other.poll()) == [(0, 2), (1, 2)]  # the locks are over
    for record in records:
        worker.say(record, "ACCEPT")
    assert worker.commit() == ["InvalidRecordStateException"]


def test_what_was_acknowledged_outlives_the_broker_and_an_unanswered_acknowledgement_cannot_be_repeated(
    kafka: Kafka, start: Callable[..., Worker]
) -> None:
    topic = kafka.fill("restarted", 4)
    worker = start(topic)
    records = worker.poll()
    for record, kind in zip(records, ("ACCEPT", "RELEASE", "REJECT", "RELEASE"), strict=True):
        worker.say(record, kind)
    assert worker.commit() == [None]
    records = worker.poll()
    assert deliveries(records) == [(1, 2), (3, 2)]
    for record in records:
        worker.say(record, "ACCEPT")
    kafka.broker.kill()
    try:
        failed = worker.commit()
    except Py4JJavaError as error:  # it timed out
        failed = [error.java_exception.getClass().getSimpleName()]
    assert None not in failed
    kafka.broker.start()
    with pytest.raises(Py4JJavaError, match="cannot be acknowledged"):
        worker.say(records[0], "ACCEPT")
    again, found = start(topic), list[tuple[int, int]]()
    while len(found) < 2:
        records = again.poll()
        assert records
        found += deliveries(records)
        for record in records:
            again.say(record, "ACCEPT")
        assert again.commit() == [None]
    assert sorted(offset for offset, _ in found) == [1, 3]  # the count of their deliveries can be lost with the broker
