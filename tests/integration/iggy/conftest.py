"""Iggy's own Python clients from PyPI, each in an environment of its own, which is kept in .cache/ of the checkout."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.server.iggy_environments import make_environment
from tests.support.server.server_process import ServerProcess

DRIVE = Path(__file__).parent / "drive.py"
VERSIONS = ("0.2.7", "0.4.0")


class ClientError(Exception):
    """What one of the clients raised."""


class IggyClient:
    """One of the clients, in a process of its own.

    Args:
        python: The interpreter of its environment.
        address: Host and port of the server.
    """

    def __init__(self, python: Path, address: tuple[str, int]) -> None:
        command = [str(python), str(DRIVE), "{}:{}".format(*address)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, name: str, *args: Any) -> Any:
        """Return the result of a method.

        Raises:
            ClientError: it raised.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": name, "args": args}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the process, as a program that is killed does."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="session", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> Path:
    """The interpreter of each client's environment; the test is left out where it cannot be made, but not in CI."""
    try:
        return make_environment(request.param)
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"iggy-py {request.param} cannot be installed here: {str(error)[-300:]}")


@pytest.fixture(scope="session")
def today() -> Path:
    """The interpreter of today's client, `apache-iggy` 0.9.0; its tests are left out where it cannot be made, but not in CI."""
    try:
        return make_environment("0.9.0", "apache-iggy")
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"apache-iggy 0.9.0 cannot be installed here: {str(error)[-300:]}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for a module's tests; each has names of its own."""
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server
        assert server.stop() == 0, server.output


@pytest.fixture
def open_client(python: Path) -> Iterator[Callable[..., IggyClient]]:
    """Return a function that starts a client of a server, connected and logged in unless it is told not to."""
    with ExitStack() as clients:

        def open_client(server: ServerProcess, *, login: bool = True) -> IggyClient:
            client = IggyClient(python, server.tcp)
            clients.callback(client.close)
            client.call("connect")
            if login:
                client.call("login_user", "iggy", "iggy")
            return client

        yield open_client
