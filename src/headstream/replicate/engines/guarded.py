"""An engine before whose commits something else is done: what they rely on is put where it outlives the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from headstream.replicate.engines.engine import RowCounts, TableEngine, VectorState
from headstream.replicate.engines.plan import MergePlan
from headstream.replicate.storage.places import Place


class GuardedEngine:
    """Engine of a table that calls `before_commit` before every change; the change is not made if that raises an error."""

    def __init__(self, engine: TableEngine, before_commit: Callable[[], None]) -> None:
        self._engine = engine
        self._before_commit = before_commit

    @property
    def path(self) -> Place:
        """The table's directory or URI."""
        return self._engine.path

    @property
    def columns(self) -> dict[str, str]:
        """All columns and their Spark types, in the table's order; empty before it is created."""
        return self._engine.columns

    @property
    def is_empty(self) -> bool:
        """Whether the table has no rows: it has had no files."""
        return self._engine.is_empty

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        """Create the empty table."""
        self._before_commit()
        self._engine.create(columns, partition_by, mapped=mapped)

    def add_columns(self, added: Mapping[str, str]) -> None:
        """Add columns, null in existing rows."""
        self._before_commit()
        self._engine.add_columns(added)

    def widen(self, widened: Mapping[str, str]) -> None:
        """Widen the types of columns."""
        self._before_commit()
        self._engine.widen(widened)

    @property
    def takes_frames(self) -> bool:
        """Whether merge() and append() take rows that are on Spark's executors."""
        return self._engine.takes_frames

    def last_applied(self, app_id: str) -> int | None:
        """Return the highest version that a merge or append recorded for app_id, or None."""
        return self._engine.last_applied(app_id)

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Run a merge in one commit that records (app_id, version)."""
        self._before_commit()
        return self._engine.merge(plan, changes, app_id, version)

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Add rows in one commit that records (app_id, version)."""
        self._before_commit()
        return self._engine.append(rows, app_id, version)

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        """Update the rows that match an SQL condition, in one commit, and return their number."""
        self._before_commit()
        return self._engine.update(assignments, where)

    def delete(self, where: str) -> int:
        """Delete the rows that match an SQL condition, in one commit, and return their number."""
        self._before_commit()
        return self._engine.delete(where)

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Return columns of the rows that match an SQL condition over the table's columns."""
        return self._engine.read(columns, where)

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        """Return columns of the rows that match an SQL condition, on Spark's executors."""
        return self._engine.frame(columns, where)

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return columns of the rows with given keys."""
        return self._engine.read_keys(columns, where, keys)

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        """Merge small files."""
        self._before_commit()
        self._engine.compact(cluster_by)

    def fold(self) -> bool:
        """Rewrite some files with many deleted rows, if there are very many; the checkpoint has nothing that this relies on."""
        return self._engine.fold()

    @property
    def vectors(self) -> VectorState | None:
        """The table's deletion vectors; None if it has none and is not to get any."""
        return self._engine.vectors

    def vacuum(self, kept_us: int) -> None:
        """Delete files that no version of the table has needed for a time."""
        self._before_commit()
        self._engine.vacuum(kept_us)

    def count_values(self, column: str) -> int | None:
        """Return the number of rows with a value in a column, from the statistics of files, or None."""
        return self._engine.count_values(column)
