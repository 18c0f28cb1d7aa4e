"""Workers that PySpark's own daemon forks end without a word when the JVM closes their sockets; the test is the JVM."""

from __future__ import annotations

import importlib.util
import os
import pickle
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest
from pyspark.serializers import SpecialLengths
from pyspark.sql.types import BinaryType, StructField, StructType

from headstream.connect import connect
from headstream.spark.sink.sink import HeadstreamWriter
from headstream.spark.workers.endings import exit_quietly, suppress_disconnects

TIMEOUT_S = 60.0


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def sized(data: bytes) -> bytes:
    return number(len(data)) + data


def read_number(stream: IO[bytes]) -> int:
    return int(struct.unpack(">i", stream.read(4))[0])


def piece_of_work(worker: str, directory: Path) -> bytes:
    """Return what the JVM sends for one piece of work: looking for data sources, or committing a write that wrote nothing."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}".encode()
    no_broadcasts, no_settings = b"\0" + number(0), number(0)
    sent = sized(version) + sized(str(directory).encode()) + number(0) + no_broadcasts + no_settings
    if worker == "commit_data_source_write":
        url = f"file://{directory / 'log'}"
        with connect(url) as log:
            log.create_topic("shop/orders")
        schema = StructType([StructField("payload", BinaryType())])
        writer = HeadstreamWriter({"url": url, "topic": "shop/orders"}, schema, overwrite=False)
        sent += sized(pickle.dumps(writer)) + number(0) + b"\0"
    return sent + number(SpecialLengths.END_OF_STREAM)


@pytest.fixture
def daemon(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    variables = {
        "SPARK_REUSE_WORKER": "1",
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
    }
    command = [sys.executable, "-m", "pyspark.daemon", f"pyspark.sql.worker.{request.param}"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with tempfile.TemporaryDirectory() as place:  # a short path: those of sockets have at most 107 bytes
        variables |= {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": place}
        with subprocess.Popen(command, env={**os.environ, **variables}, **pipes) as process:
            yield process
            process.kill()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is not this one's child")
@pytest.mark.parametrize("daemon", ["lookup_data_sources", "commit_data_source_write"], indirect=True)
def test_idle_worker_says_nothing_when_the_jvm_closes_its_socket(
    daemon: subprocess.Popen[bytes], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    assert daemon.stderr is not None
    place = daemon.stdout.read(read_number(daemon.stdout)).decode()
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answers:
        connection.settimeout(TIMEOUT_S)
        connection.connect(place)
        worker = os.pidfd_open(read_number(answers))
        connection.sendall(piece_of_work(request.node.callspec.params["daemon"], tmp_path))
        answer = b""
        while not answer.endswith(number(SpecialLengths.END_OF_STREAM)):
            more = answers.read1()
            assert more, answer
            answer += more
    assert select.select([worker], [], [], TIMEOUT_S)[0]
    os.close(worker)
    daemon.stdin.close()
    assert daemon.stderr.read() == b""


def test_work_ends_its_worker_when_the_socket_is_closed_and_fails_as_before_otherwise() -> None:
    def work(failure: type[BaseException] | None) -> int:
        def fail(sock: socket.socket, authenticated: bool) -> int:
            if failure is not None:
                raise failure
            return 0

        with socket.socket() as sock:
            return suppress_disconnects(fail)(sock, True)

    assert [work(None), work(BrokenPipeError), work(ConnectionResetError)] == [0, 1, 1]
    with pytest.raises(ConnectionAbortedError):
        work(ConnectionAbortedError)


def test_stream_process_says_what_fails_but_for_a_closed_socket(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = ModuleType("__main__")
    main.__spec__ = importlib.util.spec_from_loader("pyspark.sql.streaming.python_streaming_source_runner", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    exit_quietly()
    sys.excepthook(BrokenPipeError, BrokenPipeError("closed"), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("a real one"), None)
    assert "a real one" in capsys.readouterr().err


def test_workers_end_quietly_when_they_only_make_or_plan_the_source_of_a_pipeline() -> None:
    code = """
import importlib.util, sys
main = sys.modules["__main__"]
main.__spec__ = importlib.util.spec_from_loader("pyspark.daemon", None)
main.worker = lambda sock, authenticated: 0
import headstream.replicate.inputs.inputs
assert hasattr(main.worker, "__wrapped__")
assert "headstream.spark.sink.sink" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
