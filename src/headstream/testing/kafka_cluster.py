"""A Kafka cluster for tests: several real brokers (KRaft), which are also controllers; a minority can be killed.

    with KafkaCluster() as cluster:
        cluster.url                     # kafka://127.0.0.1:43121,127.0.0.1:43125,127.0.0.1:43129
        cluster.brokers[0].kill()       # the broker with node.id 1; start() continues with the broker's data

Topics have a replica on each broker, and a write requires two in-sync replicas. Requirements are as for KafkaBroker.
"""

from __future__ import annotations

import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from headstream.testing.kafka_broker import KafkaBroker
from headstream.testing.temporary_server import HOST, find_free_ports

_HEAP_MB: Final = 256


class _Node(KafkaBroker):
    """One broker of a cluster; `ports` are the client and controller ports of all nodes, in order of node number."""

    def __init__(self, number: int, cluster: str, ports: list[tuple[int, int]], start_seconds: float) -> None:
        count = str(len(ports))
        voters = ",".join(f"{index}@{HOST}:{controller}" for index, (_, controller) in enumerate(ports, 1))
        properties = {
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "default.replication.factor": count,
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": count,
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": "2",
            "auto.create.topics.enable": "false",
            "controller.quorum.election.timeout.ms": "2000",
            "controller.quorum.fetch.timeout.ms": "4000",
        }
        super().__init__(properties=properties, heap_mb=_HEAP_MB, start_seconds=start_seconds)
        self._cluster_id = cluster
        self._given_ports = ports[number - 1]


class KafkaCluster:
    """The brokers of one cluster, running within a `with` statement.

    Args:
        count: Number of brokers, 3 or more.
        start_seconds: Start timeout of a broker, seconds.
    """

    def __init__(self, count: int = 3, *, start_seconds: float = 120) -> None:
        ports: list[tuple[int, int]] = []
        while len({*itertools.chain(*ports)}) < 2 * count:
            ports = [find_free_ports() for _ in range(count)]
        cluster = uuid.uuid4().hex[:22]
        self.brokers: list[KafkaBroker] = [_Node(number, cluster, ports, start_seconds) for number in range(1, count + 1)]

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port`, for Kafka clients."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def url(self) -> str:
        """`kafka://host:port,host:port`, for Headstream."""
        return f"kafka://{self.bootstrap_servers}"

    def start(self) -> Self:
        """Start all brokers concurrently, since a majority elects the controller; EnvironmentSetupError if this fails."""
        try:
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                list(pool.map(lambda broker: broker.start(), self.brokers))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill all brokers, and remove their data."""
        for broker in self.brokers:
            broker.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
