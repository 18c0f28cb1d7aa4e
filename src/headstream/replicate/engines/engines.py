"""Selects the engine of a table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from pyspark.sql import SparkSession

from headstream.replicate.engines.cluster_engine import ClusterEngine
from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.engine import TableEngine
from headstream.replicate.engines.mapped import SparkMappedTables
from headstream.replicate.engines.spark_store import configure_store, require_store
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.places import Place, StorePlace

_LOGGER: Final = logging.getLogger("headstream.replicate")


class SparkWorkers(NamedTuple):
    """The location of Spark's tasks, by the setting `master`. `in_driver`: whether tasks are threads of the driver's process."""

    in_driver: bool
    master: str


def find_workers(spark: SparkSession) -> SparkWorkers:
    """Return the location of a session's tasks; `local-cluster` runs tasks in separate processes."""
    context = spark.sparkContext
    return SparkWorkers(bool(context._jsc.sc().isLocal()), str(context.master))


class Engines:
    """Opens tables with their engines."""

    def __init__(self, spark: SparkSession, merge: MergeSettings | None = None) -> None:
        self._spark = spark
        self._merge = merge or MergeSettings()
        self._mapped = SparkMappedTables(spark)
        self._automatic: Literal["deltalake", "spark"] | None = None

    def check(self, places: Sequence[Place], kinds: Collection[str]) -> None:
        """Pass the settings of the locations' object stores to Spark; if necessary, check that Spark can write to the stores.

        Raises:
            EnvironmentSetupError: Spark merges some of the tables but lacks the jars for the store.
        """
        stores = {(place.scheme, place.bucket): place for place in places if isinstance(place, StorePlace)}
        for place in stores.values():
            configure_store(self._spark, place)
            if self.uses_spark(kinds):
                require_store(self._spark, place, f"Spark merges the tables at {place}")

    def uses_spark(self, kinds: Collection[str]) -> bool:
        """Return whether Spark merges some of the tables."""
        return "spark" in kinds or ("auto" in kinds and self._choose() == "spark")

    def open(
        self, path: Place, kind: Literal["auto", "deltalake", "spark"] = "auto", strategy: MergeStrategy = "rewrite"
    ) -> TableEngine:
        """Return an engine for a table.

        Args:
            kind: `auto` is deltalake if Spark's tasks run in the driver's process, where deltalake is several times faster. With
                separate executor processes, `auto` is Spark for large merges, and otherwise deltalake.
        """
        if kind == "auto" and self._choose() == "spark":
            return ClusterEngine(path, self._spark, self._mapped, strategy, self._merge)
        if kind == "spark":
            return DeltaSparkEngine(path, self._spark, strategy)
        return DeltaLakeEngine(path, self._mapped, strategy, self._merge)

    def _choose(self) -> Literal["deltalake", "spark"]:
        if self._automatic is None:
            workers = find_workers(self._spark)
            self._automatic = "deltalake" if workers.in_driver else "spark"
            why = "Spark's tasks run in this process" if workers.in_driver else "Spark's executors are separate processes"
            _LOGGER.info('tables with engine = "auto" are merged by %s: %s (master %s)', self._automatic, why, workers.master)
        return self._automatic
