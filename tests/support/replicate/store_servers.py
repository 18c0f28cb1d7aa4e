"""Servers of other stores than S3, each a process of its own: Azurite, an HDFS of one machine, and Google's API.

A test of a server that is neither on the machine nor in .cache is skipped, with what installs it.
"""

from __future__ import annotations

import base64
import datetime
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.spark.sessions.jar_sets import NAMENODE
from headstream.spark.sessions.jars import find
from headstream.spark.sessions.java import find_java
from headstream.testing.temporary_server import find_free_ports

_START_S = 180
_INSTALLED = Path(__file__).parents[3] / ".cache" / "store-servers" / "bin"
AZURE_KEY = base64.b64encode(b"a key of Azurite that no text may contain: 64 bytes, as Azure's ").decode()


class StoreServer(ABC):
    """A running server with one empty bucket; what it stores ends with it."""

    scheme: str
    bucket: str
    secrets: tuple[str, ...] = ()

    def __init__(self, command: Sequence[str], directory: Path, **variables: str) -> None:
        self._log = (directory / "server.log").open("wb")
        environment = {**os.environ, **variables}
        self._process = subprocess.Popen(
            command, cwd=directory, stdout=self._log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    @abstractmethod
    def settings(self, **changes: Any) -> StorageSettings:
        """The settings of the store."""

    @property
    @abstractmethod
    def unreachable(self) -> StorePlace:
        """A place of a server that does not exist."""

    @property
    def variables(self) -> dict[str, str]:
        """The settings as variables of the environment."""
        return {}

    def place(self, key: str, **changes: Any) -> StorePlace:
        """A place in the bucket."""
        return StorePlace(self.bucket, key, self.settings(**changes), self.scheme)

    def _wait(self, is_ready: Callable[[], bool]) -> None:
        until = time.monotonic() + _START_S
        while not is_ready():
            assert self._process.poll() is None, Path(self._log.name).read_text()
            assert time.monotonic() < until, Path(self._log.name).read_text()
            time.sleep(0.1)


class AzureServer(StoreServer):
    """Azurite: Azure's Blob API, with its parameter startFrom added (azure_api.py)."""

    scheme = "abfss"
    bucket = "lake@acme1.dfs.core.windows.net"
    secrets = (AZURE_KEY,)

    def __init__(self, directory: Path) -> None:
        program = _find_program("azurite-blob", "npm install --global azurite")
        inner, port = find_free_ports()
        options = ["--blobPort", str(inner), "--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        super().__init__(
            [sys.executable, "-m", "tests.support.replicate.azure_api", str(port), str(inner), program, *options],
            directory,
            AZURITE_ACCOUNTS=f"acme1:{AZURE_KEY}",
            PYTHONPATH=str(Path(__file__).parents[3]),
        )
        self.url = f"http://127.0.0.1:{port}"
        self._wait(lambda: _accepts(port) and _accepts(inner))
        self._create_container()

    def settings(self, **changes: Any) -> StorageSettings:
        return StorageSettings(**({"endpoint": self.url, "account_key": AZURE_KEY} | changes))

    @property
    def variables(self) -> dict[str, str]:
        return {"AZURE_STORAGE_ENDPOINT": self.url, "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY}

    @property
    def unreachable(self) -> StorePlace:
        return self.place("x", endpoint="http://127.0.0.1:1")

    def _create_container(self) -> None:
        date = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        named = {"x-ms-date": date, "x-ms-version": "2023-11-03"}
        lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in named.items())]
        lines += ["/acme1/acme1/lake", "restype:container"]
        signature = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), "\n".join(lines).encode(), "sha256")).decode()
        headers = {**named, "Authorization": f"SharedKey acme1:{signature}", "Content-Length": "0"}
        request = urllib.request.Request(f"{self.url}/acme1/lake?restype=container", method="PUT", headers=headers)
        urllib.request.urlopen(request, timeout=30).close()


class HdfsServer(StoreServer):
    """An HDFS with one NameNode and one DataNode."""

    scheme = "hdfs"

    def __init__(self, directory: Path) -> None:
        jars = find(NAMENODE)
        if jars is None:
            pytest.skip("no HDFS server: headstream.spark.sessions.jars.fetch(jar_set=NAMENODE) installs it")
        import pyspark

        details = directory / "details.json"
        classes = [str(path) for path in jars] + [str(Path(pyspark.__file__).parent / "jars" / "*")]
        java = [str(find_java().executable), "-Xmx512m", f"-Dtest.build.data={directory}", "-cp", ":".join(classes)]
        manager = ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1", "-writeDetails", str(details)]
        super().__init__([*java, *manager, "-D", "dfs.replication=1"], directory)
        self._wait(lambda: details.exists() and details.read_text().endswith("}"))
        self.bucket = f"127.0.0.1:{json.loads(details.read_text())['namenode_port']}"

    def settings(self, **changes: Any) -> StorageSettings:
        return StorageSettings(**changes)

    @property
    def unreachable(self) -> StorePlace:
        return StorePlace("127.0.0.1:1", "x", scheme="hdfs")


class GoogleServer(StoreServer):
    """fake-gcs-server, with Google's XML API in front of its JSON API (google_api.py)."""

    scheme = "gs"
    bucket = "lake"

    def __init__(self, directory: Path) -> None:
        program = _find_program("fake-gcs-server", "go install github.com/fsouza/fake-gcs-server@latest")
        inner, port = find_free_ports()
        options = f"-backend memory -scheme http -host 127.0.0.1 -port {inner} -public-host 127.0.0.1:{inner} -log-level error"
        super().__init__(
            [sys.executable, "-m", "tests.support.replicate.google_api", str(port), str(inner), program, *options.split()],
            directory,
            PYTHONPATH=str(Path(__file__).parents[3]),
        )
        self.url = f"http://127.0.0.1:{port}"
        self._wait(lambda: _accepts(port) and _accepts(inner))
        body = json.dumps({"name": self.bucket}).encode()
        url = f"http://127.0.0.1:{inner}/storage/v1/b?project=acme"
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=30).close()

    def settings(self, **changes: Any) -> StorageSettings:
        return StorageSettings(**({"endpoint": self.url} | changes))

    @property
    def variables(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": self.url}

    @property
    def unreachable(self) -> StorePlace:
        return self.place("x", endpoint="http://127.0.0.1:1")


SERVERS: dict[str, Callable[[Path], StoreServer]] = {"azure": AzureServer, "google": GoogleServer, "hdfs": HdfsServer}


def _find_program(name: str, install: str) -> str:
    found = shutil.which(name, path=f"{_INSTALLED}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"no {name}: tools/install_nightly_tools.sh installs it, or {install}")
    return found


def _accepts(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
