"""A real Kafka broker for tests: a single node (KRaft) that starts in about three seconds.

    from headstream.testing import KafkaBroker

    with KafkaBroker() as broker:
        broker.create_topic("shop.orders", partitions=2)
        broker.url                  # kafka://127.0.0.1:43121, for Headstream
        broker.bootstrap_servers    # 127.0.0.1:43121, for other clients

In pytest, use the fixture `kafka_broker`.

The broker requires Java 17. The first start downloads the jars, unless `headstream jars --broker` has downloaded them. The broker
listens only on the loopback interface, and its data directory is temporary. The broker is stopped when the process that started
it exits or is killed (process_guard).
"""

from __future__ import annotations

import contextlib
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headstream.errors import EnvironmentSetupError, NotFoundError
from headstream.spark.sessions.jar_sets import BROKER
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java
from headstream.testing import kafka_requests
from headstream.testing.temporary_server import HOST, TemporaryServer, find_free_ports

_CHECK_SECONDS: Final = 0.05
_LOGGING: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex{short}
"""


class KafkaBroker(TemporaryServer):
    """A Kafka broker of one node, which runs from start() to stop() or within a `with` statement.

    Args:
        properties: Broker settings that override the test defaults, such as {"message.max.bytes": "10485760"}.
        partitions: Partition count of automatically created topics.
        heap_mb: Maximum Java heap, MiB.
        start_seconds: Start timeout, seconds.
    """

    def __init__(
        self, *, properties: Mapping[str, str] | None = None, partitions: int = 1, heap_mb: int = 512, start_seconds: float = 60
    ) -> None:
        super().__init__("Kafka broker", start_seconds=start_seconds)
        self._properties = dict(properties or {})
        self._partitions = partitions
        self._heap_mb = heap_mb
        self._ports = (0, 0)
        self._given_ports: tuple[int, int] | None = None
        self._cluster_id = uuid.uuid4().hex[:22]

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, for Kafka clients."""
        return f"{HOST}:{self._port()}"

    @property
    def url(self) -> str:
        """`kafka://host:port`, for Headstream."""
        return f"kafka://{self.bootstrap_servers}"

    def restart(self) -> None:
        """Kill the broker and start it with the same data on the same port, to simulate a crash.

        Raises:
            EnvironmentSetupError: the broker did not start; the message contains the end of its log.
        """
        self.kill()
        self.start()

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic, and wait until it is usable.

        Args:
            config: Settings of the topic, such as {"cleanup.policy": "compact"}.

        Raises:
            AlreadyExistsError: the topic exists already.
            InvalidInputError: the broker rejects the request; the message contains the reason.
            ClosedError: the broker is not running.
        """
        kafka_requests.create_topic(self._address(), topic, partitions, config or {})
        self._wait_for_partitions(topic, partitions)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic, and wait until they are usable.

        Raises:
            InvalidInputError: the broker rejects the request; the message contains the reason.
            ClosedError: the broker is not running.
        """
        kafka_requests.add_partitions(self._address(), topic, partitions)
        self._wait_for_partitions(topic, partitions)

    def count_partitions(self, topic: str) -> int:
        """Return a topic's partition count; 0 if the topic does not exist."""
        return kafka_requests.count_partitions(self._address(), topic)

    def _port(self) -> int:
        self._home()
        return self._ports[0]

    def _address(self) -> tuple[str, int]:
        return HOST, self._port()

    def _prepare(self, directory: Path) -> None:
        """Write the settings, and format the data directory."""
        self._ports = broker, controller = self._given_ports or find_free_ports()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{broker}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            "num.partitions": str(self._partitions),
            # One node has one replica of everything, and groups need not wait for more members.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Tests send messages with any timestamp; by default, messages older than a week are dropped.
            "log.retention.ms": "-1",
            # After restart() the previous session of the node must expire first; by default that takes 9 seconds.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "1000",
            **self._properties,
        }
        (directory / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (directory / "log4j2.properties").write_text(_LOGGING)
        tool = ("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(directory / "server.properties"))
        command = self._java(directory, *tool)
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=self._start_seconds)
        if ran.returncode != 0:
            raise EnvironmentSetupError(
                f"the Kafka broker's data folder could not be formatted:\n{ran.stdout}{ran.stderr}",
                advice="Check that the properties exist in Kafka 4.2",
            )

    def _java(self, directory: Path, *arguments: str) -> list[str]:
        folder = fetch(jar_set=BROKER)[0].parent
        logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"
        # Only the JIT compiler C1: a test's broker exits before the faster code of C2 would repay the time of its compilation.
        options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(find_java().executable), *options, logging, "-cp", str(folder / "*"), *arguments]

    def _command(self, directory: Path) -> list[str]:
        return self._java(directory, "kafka.Kafka", str(directory / "server.properties"))

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, EnvironmentSetupError):
            return kafka_requests.count_brokers(self._address()) > 0
        return False

    def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        end = time.monotonic() + self._start_seconds
        while self.count_partitions(topic) < partitions:
            if time.monotonic() > end:
                raise NotFoundError(f"{topic!r} did not get {partitions} partitions in time", where=self.bootstrap_servers)
            time.sleep(_CHECK_SECONDS)
