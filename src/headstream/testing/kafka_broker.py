"""A real Kafka broker for tests: one node (KRaft), started from its jars in about three seconds.

    from headstream.testing import KafkaBroker

    with KafkaBroker() as broker:
        broker.create_topic("shop.orders", partitions=2)
        broker.url                  # kafka://127.0.0.1:43121, for Headstream
        broker.bootstrap_servers    # 127.0.0.1:43121, for other clients

In pytest, a test takes the fixture `kafka_broker`.

It needs Java 17 and the jars, which `headstream jars --broker` downloads in advance, or else the first start. It
listens on the loopback address only. Its data folder is temporary; the broker ends with the process that
started it, even if that is killed (process_guard).
"""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headstream.errors import ClosedError, EnvironmentSetupError, NotFoundError
from headstream.spark.sessions.jar_sets import BROKER
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java
from headstream.testing import kafka_requests, process_guard

_HOST: Final = "127.0.0.1"
_ATTEMPTS: Final = 3
"""Another process can take a free port before the broker binds it."""
_PORTS: Final = (15_000, 32_000)
"""Ports to choose from; Linux gives outgoing connections those from 32,768 on."""
_PORT_ATTEMPTS: Final = 20
_WHOLE_LOG: Final = 100_000
"""Lines."""
_LOOK_SECONDS: Final = 0.05
_LOG_NAME: Final = "broker.log"
_LOGGING: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex{short}
"""


class KafkaBroker:
    """A Kafka broker of one node, running from start() to stop() or within a `with` statement.

    Args:
        properties: Broker settings that override the defaults here, as {"message.max.bytes": "10485760"}.
        partitions: Partitions of automatically created topics.
        heap_mb: Maximum Java heap, MiB.
        start_seconds: Timeout of a start, seconds.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        partitions: int = 1,
        heap_mb: int = 512,
        start_seconds: float = 60,
    ) -> None:
        self._properties = dict(properties or {})
        self._partitions = partitions
        self._heap_mb = heap_mb
        self._start_seconds = start_seconds
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = (0, 0)
        self._cluster_id = uuid.uuid4().hex[:22]

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, for Kafka clients."""
        return f"{_HOST}:{self._port()}"

    @property
    def url(self) -> str:
        """`kafka://host:port`, for Headstream."""
        return f"kafka://{self.bootstrap_servers}"

    @property
    def is_running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the broker and return it when it accepts requests; does nothing if it is running.

        Raises:
            JavaError: Java is missing or too old.
            JarsError: its jars are missing and cannot be downloaded.
            EnvironmentSetupError: it did not start; the text contains the end of its log.
        """
        for attempt in range(_ATTEMPTS if not self.is_running else 0):
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="headstream-kafka-"))
                self._ports = self._choose_ports()
                self._format()
            try:
                self._launch()
                break
            except EnvironmentSetupError:
                is_taken = "Address already in use" in self.log_tail(_WHOLE_LOG)
                self.stop()
                if attempt + 1 == _ATTEMPTS or not is_taken:
                    raise
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self) -> None:
        """Kill it (as kill -9 does) and remove its data; does nothing if it is not running."""
        self._end(b"")
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def kill(self) -> None:
        """Kill it (as kill -9 does), and keep its data: start() continues with it, on the same port. ClosedError: not started."""
        self._port()
        self._end(b"keep")

    def restart(self) -> None:
        """Kill it and start it again with the same data on the same port, to simulate a broker's crash.

        Raises:
            EnvironmentSetupError: it did not start again; the text contains the end of its log.
        """
        self.kill()
        self.start()

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic, and return when it is usable.

        Args:
            config: Its settings, as {"cleanup.policy": "compact"}.

        Raises:
            AlreadyExistsError: it exists.
            InvalidInputError: the broker rejects it; the text has the reason.
            ClosedError: the broker is not running.
        """
        kafka_requests.create_topic(self._address(), topic, partitions, config or {})
        self._wait_for_partitions(topic, partitions)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic, and return when they are usable.

        Raises:
            InvalidInputError: the broker rejects it; the text has the reason.
            ClosedError: the broker is not running.
        """
        kafka_requests.add_partitions(self._address(), topic, partitions)
        self._wait_for_partitions(topic, partitions)

    def count_partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions; 0 if it does not exist."""
        return kafka_requests.count_partitions(self._address(), topic)

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of its log, at most `lines` lines."""
        if self._directory is None:
            return ""
        try:
            text = (self._directory / _LOG_NAME).read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _choose_ports(self) -> tuple[int, int]:
        """Return the ports of clients and of the controller."""
        return find_free_ports()

    def _port(self) -> int:
        if self._directory is None:
            raise ClosedError("the Kafka broker is not running", advice="Call start(), or use it in a `with`")
        return self._ports[0]

    def _address(self) -> tuple[str, int]:
        return _HOST, self._port()

    def _format(self) -> None:
        """Write the settings, and format the data folder."""
        directory = self._directory
        assert directory is not None
        broker, controller = self._ports
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{_HOST}:{broker},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{broker}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
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
            # Tests send messages of any time; by default those older than a week are dropped.
            "log.retention.ms": "-1",
            # After restart() the previous session of the node must expire first; by default that takes 9 seconds.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "1000",
            **self._properties,
        }
        (directory / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (directory / "log4j2.properties").write_text(_LOGGING)
        command = self._java(
            "kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(directory / "server.properties")
        )
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=self._start_seconds)
        if ran.returncode != 0:
            self.stop()
            raise EnvironmentSetupError(
                f"the Kafka broker's data folder could not be formatted:\n{ran.stdout}{ran.stderr}",
                advice="Check that the properties exist in Kafka 4.2",
            )

    def _java(self, *arguments: str) -> list[str]:
        directory = self._directory
        assert directory is not None
        folder = fetch(jar_set=BROKER)[0].parent
        logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"
        # The simple JIT compiler: a test's broker ends before the code of the other would pay for its compilation.
        options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(find_java().executable), *options, logging, "-cp", str(folder / "*"), *arguments]

    def _launch(self) -> None:
        directory = self._directory
        assert directory is not None
        java = self._java("kafka.Kafka", str(directory / "server.properties"))
        with (directory / _LOG_NAME).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(process_guard.__file__), str(directory), *java],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the tests, which then stop it
            )
        end = time.monotonic() + self._start_seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise EnvironmentSetupError(f"the Kafka broker exited while starting:\n{self.log_tail()}")
            with contextlib.suppress(OSError, EnvironmentSetupError):
                if kafka_requests.count_brokers(self._address()) > 0:
                    return
            time.sleep(_LOOK_SECONDS)
        raise EnvironmentSetupError(
            f"the Kafka broker did not start in {self._start_seconds} seconds:\n{self.log_tail()}",
            advice="Increase start_seconds",
        )

    def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        end = time.monotonic() + self._start_seconds
        while self.count_partitions(topic) < partitions:
            if time.monotonic() > end:
                raise NotFoundError(f"the topic {topic!r} did not get its {partitions} partitions", where=self.bootstrap_servers)
            time.sleep(_LOOK_SECONDS)

    def _end(self, word: bytes) -> None:
        process, self._process = self._process, None
        if process is not None:
            process_guard.end(process, word)


def find_free_ports() -> tuple[int, int]:
    """Return two ports of the loopback address that no program has bound, and that no outgoing connection gets by itself."""
    with socket.socket() as first, socket.socket() as second:
        return _bind(first), _bind(second)


def _bind(to_bind: socket.socket) -> int:
    """Bind a socket to a port below the range of outgoing connections, of which tests make many, and return it."""
    for _ in range(_PORT_ATTEMPTS):
        with contextlib.suppress(OSError):
            to_bind.bind((_HOST, random.randrange(*_PORTS)))
            return int(to_bind.getsockname()[1])
    to_bind.bind((_HOST, 0))
    return int(to_bind.getsockname()[1])
