"""Which engine a table gets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pyspark.sql import SparkSession

from headstream.spark.replicate.apply.delta_spark import DeltaSparkEngine
from headstream.spark.replicate.apply.deltalake import DeltaLakeEngine
from headstream.spark.replicate.apply.engine import TableEngine
from headstream.spark.replicate.apply.mapped import SparkMappedTables

__all__ = ["Engines", "Workers", "find_workers"]

_LOGGER: Final = logging.getLogger("headstream.replicate")


class Workers(NamedTuple):
    """Where Spark's tasks run.

    Args:
        in_driver: Whether they are threads of the driver's own process.
        master: What Spark was told about it.
    """

    in_driver: bool
    master: str


def find_workers(spark: SparkSession) -> Workers:
    """Return where the tasks of a session run, as its context says: `local-cluster` has processes of its own for them.

    Args:
        spark: A session that has its context in this process.
    """
    context = spark.sparkContext
    return Workers(bool(context._jsc.sc().isLocal()), str(context.master))


class Engines:
    """Opens tables.

    Args:
        spark: A session with Delta.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._mapped = SparkMappedTables(spark)
        self._automatic: Literal["deltalake", "spark"] | None = None

    def open(self, path: Path, kind: Literal["auto", "deltalake", "spark"] = "auto") -> TableEngine:
        """Return an engine for a table.

        Args:
            path: The table's directory.
            kind: `auto` is deltalake where Spark's tasks run in the driver's process, several times quicker there, and Spark
                where executors are processes of their own, on this machine or others, which share the work of a merge.
        """
        if kind == "auto":
            kind = self._choose()
        return DeltaSparkEngine(path, self._spark) if kind == "spark" else DeltaLakeEngine(path, self._mapped)

    def _choose(self) -> Literal["deltalake", "spark"]:
        if self._automatic is None:
            workers = find_workers(self._spark)
            self._automatic = "deltalake" if workers.in_driver else "spark"
            why = "Spark's tasks run in this process" if workers.in_driver else "Spark's executors are processes of their own"
            _LOGGER.info('tables with engine = "auto" are merged by %s: %s (master %s)', self._automatic, why, workers.master)
        return self._automatic
