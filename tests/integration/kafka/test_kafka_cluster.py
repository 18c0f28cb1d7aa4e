"""Our client and three real brokers, of which one is killed: nothing is lost, and what was acknowledged is there once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

import headstream as hs
from headstream.testing.kafka_broker import KafkaBroker
from headstream.testing.kafka_cluster import KafkaCluster

_COUNT = 3000
_END_S = 240


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    made = KafkaCluster(start_seconds=400)
    try:
        made.start()
    except hs.JavaError as error:
        pytest.skip(str(error))
    yield made
    made.stop()


def leader_of(cluster: KafkaCluster, topic: str, partition: int) -> int:
    """Return the index of the broker that leads a partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(60)
    return int(next(each.leader.id for each in found.partitions if each.id == partition)) - 1


def restart(cluster: KafkaCluster, killed: KafkaBroker, topic: str) -> None:
    """Start a killed broker, and wait until it follows the cluster's leaders again."""
    killed.start()
    admin, until_s = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), time.monotonic() + _END_S
    while True:
        with suppress(KafkaException):  # the broker that answers may not know the topic yet
            found = admin.describe_topics(TopicCollection([topic]))[topic].result(60)
            if all(len(each.isr) == len(cluster.brokers) for each in found.partitions):
                return
        assert time.monotonic() < until_s, "the broker did not come back into the cluster"
        time.sleep(0.2)


def all_payloads(log: hs.Client, topic: str) -> list[list[int]]:
    partitions = [place.number for place in log.topic(topic).partitions]
    return [[int(message.payload or b"") for message in log.poll(topic, number, count=100_000)] for number in partitions]


@pytest.mark.nightly  # three brokers
def test_producer_stores_each_message_once_in_order_when_the_leader_is_killed(cluster: KafkaCluster) -> None:
    with hs.connect(cluster.url, timeout_ms=120_000) as log:
        log.create_topic("shop/orders", partitions=2)
        killed = cluster.brokers[leader_of(cluster, "shop.orders", 0)]
        with log.producer("shop/orders", batch_count=50, delivery_timeout_ms=int(_END_S * 1000)) as producer:
            receipts = []
            for number in range(_COUNT):
                receipts.append(producer.send(b"%d" % number, partition=number % 2))
                if number == _COUNT // 3:
                    receipts[-1].result(_END_S)
                    killed.kill()
            producer.flush()
            assert producer.stats().stored_count == _COUNT
        stored = all_payloads(log, "shop/orders")
        assert stored == [list(range(0, _COUNT, 2)), list(range(1, _COUNT, 2))]
        assert [receipt.offset for receipt in receipts] == [number // 2 for number in range(_COUNT)]
        restart(cluster, killed, "shop.orders")


class Deliveries:
    """What the members of a group received, and whether the commit after it was confirmed; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._confirmed = Counter[int]()
        self._unconfirmed = Counter[int]()

    def add(self, messages: list[hs.ReceivedMessage], *, is_confirmed: bool) -> None:
        with self._lock:
            (self._confirmed if is_confirmed else self._unconfirmed).update(int(message.payload or b"") for message in messages)

    @property
    def delivered(self) -> set[int]:
        with self._lock:
            return {*self._confirmed, *self._unconfirmed}

    @property
    def confirmed_again(self) -> set[int]:
        """Messages that came again although their commit was confirmed."""
        with self._lock:
            return {number for number, count in self._confirmed.items() if count > 1}


def consume(cluster: KafkaCluster, deliveries: Deliveries, done: threading.Event, limit: int) -> None:
    """Be a member of the group until `done` is set, or for some polls that return messages; -1 is no limit."""
    with hs.connect(cluster.url, timeout_ms=int(_END_S * 1000)) as own, own.consumer("shop/carts", group="billing") as consumer:
        while limit and not done.is_set():
            messages = consumer.poll(20, timeout_ms=200)
            try:
                consumer.commit()
                deliveries.add(messages, is_confirmed=True)
            except (hs.RebalancedError, hs.OutcomeUnknownError):
                deliveries.add(messages, is_confirmed=False)
            limit -= bool(messages)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_group_delivers_each_message_when_members_come_and_go_and_a_broker_is_killed(cluster: KafkaCluster) -> None:
    deliveries, done = Deliveries(), threading.Event()
    with hs.connect(cluster.url, timeout_ms=int(_END_S * 1000)) as log, ThreadPoolExecutor(3) as pool:
        log.create_topic("shop/carts", partitions=4)
        with log.producer("shop/carts") as producer:
            for number in range(_COUNT):
                producer.send(b"%d" % number, partition=number % 4)
        killed = cluster.brokers[leader_of(cluster, "shop.carts", 1)]
        members = [pool.submit(consume, cluster, deliveries, done, limit) for limit in (-1, 10)]

        def wait_until(is_true: Callable[[], bool]) -> None:
            """Wait for a condition; the error of a member that has failed is raised at once."""
            until_s = time.monotonic() + _END_S
            while not is_true():
                for member in members:
                    if member.done():
                        member.result()
                assert time.monotonic() < until_s, f"{len(deliveries.delivered)} of {_COUNT} messages came"
                time.sleep(0.05)

        try:
            wait_until(lambda: len(deliveries.delivered) >= _COUNT // 10)
            members.append(pool.submit(consume, cluster, deliveries, done, -1))
            killed.kill()
            wait_until(lambda: len(deliveries.delivered) == _COUNT)
            wait_until(lambda: set(log.offsets("shop/carts", "billing").values()) == {_COUNT // 4})
        finally:
            done.set()
            restart(cluster, killed, "shop.carts")
        for member in members:
            member.result(_END_S)
    assert deliveries.delivered == set(range(_COUNT))
    assert not deliveries.confirmed_again
