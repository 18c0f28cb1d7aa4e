"""The base class of servers for tests: a program with a temporary directory that is stopped when its starter exits.

The program runs under process_guard, so an interrupted or killed test run leaves neither processes nor files.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headstream.errors import ClosedError, EnvironmentSetupError
from headstream.testing import process_guard

HOST: Final = "127.0.0.1"
"""The address on which the servers listen."""
_ATTEMPTS: Final = 20
_PASSING: Final = ("Address already in use", "is still in use", "is starting up")
"""Messages of temporary failures: the port was in use, or killed processes were still exiting."""
_PORTS: Final = (15_000, 32_000)
"""The range of ports; Linux assigns ports from 32,768 on to outgoing connections."""
_PORT_ATTEMPTS: Final = 20
CHECK_SECONDS: Final = 0.05
_WHOLE_LOG: Final = 100_000
"""Maximum number of log lines."""
_LOG_NAME: Final = "server.log"


class TemporaryServer:
    """A program that has its own directory, and runs from start() to stop() or within a `with` statement.

    A subclass defines how the directory is prepared, how the program is called, and when the program is ready.

    Args:
        title: The program's name in errors, for example `Kafka broker`.
        parent: Directory in which the program's directory is created; None for the system's temporary directory.
        start_seconds: Start timeout, seconds.
    """

    _ending = "SIGKILL"
    """The signal that ends the program."""

    def __init__(self, title: str, parent: Path | str | None = None, start_seconds: float = 60) -> None:
        self._title = title
        self._parent = parent
        self._start_seconds = start_seconds
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the program is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the program, wait until it is ready, and return `self`. After kill(), the program continues with its data.

        Raises:
            JavaError: the program requires Java, which is missing or too old.
            JarsError: the program's jars are missing and cannot be downloaded.
            EnvironmentSetupError: a program is missing or did not start; the message contains the end of its log.
        """
        if self.is_running:
            return self
        self._end(b"keep")  # the process has already exited
        is_new = self._directory is None
        for attempt in range(_ATTEMPTS):
            try:
                self._launch()
                if is_new:
                    self._complete()
                break
            except EnvironmentSetupError:
                is_last = attempt + 1 == _ATTEMPTS or not any(text in self.log_tail(_WHOLE_LOG) for text in _PASSING)
                if is_new or is_last:
                    self.stop()
                else:
                    self._end(b"keep")
                if is_last:
                    raise
                time.sleep(CHECK_SECONDS)
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self) -> None:
        """End the program immediately and remove its data; no effect if it was not started."""
        directory, self._directory = self._directory, None
        self._end(b"")
        if directory is not None:
            self._clean_up(directory)
            shutil.rmtree(directory, ignore_errors=True)

    def kill(self) -> None:
        """Kill the program (as kill -9), and keep its data and port for the next start(); ClosedError if it was not started."""
        self._kill(self._home())
        self._end(b"keep")

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of the program's log, at most `lines` lines; "" if the program was not started."""
        with contextlib.suppress(FileNotFoundError):
            if self._directory is not None:
                return "\n".join((self._directory / _LOG_NAME).read_text(errors="replace").splitlines()[-lines:])
        return ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _home(self) -> Path:
        """Return the program's directory; ClosedError if the program was not started."""
        if self._directory is None:
            raise ClosedError(f"the {self._title} is not running", advice="Call start(), or use a `with` statement")
        return self._directory

    def _prepare(self, directory: Path) -> None:
        """Fill the new directory, and choose the program's ports."""

    def _command(self, directory: Path) -> list[str]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        """Return whether the running program accepts requests."""
        return True

    def _complete(self) -> None:
        """Do work that requires the running program; called once, after the first start."""

    def _kill(self, directory: Path) -> None:
        """Kill child processes that would outlive the program."""

    def _clean_up(self, directory: Path) -> None:
        """Remove the program's files outside its directory."""

    def _launch(self) -> None:
        if self._directory is None:
            name = f"headstream-{self._title.split()[0].lower()}-{secrets.token_urlsafe(6)}"
            self._directory = Path(self._parent or tempfile.gettempdir(), name)
            self._directory.mkdir(0o700)  # after the assignment: stop() finds the directory even after an interrupt
            self._prepare(self._directory)
        directory = self._directory
        guard = [sys.executable, "-I", str(process_guard.__file__), "--signal", self._ending, str(directory)]
        with (directory / _LOG_NAME).open("wb") as log:
            self._process = subprocess.Popen(
                [*guard, *self._command(directory)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",  # another user may be unable to reach the directory of this process
                start_new_session=True,  # Ctrl-C is sent to the tests, which then stop the program
            )
        end = time.monotonic() + self._start_seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise EnvironmentSetupError(f"the {self._title} exited while starting:\n{self.log_tail()}")
            if self._is_ready():
                return
            time.sleep(CHECK_SECONDS)
        raise EnvironmentSetupError(
            f"the {self._title} did not start in {self._start_seconds} seconds:\n{self.log_tail()}",
            advice="Increase start_seconds",
        )

    def _end(self, word: bytes) -> None:
        process, self._process = self._process, None
        if process is not None:
            process_guard.end(process, word)


def find_free_ports() -> tuple[int, int]:
    """Return two unbound ports of the loopback interface, outside the range that the system assigns to outgoing connections."""
    with socket.socket() as first, socket.socket() as second:
        return _bind(first), _bind(second)


def _bind(to_bind: socket.socket) -> int:
    """Return a socket bound to a port below the range for outgoing connections, of which tests open many."""
    for _ in range(_PORT_ATTEMPTS):
        with contextlib.suppress(OSError):
            to_bind.bind((HOST, random.randrange(*_PORTS)))
            return int(to_bind.getsockname()[1])
    to_bind.bind((HOST, 0))
    return int(to_bind.getsockname()[1])
