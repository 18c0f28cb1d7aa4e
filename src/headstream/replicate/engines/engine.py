"""The interface of engines. Only an engine accesses a Delta table; the semantics of a merge are the same for all engines.

    plan.py (no I/O): the planned merge -> an engine runs the merge in one commit, which records (app_id, version)

All engines write the same tables, and a table's engine can be changed at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from headstream.replicate.columns.changes import RESERVED_PREFIX
from headstream.replicate.engines.plan import MergePlan
from headstream.replicate.settings.merge_settings import MergeStrategy
from headstream.replicate.storage.places import Place


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that a merge inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


@dataclass(frozen=True, slots=True)
class VectorState:
    """The deletion vectors of a table at the last read of its log.

    Args:
        index_bytes: Size of the table's key indexes, bytes.
        folded_us: Time at which files were last folded, microseconds since 1970 UTC; None if unknown.
    """

    strategy: MergeStrategy
    files: int
    deleted: int
    index_bytes: int
    folded_us: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        return asdict(self)


class TableEngine(Protocol):
    """One Delta table, read and written by one engine; every method raises StorageError if reading or writing fails."""

    @property
    def path(self) -> Place:
        """The table's directory or URI."""

    @property
    def columns(self) -> dict[str, str]:
        """All columns and their Spark types, in table order; empty if the table does not exist."""

    @property
    def is_empty(self) -> bool:
        """Whether the table has no files and so no rows."""

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        """Create the empty table.

        Args:
            mapped: Whether to enable Delta's column mapping even if no column name needs it.
        """

    def add_columns(self, added: Mapping[str, str]) -> None:
        """Add columns, null in existing rows; enable column mapping if a name needs it."""

    def widen(self, widened: Mapping[str, str]) -> None:
        """Widen column types."""

    @property
    def takes_frames(self) -> bool:
        """Whether merge() and append() accept rows on Spark's executors."""

    def last_applied(self, app_id: str) -> int | None:
        """Return the highest version that a merge or append recorded for app_id, or None."""

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Run a merge in one commit that records (app_id, version), even if an earlier commit has recorded this unit.

        Args:
            changes: The merge's source, in the table's types; a frame must return the same rows each time it is computed.
            app_id: Pipeline and unit.
            version: Number of the unit.
        """

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Append rows in one commit that records (app_id, version); the rows of a frame are not counted."""

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        """Update the rows that match an SQL condition over the table's columns, in one commit, and return the row count."""

    def delete(self, where: str) -> int:
        """Delete the rows that match an SQL condition, in one commit, and return the row count."""

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Return the given columns of the rows that match an SQL condition over the table's columns."""

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        """Return the given columns of the current rows that match an SQL condition, on Spark's executors.

        Call frame() only if takes_frames is True.
        """

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return the given columns of the rows with given keys, without holding other rows of the table in memory.

        Args:
            where: A condition that holds for all of these rows, and possibly for other rows.
            keys: Key columns in the table's types, without duplicate keys.
        """

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        """Merge small files.

        Args:
            cluster_by: Columns by which all rows are sorted (on a Z-order curve), so that a query for some of their values reads
                few files; empty: large files are not rewritten.
        """

    def fold(self) -> bool:
        """Rewrite small files and files with many deleted rows, if too many to wait for compact(); return whether it did."""

    @property
    def vectors(self) -> VectorState | None:
        """The table's deletion vectors; None if the table neither has nor uses deletion vectors. Reads no files."""

    def vacuum(self, kept_us: int) -> None:
        """Delete files of interrupted writes, and files not needed for `kept_us`; older versions become unreadable."""

    def count_values(self, column: str) -> int | None:
        """Return the number of rows with a value in a column, from the file statistics, or None."""


class MergedTable:
    """A target table of either SCD type."""

    def __init__(self, engine: TableEngine, keys: list[str]) -> None:
        self.engine = engine
        self.keys = keys

    @property
    def path(self) -> Place:
        """The table's directory or URI."""
        return self.engine.path

    @property
    def columns(self) -> dict[str, str]:
        """The table's columns from its source and their Spark types, in table order; empty if the table does not exist."""
        return {name: kind for name, kind in self.engine.columns.items() if not name.startswith(RESERVED_PREFIX)}
