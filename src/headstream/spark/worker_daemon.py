"""The process that Spark forks its Python workers from, in a local session: PySpark's own, but for three things.

Workers end without a word when the JVM is done with them (worker_endings.py). What every worker imports first is imported
before the fork, once; what it has imported after its first task is spared from garbage collections (worker_memory.py).
"""

from __future__ import annotations

import socket
from typing import Final

import pyspark.worker  # noqa: F401  # imports nothing that starts threads, so it may come before the fork
from pyspark import daemon

from headstream.spark.worker_endings import Work, quiet
from headstream.spark.worker_memory import spare_imports

__all__ = ["main"]

_WORK: Final[Work] = quiet(daemon.worker)


def _work(sock: socket.socket, authenticated: bool) -> int:
    code = _WORK(sock, authenticated)
    spare_imports()
    return code


def main() -> None:
    """Fork workers until Spark closes standard input."""
    daemon.worker = _work
    daemon.manager()


if __name__ == "__main__":
    main()
