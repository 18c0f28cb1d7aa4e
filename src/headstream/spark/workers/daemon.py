"""The process that forks Spark's Python workers in a local session: PySpark's daemon with three changes.

Workers exit silently when the JVM has closed their socket (endings.py). Modules that every worker imports are imported once,
before the fork. Modules that a worker's first task imports are excluded from garbage collections (memory.py).
"""

from __future__ import annotations

import socket
from typing import Final

import pyspark.worker  # noqa: F401  # starts no threads, so it is safe before the fork
from pyspark import daemon

from headstream.spark.workers.endings import Work, suppress_disconnects
from headstream.spark.workers.memory import freeze_objects

_WORK: Final[Work] = suppress_disconnects(daemon.worker)


def _work(sock: socket.socket, authenticated: bool) -> int:
    code = _WORK(sock, authenticated)
    freeze_objects()
    return code


def main() -> None:
    """Fork workers until Spark closes standard input."""
    daemon.worker = _work
    daemon.manager()


if __name__ == "__main__":
    main()
