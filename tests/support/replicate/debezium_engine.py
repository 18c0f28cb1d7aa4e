"""A real Debezium: its embedded engine in a JVM, from a PostgreSQL to a listener for Kafka's clients."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headstream.spark.sessions.jar_digests import JAR_DIGESTS
from headstream.spark.sessions.jar_sets import Jar, JarSet
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java
from headstream.testing import PostgresServer

__all__ = ["DebeziumEngine"]

_SAMPLES: Final = Path(__file__).parents[2] / "samples" / "debezium"
_VERSION: Final = "3.6.1.Final"
_JARS: Final = JarSet(
    "debezium",
    (
        Jar("io.debezium", "debezium-embedded", _VERSION),
        Jar("io.debezium", "debezium-connector-postgres", _VERSION),
        Jar("org.slf4j", "slf4j-simple", "2.0.17"),
    ),
    transitive=True,
)
_START_S: Final = 60.0


class DebeziumEngine:
    """The engine of one connector; it ends with this process.

    Args:
        directory: For its offsets, settings and output.
        source: The database, with `wal_level` logical.
        kafka: Host and port of the listener, as `user:password` iggy.
        settings: Further settings of the connector.
    """

    def __init__(self, directory: Path, source: PostgresServer, kafka: str, settings: Mapping[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="iggy" password="iggy";'
        self._settings = {
            "name": "shop",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(directory / "offsets.dat"),
            "offset.flush.interval.ms": "200",
            "database.hostname": "127.0.0.1",
            "database.port": str(source.port),
            "database.user": source.user,
            "database.password": source.password,
            "database.dbname": "headstream",
            "topic.prefix": "shop",
            "plugin.name": "pgoutput",
            "slot.name": "shop",
            "publication.autocreate.mode": "all_tables",
            "schema.include.list": "public",
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            "poll.interval.ms": "50",
            "slot.drop.on.stop": "false",
            "producer.bootstrap.servers": kafka,
            "producer.security.protocol": "SASL_PLAINTEXT",
            "producer.sasl.mechanism": "PLAIN",
            "producer.sasl.jaas.config": login,
            "producer.acks": "all",
            "producer.delivery.timeout.ms": "120000",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it continues after the offsets that it has stored."""
        self.kill()
        jars = fetch(jar_set=_JARS)
        path = self._directory / "engine.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        command = [str(find_java().executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", ":".join(map(str, jars))]
        command += [str(_SAMPLES / "Engine.java"), str(path)]
        with (self._directory / "marks.txt").open("ab") as output, (self._directory / "engine.log").open("ab") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    @property
    def is_running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The end of what it has logged."""
        return (self._directory / "engine.log").read_text(errors="replace")[-6000:]

    def await_mark(self, number: int, timeout_s: float = _START_S) -> None:
        """Wait until it has sent the row of the table `marks` with a number."""
        until_s, starts = time.monotonic() + timeout_s, 0
        while f'"number":{number}}}' not in (self._directory / "marks.txt").read_text():
            assert time.monotonic() < until_s, f"mark {number} was not sent: {self.log}"
            if not self.is_running:
                starts += 1
                assert starts < 4, f"the engine ends again and again: {self.log}"
                self.start()
            time.sleep(0.05)

    def kill(self) -> None:
        """End it without a word to it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()

    def __enter__(self) -> DebeziumEngine:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


JAR_DIGESTS.update((line.split()[1], line.split()[0]) for line in (_SAMPLES / "jars.sha256").read_text().splitlines())
