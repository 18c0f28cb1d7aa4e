"""Engine wrapper that saves the checkpoint to the object store before each table commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from headstream.replicate.engines.engine import RowCounts, TableEngine, VectorState
from headstream.replicate.engines.plan import MergePlan
from headstream.replicate.storage.places import Place


class GuardedEngine:
    """Engine of a table that calls `before_commit` before every change; an error prevents the change."""

    def __init__(self, engine: TableEngine, before_commit: Callable[[], None]) -> None:
        self._engine = engine
        self._before_commit = before_commit

    @property
    def path(self) -> Place:
        return self._engine.path

    @property
    def columns(self) -> dict[str, str]:
        return self._engine.columns

    @property
    def is_empty(self) -> bool:
        return self._engine.is_empty

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        self._before_commit()
        self._engine.create(columns, partition_by, mapped=mapped)

    def add_columns(self, added: Mapping[str, str]) -> None:
        self._before_commit()
        self._engine.add_columns(added)

    def widen(self, widened: Mapping[str, str]) -> None:
        self._before_commit()
        self._engine.widen(widened)

    @property
    def takes_frames(self) -> bool:
        return self._engine.takes_frames

    def last_applied(self, app_id: str) -> int | None:
        return self._engine.last_applied(app_id)

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        self._before_commit()
        return self._engine.merge(plan, changes, app_id, version)

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        self._before_commit()
        return self._engine.append(rows, app_id, version)

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        self._before_commit()
        return self._engine.update(assignments, where)

    def delete(self, where: str) -> int:
        self._before_commit()
        return self._engine.delete(where)

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        return self._engine.read(columns, where)

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        return self._engine.frame(columns, where)

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        return self._engine.read_keys(columns, where, keys)

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        self._before_commit()
        self._engine.compact(cluster_by)

    def fold(self) -> bool:
        """Rewrite small files and files with many deleted rows, without a save: a fold does not rely on the checkpoint."""
        return self._engine.fold()

    @property
    def vectors(self) -> VectorState | None:
        return self._engine.vectors

    def vacuum(self, kept_us: int) -> None:
        self._before_commit()
        self._engine.vacuum(kept_us)

    def count_values(self, column: str) -> int | None:
        return self._engine.count_values(column)
