"""What a Python worker of Spark's has imported, put out of its garbage collections' way.

PySpark collects garbage in full after each piece of work, a task, the planning of a write or its commit, before the worker
takes the next one. That looks through all that pandas, pyarrow and PySpark consist of, for tens of milliseconds: more than
a small micro-batch has to do. None of it is ever garbage, so it is looked through once and then never again.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

__all__ = ["spare_imports"]

_DAEMONS: Final = frozenset({"pyspark.daemon", "headstream.spark.worker_daemon"})
"""What the processes run that Spark forks its workers from."""

_MANY_MODULES: Final = 100
"""What a worker imports later is worth another look when it is this much."""


class _Spared:
    modules_count = 0


def spare_imports() -> None:
    """Have later garbage collections leave out what is there now, where this is a worker that Spark uses again.

    It does so the first time, and when much has been imported since.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name not in _DAEMONS or len(sys.modules) < _Spared.modules_count + _MANY_MODULES:
        return
    _Spared.modules_count = len(sys.modules)
    gc.collect()
    gc.freeze()
