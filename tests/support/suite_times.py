"""A pytest plugin that writes how much processor time and wall-clock time each test took to the file HEADSTREAM_SUITE_TIMES.

A test's processor time is that of this process and of every process below it since the test before: its fixtures, the
servers and JVMs it started, and what a shared JVM did meanwhile. `tools/run_test_parts.py` sets the variable and joins the
files of all parts; `tools/suite_budget.py` reads the result.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_STARTS_PROCESSES: Final = ("tests/behaviour/", "tests/campaigns/", "tests/integration/", "tests/property/")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def tree_cpu_seconds(root: int) -> float:
    """Return the processor seconds of a process, of its living descendants, and of those that they have waited for."""
    ticks, left = 0, [root]
    while left:
        process = left.pop()
        try:
            stat = _read(f"/proc/{process}/stat")
            ticks += sum(map(int, stat.rpartition(b")")[2].split(None, 15)[11:15]))
            for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208  # it is read for each process and test
                left += map(int, _read(f"/proc/{process}/task/{thread}/children").split())
        except OSError:
            continue  # it ended meanwhile
    return ticks / _TICKS_PER_SECOND


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # as above
        return file.read(4096)


class SuiteTimes:
    """The plugin.

    Args:
        path: The file to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, list[float]] = {}
        self._begin = time.monotonic()
        self._cpu_at_end: float | None = None
        """That of the test before: reading all processes of the machine costs as much as many a test."""
        self._read_tree = Path("/proc/self/stat").exists()

    def _cpu_seconds(self, name: str) -> float:
        if self._read_tree and name.startswith(_STARTS_PROCESSES):
            return tree_cpu_seconds(os.getpid())
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure one test with its fixtures."""
        begin = time.monotonic()
        if self._cpu_at_end is None:
            self._cpu_at_end = self._cpu_seconds(item.nodeid)
        before = self._cpu_at_end
        result = yield
        self._cpu_at_end = self._cpu_seconds(item.nodeid)
        self._tests[item.nodeid] = [round(time.monotonic() - begin, 3), round(max(self._cpu_at_end - before, 0.0), 3)]
        return result

    def pytest_sessionfinish(self) -> None:
        """Write the times."""
        own = os.times()
        report = {
            "wall_seconds": round(time.monotonic() - self._begin, 1),
            "cpu_seconds": round(own.user + own.system + own.children_user + own.children_system, 1),
            "tests": dict(sorted(self._tests.items())),
        }
        self._path.write_text(json.dumps(report, indent=0), encoding="utf-8")
