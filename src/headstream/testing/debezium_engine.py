"""A real Debezium for tests: the embedded engine in a JVM, which reads from PostgreSQL and writes to a Kafka listener.

    from headstream.testing import DebeziumEngine, LocalServer, PostgresServer

    with (
        PostgresServer(settings={"wal_level": "logical"}) as source,
        LocalServer(kafka=True) as server,
        DebeziumEngine(source, server.kafka_address) as engine,
    ):
        source.execute("CREATE TABLE orders (number int PRIMARY KEY, note text)")   # its topic is shop/public.orders
        engine.flush()                                                              # everything committed so far is sent

The engine requires Java 17. The first start downloads Debezium's jars. The engine captures the tables of the schema `public`.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Protocol

from headstream.errors import EnvironmentSetupError
from headstream.spark.sessions.jar_sets import DEBEZIUM, JarSet
from headstream.spark.sessions.jars import cache_folder, fetch
from headstream.spark.sessions.java import find_java
from headstream.testing.temporary_server import CHECK_SECONDS, TemporaryServer

_PROGRAM: Final = Path(__file__).with_name("DebeziumEngine.java")
_MARKS: Final = "marks.txt"
_OFFSETS: Final = "offsets.dat"
_STARTS: Final = 4
"""Maximum number of starts during one flush()."""
_MARK_SECONDS: Final = 1.0
_FORGET: Final = """
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active;
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}' AND NOT active;
SELECT 'left' FROM pg_replication_slots WHERE slot_name = '{slot}';
"""
_MARK: Final = """
CREATE TABLE IF NOT EXISTS headstream_marks (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
INSERT INTO headstream_marks DEFAULT VALUES RETURNING number;
"""
_LOGIN: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="iggy" password="iggy";'
_SETTINGS: Final = {
    "name": "shop",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms": "200",
    "database.hostname": "127.0.0.1",
    "database.dbname": "headstream",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "slot.name": "shop",
    "slot.drop.on.stop": "false",
    "publication.autocreate.mode": "all_tables",
    "schema.include.list": "public",
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
    "poll.interval.ms": "50",
    "producer.security.protocol": "SASL_PLAINTEXT",
    "producer.sasl.mechanism": "PLAIN",
    "producer.sasl.jaas.config": _LOGIN,
    "producer.acks": "all",
    "producer.delivery.timeout.ms": "120000",
}


class CapturedDatabase(Protocol):
    """A database that the engine can capture, such as PostgresServer."""

    @property
    def user(self) -> str:
        """Name of a user with the privilege REPLICATION."""

    @property
    def password(self) -> str:
        """Password of the user."""

    @property
    def port(self) -> int:
        """The server's port on the loopback interface."""

    def execute(self, sql: str) -> str:
        """Run statements and return their output, one line per row."""


class DebeziumEngine(TemporaryServer):
    """The engine of one connector, which runs from start() to stop() or within a `with` statement.

    After kill(), start() continues after the stored offsets. Topic names begin with `shop`. In a Headstream log, create the
    topics with `limits="wide"` before the first change of a table.

    Args:
        source: A running database with `wal_level` logical.
        kafka: Host and port of Headstream's Kafka listener; the engine logs in as the root user with the default password.
        settings: Additional connector settings; the names of producer settings begin with `producer.`.
        start_seconds: Timeout of start() and flush(), seconds.
    """

    _jars: ClassVar[JarSet] = DEBEZIUM
    _mark: ClassVar[str] = _MARK
    """Statements that insert a row into `headstream_marks`, and return the row's number."""

    def __init__(
        self,
        source: CapturedDatabase,
        kafka: tuple[str, int],
        *,
        settings: Mapping[str, str] | None = None,
        start_seconds: float = 60,
    ) -> None:
        super().__init__("Debezium engine", start_seconds=start_seconds)
        self._source = source
        self._settings = _SETTINGS | {
            "database.port": str(source.port),
            "database.user": source.user,
            "database.password": source.password,
            "producer.bootstrap.servers": f"{kafka[0]}:{kafka[1]}",
            **(settings or {}),
        }

    def flush(self) -> None:
        """Wait until everything that the source has committed is sent.

        This method inserts a row into the table `headstream_marks` and waits until the engine has sent the row. If the engine has
        ended, for example because the listener was unavailable, the engine is restarted.

        Raises:
            EnvironmentSetupError: the changes are not sent within the timeout, or the engine ends repeatedly; the message
                contains the end of the engine's log.
        """
        marks = self._home() / _MARKS
        first = int(self._source.execute(self._mark))
        begun = marked = time.monotonic()
        starts = 0
        while max(_sent_marks(marks), default=0) < first:
            now = time.monotonic()
            if (starts == _STARTS and not self.is_running) or now > begun + self._start_seconds:
                raise EnvironmentSetupError(f"the Debezium engine does not send the source's changes:\n{self.log_tail()}")
            if not self.is_running:  # a start begins a new log file
                starts += 1
                self.start()
            if now > marked + _MARK_SECONDS:  # a row that a snapshot has read does not show that later tables are read
                self._source.execute(self._mark)
                marked = now
            time.sleep(CHECK_SECONDS)

    @property
    def has_snapshot(self) -> bool:
        """Whether the stored offsets include a complete snapshot; ClosedError if the engine was not started."""
        offsets = self._home() / _OFFSETS
        stored = offsets.read_bytes() if offsets.exists() else b""
        return b'"lsn' in stored and (b'"snapshot' not in stored or b'"snapshot_completed":true' in stored)

    def forget(self) -> None:
        """Kill the engine, and remove its offsets and its replication slot, so that the next start() takes a snapshot.

        If the old slot remained, changes since the slot's position would be sent twice: in the snapshot, and as inserts after it.
        """
        self.kill()
        (self._home() / _OFFSETS).unlink(missing_ok=True)
        slot = self._settings["slot.name"]
        while "left" in self._source.execute(_FORGET.format(slot=slot)):
            time.sleep(CHECK_SECONDS)

    def _prepare(self, directory: Path) -> None:
        settings = self._settings | {
            "offset.storage.file.filename": str(directory / _OFFSETS),
            "marks.file": str(directory / _MARKS),
        }
        (directory / "engine.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _command(self, directory: Path) -> list[str]:
        jars = fetch(jar_set=self._jars)
        command = [*_java(), "-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", ":".join(map(str, [_compiled(jars), *jars]))]
        return [*command, "Engine", str(directory / "engine.properties")]


def _java() -> list[str]:
    return [str(find_java().executable), "-XX:TieredStopAtLevel=1"]


def _compiled(jars: Sequence[Path]) -> Path:
    """Return the folder of the compiled program; it is compiled if it is missing."""
    folder = cache_folder() / f"debezium-engine-{hashlib.sha256(_PROGRAM.read_bytes()).hexdigest()[:8]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            made = Path(work, "classes")
            options = ["--release", "17", "-cp", ":".join(map(str, jars)), "-d", str(made), str(_PROGRAM)]
            compiler = [*_java(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
            ran = subprocess.run([*compiler, *options], capture_output=True, text=True, errors="replace")
            if ran.returncode != 0:
                raise EnvironmentSetupError(f"{_PROGRAM.name} cannot be compiled: {ran.stderr}", advice="Install a JDK")
            with contextlib.suppress(OSError):  # another process was faster
                made.rename(folder)
    return folder


def _sent_marks(path: Path) -> list[int]:
    """Return the numbers of the rows of `headstream_marks` that have been sent."""
    text = path.read_text() if path.exists() else ""
    return [int(number) for number in re.findall(r'"number":(\d+)\}\}?$', text, re.MULTILINE)]
