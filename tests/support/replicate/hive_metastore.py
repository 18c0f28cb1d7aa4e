"""Hive's metastore as a service of its own, from the jars that PySpark ships, with a Derby database in a directory."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from socket import create_connection, socket
from types import TracebackType
from typing import Final

import pyspark

from headstream.spark.sessions.java import find_java

_START_SECONDS: Final = 120
_OPENED: Final = ("java.base/java.net", "java.base/java.lang", "java.base/java.util")


class HiveMetastore:
    """A metastore on a port of its own; it can be killed and started again, on the same port with the same content.

    Args:
        directory: Of its database.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> HiveMetastore:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.kill()

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a Spark session that has it as its catalog."""
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{self._port}",
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
            "spark.sql.warehouse.dir": str(self._directory / "warehouse"),
        }

    def start(self) -> None:
        """Start it, and wait until it can be connected to."""
        jars = Path(pyspark.__file__).parent / "jars"
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._directory / 'db'};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(self._directory / "warehouse"),
        }
        command = [str(find_java().executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dhive.async.log.enabled=false"]
        command += [f"-Dderby.stream.error.file={self._directory / 'derby.log'}", "-cp", f"{jars}/*"]
        command += [f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED]
        command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self._port)]
        command += [part for name, value in settings.items() for part in ("--hiveconf", f"{name}={value}")]
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "metastore.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                ended = self._process.poll()
                if ended is not None or time.monotonic() > deadline:
                    self.kill()
                    text = (self._directory / "metastore.log").read_text(errors="replace")
                    raise AssertionError(f"the metastore has not started ({ended}): {text[-2000:]}") from None
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
