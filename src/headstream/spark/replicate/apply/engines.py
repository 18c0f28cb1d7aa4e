"""Which engine a table gets."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from headstream.spark.replicate.apply.delta_spark import DeltaSparkEngine
from headstream.spark.replicate.apply.deltalake import DeltaLakeEngine
from headstream.spark.replicate.apply.engine import TableEngine
from headstream.spark.replicate.apply.mapped import SparkMappedTables

__all__ = ["Engines"]


class Engines:
    """Opens tables.

    Args:
        spark: A session with Delta.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._mapped = SparkMappedTables(spark)

    def open(self, path: Path, kind: Literal["auto", "deltalake", "spark"] = "auto") -> TableEngine:
        """Return an engine for a table.

        Args:
            path: The table's directory.
            kind: `auto` is deltalake where Spark runs on this machine, several times quicker there, and Spark where a
                cluster does, which shares the work of a merge among its machines.
        """
        if kind == "auto":
            kind = "deltalake" if str(self._spark.conf.get("spark.master", "")).startswith("local") else "spark"
        return DeltaSparkEngine(path, self._spark) if kind == "spark" else DeltaLakeEngine(path, self._mapped)
