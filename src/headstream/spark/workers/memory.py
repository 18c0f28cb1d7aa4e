"""Excludes the imported modules of Spark's Python workers from garbage collections.

PySpark runs a full garbage collection after each task, planned write and commit, before the worker accepts more work. The
collection traverses all objects of pandas, PyArrow and PySpark, which takes tens of milliseconds, longer than a small
micro-batch. These objects never become garbage, so freeze_objects() excludes them from later collections.
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
    """Exclude existing objects from later garbage collections, in a worker that Spark reuses.

    A later call has an effect only after many more modules were imported.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name not in _DAEMONS or len(sys.modules) < _FrozenObjects.modules_count + _MANY_MODULES:
        return
    _FrozenObjects.modules_count = len(sys.modules)
    gc.collect()
    gc.freeze()
