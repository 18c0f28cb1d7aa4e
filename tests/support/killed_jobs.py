"""Jobs with a JVM that are killed at work, all that they started included."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class Job:
    """A program in a process group of its own; what it says goes into files, so that it never waits for a reader.

    Args:
        command: The program and its arguments.
        directory: Where what it says is kept.
    """

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self._output, self._errors = directory / "job-output.txt", directory / "job-errors.txt"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)

    def kill_at_work(self, count: Callable[[], int], wanted: int, pause_s: float) -> None:
        """Kill it a moment after it has made a count grow.

        Args:
            count: What tells how much is done; nobody else changes it.
            wanted: By how much it is to grow.
            pause_s: How long it goes on after that.
        """
        before, until = count(), time.monotonic() + 300
        try:
            while count() - before < wanted:
                if self.has_ended:
                    assert count() - before >= wanted, f"it ended by itself, with {self._process.returncode}: {self.errors}"
                assert time.monotonic() < until, f"it does nothing: {self.errors}"
                time.sleep(0.01)
            time.sleep(pause_s)
        finally:
            self._kill()

    def finish(self) -> str:
        """Let it come to its end, which is to be a good one, and return what it said."""
        try:
            code = self._process.wait(900)
        finally:
            self._kill()
        assert code == 0, self.errors
        return self._output.read_text()

    def _kill(self) -> None:
        if not self.has_ended:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def errors(self) -> str:
        return self._errors.read_text(errors="replace")[-4000:]
