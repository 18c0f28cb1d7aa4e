"""The engine for a cluster: Spark for large changes and large tables, deltalake in the driver for small changes of small tables.

A Spark MERGE takes at least a second, and a merge by deltalake takes a few hundredths of a second. Thus, a micro-batch with few
changes in each of many tables is merged in the driver. Limits on the sizes of changes and tables bound the driver's memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.deltalake import DeltaLakeEngine, LoggedTable, TableLog
from headstream.replicate.engines.engine import RowCounts, TableEngine, VectorState
from headstream.replicate.engines.mapped import MappedTables
from headstream.replicate.engines.plan import MergePlan
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.places import Place

MAX_DRIVER_TABLE_BYTES: Final = 32 << 20
"""Maximum size of a table's files for work in the driver. In memory, the rows take several times this size, for every table that
is merged at the same time."""


class ClusterEngine(LoggedTable):
    """TableEngine that uses Spark or deltalake, depending on the size of the work; both write the same table."""

    def __init__(
        self, path: Place, spark: SparkSession, mapped: MappedTables, strategy: MergeStrategy, settings: MergeSettings
    ) -> None:
        super().__init__(TableLog(path))
        self._small = DeltaLakeEngine(self._log, mapped, strategy, settings)
        self._strategy: MergeStrategy = strategy
        self._spark = spark
        self._opened: DeltaSparkEngine | None = None

    @property
    def _large(self) -> DeltaSparkEngine:
        """Spark's engine, which is opened when needed because it has a separate session."""
        if self._opened is None:
            self._opened = DeltaSparkEngine(self._log, self._spark, self._strategy)
        return self._opened

    @property
    def _by_size(self) -> TableEngine:
        is_small = self._log.size_bytes <= MAX_DRIVER_TABLE_BYTES and not self._log.has_unescaped_paths
        return self._small if is_small else self._large

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        self._small.create(columns, partition_by, mapped=mapped)

    def add_columns(self, added: Mapping[str, str]) -> None:
        self._small.add_columns(added)

    def widen(self, widened: Mapping[str, str]) -> None:
        self._by_size.widen(widened)

    @property
    def takes_frames(self) -> bool:
        return True

    def last_applied(self, app_id: str) -> int | None:
        return self._small.last_applied(app_id)

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        if not isinstance(changes, pa.Table):
            return self._large.merge(plan, changes, app_id, version)
        # The driver merges few changes with deletion vectors regardless of the table's size: it reads only rows of their keys.
        counts = self._small.merge_on_read(plan, changes, app_id, version)
        return self._by_size.merge(plan, changes, app_id, version) if counts is None else counts

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        engine = self._small if isinstance(rows, pa.Table) else self._large
        return engine.append(rows, app_id, version)

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        return self._by_size.update(assignments, where)

    def delete(self, where: str) -> int:
        return self._by_size.delete(where)

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        return self._by_size.read(columns, where)

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        return self._large.frame(columns, where)

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        return self._by_size.read_keys(columns, where, keys)

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        self._by_size.compact(cluster_by)

    def fold(self) -> bool:
        """Rewrite small files and files with many deleted rows in the driver, if there are too many to wait for compact()."""
        return self._small.fold()

    @property
    def vectors(self) -> VectorState | None:
        return self._small.vectors

    def vacuum(self, kept_us: int) -> None:
        self._log.vacuum(kept_us)

    def count_values(self, column: str) -> int | None:
        """Return the number of rows with a value in a column, from the file statistics or, if missing, from the files."""
        known = self._log.count_values(column)
        return self._large.count_values(column) if known is None else known
