"""A real Kafka broker for tests: one node (KRaft), started from its jars, up in about three seconds.

    from headstream.testing import KafkaBroker

    with KafkaBroker() as broker:
        broker.create_topic("shop.orders", partitions=2)
        broker.url                  # kafka://127.0.0.1:43121, for Headstream
        broker.bootstrap_servers    # 127.0.0.1:43121, for anybody else

In pytest: `pytest_plugins = ["headstream.testing.fixtures"]` in conftest.py, and a test takes `kafka_broker`.

It needs Java 17 and the jars, which `headstream jars --broker` fetches beforehand and the first start otherwise. It
listens on the loopback address alone. Its data lies in a folder of its own, gone with it; it ends with the process that
started it, however that ends (process_guard).
"""

from __future__ import annotations

import contextlib
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
from headstream.spark.jars import BROKER, fetch
from headstream.spark.java import find_java
from headstream.testing import kafka_requests, process_guard

__all__ = ["KafkaBroker"]

_HOST: Final = "127.0.0.1"
_ATTEMPTS: Final = 3
"""A free port may be taken by somebody else before the broker takes it."""
_LOOK_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 20
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
    """A Kafka broker of one node, from start() to stop(), or for as long as a `with` lasts.

    Args:
        properties: Settings of the broker that win over those made here, as {"message.max.bytes": "10485760"}.
        partitions: Partitions of a topic that is created by being used.
        heap_mb: Memory of its Java, in MiB.
        start_seconds: How long a start may take.
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

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as Kafka's clients take it."""
        return f"{_HOST}:{self._port()}"

    @property
    def url(self) -> str:
        """`kafka://host:port`, as Headstream takes it."""
        return f"kafka://{self.bootstrap_servers}"

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, and return it when it takes requests; one that runs is returned as it is.

        Raises:
            JavaError: there is no Java to run it with.
            JarsError: its jars are not there and could not be fetched.
            EnvironmentSetupError: it did not start; the text has the end of its log.
        """
        for attempt in range(_ATTEMPTS if not self.is_running else 0):
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="headstream-kafka-"))
                self._ports = _find_free_ports()
                self._format()
            try:
                self._launch()
                break
            except EnvironmentSetupError as error:
                self.stop()
                if attempt + 1 == _ATTEMPTS or "Address already in use" not in str(error):
                    raise
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self) -> None:
        """End it at once (as kill -9 does) and remove its data; does nothing where it does not run."""
        self._end(b"")
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def restart(self) -> None:
        """Kill it, and start it again with the same data on the same port: what a crash of a broker looks like.

        Raises:
            ClosedError: it was not started.
            EnvironmentSetupError: it did not start again; the text has the end of its log.
        """
        self._port()
        self._end(b"keep")
        self.start()

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic, and return when it can be used.

        Args:
            topic: Its name.
            partitions: How many, 1 or more.
            config: Its settings, as {"cleanup.policy": "compact"}.

        Raises:
            AlreadyExistsError: it is there.
            InvalidInputError: the broker refuses; the text says why.
            ClosedError: the broker does not run.
        """
        kafka_requests.create_topic(self._address(), topic, partitions, config or {})
        self._wait_for_partitions(topic, partitions)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, and return when they can be used.

        Args:
            topic: Its name.
            partitions: How many it is to have.

        Raises:
            InvalidInputError: the broker refuses; the text says why.
            ClosedError: the broker does not run.
        """
        kafka_requests.add_partitions(self._address(), topic, partitions)
        self._wait_for_partitions(topic, partitions)

    def count_partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 where there is no such topic."""
        return kafka_requests.count_partitions(self._address(), topic)

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of its log.

        Args:
            lines: How many lines at most.
        """
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

    def _port(self) -> int:
        if self._directory is None:
            raise ClosedError("the Kafka broker does not run", advice="Call start(), or use it in a `with`")
        return self._ports[0]

    def _address(self) -> tuple[str, int]:
        return _HOST, self._port()

    def _format(self) -> None:
        """Write the settings, and make the data folder what a new node's is."""
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
            # One node holds one copy of everything, and groups need not wait for more members.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Tests send messages of any time; by default those of more than a week ago are dropped.
            "log.retention.ms": "-1",
            # After restart() the node it was before must be given up first; by default that takes 9 seconds.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "1000",
            **self._properties,
        }
        (directory / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (directory / "log4j2.properties").write_text(_LOGGING)
        cluster = uuid.uuid4().hex[:22]
        command = self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(directory / "server.properties"))
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=self._start_seconds)
        if ran.returncode != 0:
            self.stop()
            raise EnvironmentSetupError(
                f"the Kafka broker's data folder could not be made:\n{ran.stdout}{ran.stderr}",
                advice="Look whether the properties are ones that Kafka 4.2 has",
            )

    def _java(self, *arguments: str) -> list[str]:
        directory = self._directory
        assert directory is not None
        folder = fetch(jar_set=BROKER)[0].parent
        logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"
        memory = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC"]
        return [str(find_java().executable), *memory, logging, "-cp", str(folder / "*"), *arguments]

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
                start_new_session=True,  # an interrupt from the keyboard is for the tests, which then stop it
            )
        end = time.monotonic() + self._start_seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise EnvironmentSetupError(f"the Kafka broker ended while it started:\n{self.log_tail()}")
            with contextlib.suppress(OSError, EnvironmentSetupError):
                if kafka_requests.count_brokers(self._address()) > 0:
                    return
            time.sleep(_LOOK_SECONDS)
        raise EnvironmentSetupError(
            f"the Kafka broker did not start in {self._start_seconds} seconds:\n{self.log_tail()}",
            advice="Give it longer with start_seconds",
        )

    def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        end = time.monotonic() + self._start_seconds
        while self.count_partitions(topic) < partitions:
            if time.monotonic() > end:
                raise NotFoundError(f"the topic {topic!r} did not get its {partitions} partitions", where=self.bootstrap_servers)
            time.sleep(_LOOK_SECONDS)

    def _end(self, word: bytes) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            process.stdin.write(word)
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(_STOP_SECONDS)


def _find_free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind((_HOST, 0))
        second.bind((_HOST, 0))
        return first.getsockname()[1], second.getsockname()[1]
