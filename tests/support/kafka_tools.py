"""Runs Kafka's command-line tools from its jars, without its shell scripts.

    run_kafka_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--list")

It needs Java 17 and the jars, which the first use fetches: those of the broker, and one of the tools.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from headstream.spark.sessions.jar_sets import BROKER, Jar, JarSet
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java

__all__ = ["run_kafka_tool"]

_TOOLS: Final = JarSet("kafka-tools", (Jar("org.apache.kafka", "kafka-tools", "4.2.0"),), transitive=False)
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
    folders = [fetch(jar_set=jar_set)[0].parent for jar_set in (BROKER, _TOOLS)]
    with tempfile.TemporaryDirectory(prefix="headstream-kafka-tool-") as directory:
        logging = Path(directory) / "log4j2.properties"
        logging.write_text(_LOGGING)
        java = [str(find_java().executable), f"-Xmx{heap_mb}m", f"-Dlog4j2.configurationFile={logging}"]
        command = [*java, "-cp", ":".join(f"{folder}/*" for folder in folders), name, *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=timeout_s)
