"""Other readers of Iceberg tables, each a process of its own, and Iceberg's own REST catalog server.

tools/install_nightly_tools.sh installs them; a test of one that is not installed is skipped.
"""

from __future__ import annotations

import atexit
import base64
import functools
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, cast

import pytest

from headstream.spark.sessions.java import find_java
from headstream.testing.temporary_server import find_free_ports

__all__ = [
    "DuckReader",
    "FaultyCatalog",
    "ReaderProcesses",
    "RestCatalogServer",
    "SparkReader",
    "as_compared",
    "is_installed",
    "shared_readers",
]

_INSTALLED: Final = Path(__file__).parents[3] / ".cache" / "iceberg-readers"
_LOOP: Final = """
import base64, json, pickle, sys
for line in sys.stdin:
    try:
        answer = True, query(json.loads(line))
    except Exception as error:
        answer = False, f"{type(error).__name__}: {error}"
    print("answer", base64.b64encode(pickle.dumps(answer)).decode(), flush=True)
"""
_DUCK: Final = """
import glob, importlib, duckdb
connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
connection.execute("SET TimeZone = 'UTC'")
for name in ("avro", "iceberg"):
    (file,) = glob.glob(importlib.import_module(f"duckdb_extension_{name}").__path__[0] + "/extensions/*/*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
def query(text):
    found = connection.execute(text)
    return [column[0] for column in found.description], found.fetchall()
"""
_SPARK: Final = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for setting in sys.argv[1:]:
    builder = builder.config(*setting.split("=", 1))
session = builder.getOrCreate()
session.sparkContext.setLogLevel("ERROR")
def query(text):
    found = session.sql(text).toArrow()  # collect() makes no times of the first day of year 1
    return found.column_names, list(zip(*(column.to_pylist() for column in found.columns)))
"""


def is_installed(name: str) -> bool:
    """Return whether a reader is there."""
    return (_INSTALLED / name).is_dir()


def _installed(name: str) -> Path:
    if not is_installed(name):
        pytest.skip(f"no {name} for Iceberg: tools/install_nightly_tools.sh installs it")
    return _INSTALLED / name


def as_compared(columns: list[str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows in order, with the names of their columns before them, as delta_rows() does; times are without zone."""
    order = sorted(range(len(columns)), key=columns.__getitem__)
    plain = [tuple(_plain(row[place]) for place in order) for row in rows]
    return [tuple(columns[place] for place in order) if rows else (), *sorted(plain, key=repr)]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray) else value


class _Reader:
    """A process that answers queries; it ends with the block."""

    def __init__(self, program: str, packages: Path, errors: Path, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        environment |= {"PYTHONPATH": str(packages), "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-c", program + _LOOP, *arguments]
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, start_new_session=True
            )
        self.pid = self._process.pid

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query as as_compared() has them.

        Raises:
            RuntimeError: the reader has refused it.
        """
        sent, came = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        sent.write(json.dumps(text).encode() + b"\n")
        sent.flush()
        for line in came:
            if line.startswith(b"answer "):
                is_right, answer = pickle.loads(base64.b64decode(line[7:]))
                if not is_right:
                    raise RuntimeError(answer)
                return as_compared(*answer)
        raise AssertionError(f"the reader has ended: {self._errors.read_text(errors='replace')[-3000:]}")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            cast(IO[bytes], stream).close()


class DuckReader(_Reader):
    """DuckDB with its extension for Iceberg."""

    def __init__(self, directory: Path) -> None:
        super().__init__(_DUCK, _installed("duckdb"), directory / "duckdb.txt")

    def read(self, location: str, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a table by the location of its metadata, of its newest snapshot or another one."""
        at = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
        return self.query(f"SELECT * FROM iceberg_scan('{location}'{at})")


class SparkReader(_Reader):
    """Spark with Iceberg's runtime: `lake` is a REST catalog.

    Args:
        settings: Further settings of the session.
    """

    def __init__(self, directory: Path, uri: str = "", **settings: str) -> None:
        (runtime,) = (_installed("jars") / "spark").glob("iceberg-spark-runtime-*.jar")
        catalog = "spark.sql.catalog.lake"
        given = {
            "spark.jars": str(runtime),
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.cache-enabled": "false",
            **({f"{catalog}.type": "rest", f"{catalog}.uri": uri} if uri else {}),
            **settings,
        }
        super().__init__(_SPARK, _installed("spark"), directory / "spark.txt", *(f"{k}={v}" for k, v in given.items()))

    def read(self, name: str, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a table of the catalog, of its newest snapshot or another one."""
        at = "" if snapshot_id is None else f" VERSION AS OF {snapshot_id}"
        return self.query(f"SELECT * FROM lake.{name}{at}")


class RestCatalogServer:
    """Iceberg's own REST catalog server over a SQLite file; it ends with the block."""

    def __init__(self, directory: Path) -> None:
        jars, spark = _installed("jars") / "rest", _installed("spark") / "pyspark" / "jars"
        port = find_free_ports()[0]
        self.uri = f"http://127.0.0.1:{port}"
        classes = [str(jars / "*"), *map(str, spark.glob("hadoop-client-*.jar")), *map(str, spark.glob("commons-logging*.jar"))]
        variables = {
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:file:{directory}/rest.db",
            "CATALOG_WAREHOUSE": f"file://{directory}/warehouse",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_REST_PORT": str(port),
        }
        java = [str(find_java().executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(classes)]
        self._log = directory / "rest.txt"
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                [*java, "org.apache.iceberg.rest.RESTCatalogServer"],
                env={**os.environ, **variables},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def __enter__(self) -> RestCatalogServer:
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
            return False

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class ReaderProcesses(NamedTuple):
    """A catalog server, and two readers of its tables."""

    rest: RestCatalogServer
    duck: DuckReader
    spark: SparkReader


@functools.cache
def shared_readers() -> ReaderProcesses:
    """Return processes that all callers share, and that end with this one."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rest = stack.enter_context(RestCatalogServer(directory))
        duck, spark = (stack.enter_context(each) for each in (DuckReader(directory), SparkReader(directory, rest.uri)))
        atexit.register(stack.pop_all().close)
    return ReaderProcesses(rest, duck, spark)


class FaultyCatalog:
    """A REST catalog through which requests to another one go, and in which they can fail; it ends with the block.

    Attributes:
        fault: What the requests meet: one of FAULTS, or None for nothing.
    """

    FAULTS: Final = (
        "closed",
        "silent",
        "500 to all",
        "500 before a commit",
        "500 after a commit",
        "closed after a commit",
        "409",
    )

    def __init__(self, uri: str) -> None:
        self.fault: str | None = None
        self.met: list[str] = []
        catalog, ended = self, threading.Event()
        self._ended = ended

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                fault, content = catalog.fault, self.rfile.read(int(self.headers.get("Content-Length") or 0))
                is_commit = self.command == "POST" and b'"add-snapshot"' in content
                if fault is not None and (is_commit or fault in ("closed", "silent", "500 to all")):
                    catalog.met.append(fault)
                    if "after" in fault:
                        self._forward(content)
                    if fault == "silent":
                        ended.wait()
                    if fault.startswith(("closed", "silent")):
                        self.close_connection = True
                    else:
                        kind = "CommitFailedException" if fault == "409" else "ServerError"
                        text = {"error": {"message": fault, "type": kind, "code": int(fault[:3])}}
                        self._send(int(fault[:3]), json.dumps(text).encode())
                    return
                self._send(*self._forward(content))

            def _forward(self, content: bytes) -> tuple[int, bytes]:
                headers = {"Content-Type": "application/json"}
                request = urllib.request.Request(uri + self.path, content or None, headers, method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        return answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    return error.code, error.read()

            def _send(self, code: int, content: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content if self.command != "HEAD" else b"")

            def log_message(self, *_: Any) -> None:
                pass

            do_GET = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FaultyCatalog:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
