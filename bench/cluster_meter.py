"""What a job on a cluster of this machine uses: the memory of its driver's two processes, and processor time of all."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_EVERY_SECONDS: Final = 0.25


def find_processes() -> dict[int, tuple[int, float]]:
    """Return parent and processor seconds so far of this process and its descendants."""
    found, parents = dict[int, tuple[int, float]](), dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(fields[1])
            found[int(entry.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICK

    def is_ours(number: int) -> bool:
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return {number: place for number, place in found.items() if is_ours(number)}


def resident_bytes(process: int) -> int:
    """Return the memory that a process has in use; 0 after its end."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Meter:
    """Measures while a job runs.

    Args:
        spark: Its session.
    """

    def __init__(self, spark: Any) -> None:
        factory = spark.sparkContext._jvm.java.lang.management.ManagementFactory
        self._java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        self._pools = [pool for pool in factory.getMemoryPoolMXBeans() if pool.getCollectionUsage() is not None]

    def __enter__(self) -> Meter:
        self._ended = threading.Event()
        self._seconds = self._before = {number: seconds for number, (_, seconds) in find_processes().items()}
        self._python = resident_bytes(os.getpid())
        self._peaks = {"python": self._python, "java": resident_bytes(self._java), "heap": 0}
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            heap = sum(int(pool.getCollectionUsage().getUsed()) for pool in self._pools)
            found = {"python": resident_bytes(os.getpid()), "java": resident_bytes(self._java), "heap": heap}
            self._peaks = {name: max(peak, found[name]) for name, peak in self._peaks.items()}
            self._seconds = self._seconds | {number: seconds for number, (_, seconds) in find_processes().items()}
            if self._ended.wait(_EVERY_SECONDS):
                return

    def result(self) -> dict[str, float]:
        """Return processor seconds of all processes, and bytes: by how much the driver's Python process has grown, the peaks of
        its Java process and of that process's heap after collections.
        """
        processor = sum(found - self._before.get(number, 0.0) for number, found in self._seconds.items())
        grown = self._peaks["python"] - self._python
        return {"processor": processor, "grown": grown, "java": self._peaks["java"], "heap": self._peaks["heap"]}
