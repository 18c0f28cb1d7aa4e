"""KillSwitch: kills a process, as `kill -9` does, at one of its operations on files and the catalog, or of its requests."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headstream.client.transports.remote.caller import Caller
from headstream.log.catalog import catalog
from headstream.log.system.files import OsFile, OsFiles

_CONTEXT = multiprocessing.get_context("forkserver")
_END_S = 300.0
"""Longer than any command takes."""


class KillSwitch:
    """What kills processes that count their operations with it.

    It has no lock: one that a killed process held would be held for ever. Operations of several threads that happen at once can
    count as one.
    """

    def __init__(self) -> None:
        self._left = _CONTEXT.RawValue("q", 0)

    def arm(self, operations: int) -> None:
        """Kill the process at so many operations from now on: 1 is the next one, 0 never."""
        self._left.value = operations

    @property
    def was_used(self) -> bool:
        """Whether it has killed a process since it was armed."""
        return bool(self._left.value < 0)

    def step(self, *_: object) -> None:
        """Count an operation before it happens."""
        if self._left.value > 0:
            self._left.value -= 1
            if not self._left.value:
                self._left.value = -1
                os.kill(os.getpid(), signal.SIGKILL)

    def count_files(self) -> None:
        """Count what this process writes, renames, removes and syncs, halves of writes too, and statements of the catalog."""
        for name in ("truncate", "sync"):
            self._count(OsFile, name)
        for name in ("open_write", "make_directory", "sync_directory", "rename", "remove", "remove_directory"):
            self._count(OsFiles, name)
        write_at, connect = OsFile.write_at, vars(catalog)["connect"]

        def write_twice(file: OsFile, data: Any, position: int) -> None:
            for part, begin in ((data[: len(data) // 2], 0), (data[len(data) // 2 :], len(data) // 2)):
                self.step()
                write_at(file, part, position + begin)

        def connect_traced(path: str | None, *, is_writer: bool) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(path, is_writer=is_writer)
            connection.set_trace_callback(self.step if is_writer else None)
            return connection

        _replace(OsFile, "write_at", write_twice)
        _replace(catalog, "connect", connect_traced)

    def count_requests(self) -> None:
        """Count the requests of this process to servers."""
        self._count(Caller, "call")

    def _count(self, owner: type, name: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.step()
            return original(*arguments, **options)

        _replace(owner, name, counted)


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def _run(arguments: tuple[str, ...], output: str, prepare: Callable[[], None] | None) -> None:
    from headstream.cli.main import main

    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    errors = os.open(f"{output}.errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(errors, 2)
    if prepare is not None:
        prepare()
    sys.argv = ["headstream", *arguments]
    main()


class KilledCommand:
    """A command of the program in a process of its own.

    Args:
        arguments: Its arguments.
        output: The file for its output; its errors go beside it.
        prepare: Called in its process first.
    """

    def __init__(self, *arguments: str, output: Path, prepare: Callable[[], None] | None = None) -> None:
        self._output = output
        self._process = _CONTEXT.Process(target=_run, args=(arguments, str(output), prepare), daemon=True)
        self._process.start()

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def finish(self) -> int:
        """Wait for its end, and return its exit code: negative if it was killed."""
        self._process.join(_END_S)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            raise AssertionError(f"it does not end: {self.errors}")
        return code

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._output.read_text()

    @property
    def errors(self) -> str:
        """What it has said on its standard error."""
        return Path(f"{self._output}.errors").read_text()
