"""A `headstream server` in a process of its own, on free ports of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import psutil

_START_S = 120.0
_CHEAP = {"HEADSTREAM_PASSWORD_ROUNDS": "4"}
"""What the hash of a password costs is not what tests are about."""


class ServerProcess:
    """A server on a directory, running from its construction on; killed at the end of `with`, if it runs still.

    Args:
        data: Its directory.
        flags: More flags of `headstream server`.
        environ: Variables beside those of this process.
        tcp_port: The port to listen on; 0 is a free one.
        python: The interpreter whose installed Headstream runs; another version's is a path into its environment.
    """

    def __init__(
        self, data: Path, *flags: str, environ: Mapping[str, str] | None = None, tcp_port: int = 0, python: str = sys.executable
    ) -> None:
        self.data = data
        self._start_again = (data, flags, environ, python)
        self._runtime = data / "runtime" / "current_config.toml"
        self._runtime.unlink(missing_ok=True)
        places = ["--data", str(data), "--tcp", f"127.0.0.1:{tcp_port}", "--http", "127.0.0.1:0"]
        command = [python, "-m", "headstream.cli", "server", *places, *flags]
        own = {key: value for key, value in os.environ.items() if not key.startswith(("IGGY_", "HEADSTREAM_"))}
        self._output = data.with_name(f"{data.name}.output")
        own |= {**_CHEAP, **(environ or {})}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=own)
        self.tcp, self.http = self._wait_until_bound()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def again(self) -> ServerProcess:
        """Start it again, as it was and at the same address of TCP."""
        data, flags, environ, python = self._start_again
        return ServerProcess(data, *flags, environ=environ, tcp_port=self.tcp[1], python=python)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """What it has printed and logged until now."""
        return self._output.read_text()

    @property
    def resident_bytes(self) -> int:
        """How much memory it holds."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def stop(self) -> int:
        """End it as a service manager does; return its exit code."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def kill(self) -> None:
        """End it without a word to it."""
        self._process.kill()
        self._process.wait()

    def _wait_until_bound(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Return the addresses that it says it listens on, once something answers there."""
        give_up_s = time.monotonic() + _START_S
        while self.is_running and time.monotonic() < give_up_s:
            try:
                config = tomllib.loads(self._runtime.read_text())
                places = _address(config["tcp"]["address"]), _address(config["http"]["address"])
                for place in places:
                    socket.create_connection(place, 1).close()
            except (OSError, KeyError, ValueError):  # not there yet, or half written
                time.sleep(0.01)
            else:
                return places
        self.kill()
        raise RuntimeError(f"the server did not start:\n{self.output}")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not int(port):
        raise ValueError("no port yet")
    return host, int(port)
