"""The interface of engines: only an engine accesses a Delta table, so the meaning of a merge is defined once, for all engines.

    plan.py (pure)           the planned merge        ->  an engine runs it: one commit, which records (app_id, version)

Both engines write the same tables and can be exchanged at any time.
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
    """The deletion vectors of a table, as far as its log was read.

    Args:
        index_bytes: Size of the indexes of its keys.
        folded_us: Time at which files were last folded, microseconds since 1970 UTC; None if that is not known.
    """

    strategy: MergeStrategy
    files: int
    deleted: int
    index_bytes: int
    folded_us: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


class TableEngine(Protocol):
    """One Delta table, read and written by one engine; every method raises StorageError if reading or writing fails."""

    @property
    def path(self) -> Place:
        """The table's directory or URI."""

    @property
    def columns(self) -> dict[str, str]:
        """All columns and their Spark types, in the table's order; empty before it is created."""

    @property
    def is_empty(self) -> bool:
        """Whether the table has no rows: it has had no files."""

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        """Create the empty table.

        Args:
            mapped: Whether Delta's column mapping is switched on, even if no name of a column needs it.
        """

    def add_columns(self, added: Mapping[str, str]) -> None:
        """Add columns, null in existing rows; switch column mapping on where a name needs it."""

    def widen(self, widened: Mapping[str, str]) -> None:
        """Widen the types of columns."""

    @property
    def takes_frames(self) -> bool:
        """Whether merge() and append() take rows that are on Spark's executors."""

    def last_applied(self, app_id: str) -> int | None:
        """Return the highest version that a merge or append recorded for app_id, or None."""

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Run a merge in one commit that records (app_id, version), even if it was applied before.

        Args:
            changes: The merge's source, in the table's types; a frame gives the same rows each time it is computed.
            app_id: Pipeline and unit.
            version: Number of this application within the unit.
        """

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Add rows in one commit that records (app_id, version); the rows of a frame are not counted."""

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        """Update the rows that match an SQL condition over the table's columns, in one commit, and return their number."""

    def delete(self, where: str) -> int:
        """Delete the rows that match an SQL condition, in one commit, and return their number."""

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Return columns of the rows that match an SQL condition over the table's columns."""

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        """Return columns of the rows that match an SQL condition, on Spark's executors, of the table's present version.

        To be called only if takes_frames is true.
        """

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return columns of the rows with given keys; holds no other rows of the table in memory.

        Args:
            where: A condition that holds for all of these rows, and possibly for further rows.
            keys: Key columns in the table's types, each key once.
        """

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        """Merge small files.

        Args:
            cluster_by: Columns by which all rows are sorted again (on a Z-order curve), so that a query for some of their
                values reads few files; empty: large files are not rewritten.
        """

    def fold(self) -> bool:
        """Rewrite files with many deleted rows if they are too many to wait for compact(); return whether it did so."""

    @property
    def vectors(self) -> VectorState | None:
        """The table's deletion vectors; None for a table that neither has nor uses them. Reads nothing."""

    def vacuum(self, kept_us: int) -> None:
        """Delete files of writes cut short, and files unneeded for `kept_us` microseconds: older versions become unreadable."""

    def count_values(self, column: str) -> int | None:
        """Return the number of rows with a value in a column, from the statistics of files, or None."""


class MergedTable:
    """A target table of either SCD type."""

    def __init__(self, engine: TableEngine, keys: list[str]) -> None:
        self.engine = engine
        self.keys = keys

    @property
    def path(self) -> Place:
        """Its directory or URI."""
        return self.engine.path

    @property
    def columns(self) -> dict[str, str]:
        """The source's columns of the table and their Spark types, in its order; empty before it is created."""
        return {name: kind for name, kind in self.engine.columns.items() if not name.startswith(RESERVED_PREFIX)}
