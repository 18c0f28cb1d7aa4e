"""Excludes the imported modules of Spark's Python workers from garbage collections.

PySpark collects garbage in full after each piece of work, a task, the planning of a write or its commit, before the worker takes
the next piece. That traverses all of pandas, pyarrow and PySpark, for tens of milliseconds: longer than
a small micro-batch. None of it ever becomes garbage, so it is traversed once.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_DAEMONS: Final = frozenset({"pyspark.daemon", "headstream.spark.workers.daemon"})
"""The modules of the processes from which Spark forks its workers."""

_MANY_MODULES: Final = 100
"""Number of later imports that justifies another freeze."""


class _FrozenObjects:
    modules_count = 0


def freeze_objects() -> None:
    """Exclude present objects from later garbage collections, in a worker that Spark reuses.

    It does so the first time, and after many more imports.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name not in _DAEMONS or len(sys.modules) < _FrozenObjects.modules_count + _MANY_MODULES:
        return
    _FrozenObjects.modules_count = len(sys.modules)
    gc.collect()
    gc.freeze()
