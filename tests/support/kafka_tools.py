"""Runs Kafka's command-line tools from its jars, without its shell scripts.

    run_kafka_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--list")

It needs Java 17 and the jars, which the first use fetches: those of the broker, and one of the tools.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headstream.spark.sessions.jar_sets import BROKER, Jar, JarSet
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java

_TOOLS: Final = JarSet("kafka-tools", (Jar("org.apache.kafka", "kafka-tools", "4.2.0"),), transitive=False)
_APACHE: Final = "org.apache.kafka"
_CONNECT_JARS: Final = tuple(Jar(_APACHE, name, "4.2.0") for name in ("connect-runtime", "connect-file", "connect-mirror"))
CONNECT: Final = JarSet("kafka-connect", _CONNECT_JARS, transitive=True)
"""Connect with its file connectors, and MirrorMaker 2."""
STREAMS: Final = JarSet("kafka-streams", (Jar(_APACHE, "kafka-streams", "4.2.0"),), transitive=True)
_SCRIPTS: Final = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


def run_kafka_tool(
    name: str, *arguments: str, given: str | None = None, heap_mb: int = 256, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end, and return its output.

    Args:
        name: Its class, as `org.apache.kafka.tools.TopicCommand`.
        heap_mb: Maximum Java heap, MiB.
        timeout_s: Its timeout, seconds.

    Raises:
        JavaError: Java is missing or too old.
        JarsError: its jars are missing and cannot be downloaded.
        CalledProcessError: it failed; the error contains its output.
        TimeoutExpired: it timed out, and was killed.
    """
    with _command((BROKER, _TOOLS), heap_mb, name, *arguments) as command:
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=timeout_s)


@contextmanager
def kafka_program(
    jar_set: JarSet, name: str, *arguments: str, output: Path, heap_mb: int = 256
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Kafka's programs as long as the body does.

    Args:
        jar_set: CONNECT or STREAMS.
        name: Its class, or a file with its source.
        output: The file that gets its output.
        heap_mb: Maximum Java heap, MiB.
    """
    with (
        _command((jar_set, BROKER), heap_mb, name, *arguments) as command,
        output.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def kafka_scripts(directory: Path) -> Iterator[None]:
    """Write some scripts of a Kafka distribution to a directory; they work as long as the body runs."""
    with _command((BROKER, _TOOLS), 256) as java:
        for script, name in _SCRIPTS.items():
            path = directory / script
            path.write_text(f'#!/bin/sh\nexec {shlex.join([*java, name])} "$@"\n')
            path.chmod(0o755)
        yield


@contextmanager
def _command(jar_sets: tuple[JarSet, ...], heap_mb: int, *words: str) -> Iterator[list[str]]:
    folders = [fetch(jar_set=jar_set)[0].parent for jar_set in jar_sets]
    with tempfile.TemporaryDirectory(prefix="headstream-kafka-tool-") as directory:
        logging = Path(directory) / "log4j2.properties"
        logging.write_text(_LOGGING)
        java = [
            str(find_java().executable),
            f"-Xmx{heap_mb}m",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={logging}",
        ]
        yield [*java, "-cp", ":".join(f"{folder}/*" for folder in folders), *words]
