"""What an engine is: the one thing that touches a Delta table, so that what a merge means is said once, for every engine.

    plan.py, scd2.py (pure)  what is to be merged        ->  an engine runs it: one commit, which remembers (app_id, version)

Both engines write the same tables: one that was changed by one of them may be changed by the other next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headstream.spark.replicate.apply.plan import MergePlan

__all__ = ["Counts", "TableEngine"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows that a merge inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


class TableEngine(Protocol):
    """One Delta table, read and written by one engine; every method raises StorageError where the table cannot be."""

    @property
    def path(self) -> Path:
        """The table's directory."""

    @property
    def columns(self) -> dict[str, str]:
        """All columns and their Spark types, in the table's order; empty before it is made."""

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        """Make the empty table.

        Args:
            columns: Names and Spark types.
            partition_by: Those that its files are divided by.
        """

    def add_columns(self, added: Mapping[str, str]) -> None:
        """Add columns, null in the rows that are there."""

    def widen(self, widened: Mapping[str, str]) -> None:
        """Give columns a type that holds more."""

    def last_applied(self, app_id: str) -> int | None:
        """Return the highest version that a merge or append remembered for app_id; None where there is none."""

    def merge(self, plan: MergePlan, changes: pa.Table, app_id: str, version: int) -> Counts:
        """Run a merge in one commit that remembers (app_id, version), whether or not that was applied before.

        Args:
            plan: What happens to the rows.
            changes: The merge's source, in the table's types.
            app_id: Pipeline and unit.
            version: Number of this application within the unit.
        """

    def append(self, rows: pa.Table, app_id: str, version: int) -> Counts:
        """Add rows in one commit that remembers (app_id, version)."""

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        """Change the rows that an SQL condition holds for, in one commit, and return how many those were.

        Args:
            assignments: Column -> SQL expression.
            where: A condition over the table's columns.
        """

    def delete(self, where: str) -> int:
        """Delete the rows that an SQL condition holds for, in one commit, and return how many those were."""

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Return columns of the rows that an SQL condition over the table's columns holds for."""

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return columns of the rows that have one of some keys; no more of the table is held in memory than those.

        Args:
            columns: The key columns among them.
            where: A condition that holds for all of these rows, and maybe for others.
            keys: Key columns in the table's types, each key once.
        """

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        """Put small files together.

        Args:
            cluster_by: Columns that all rows are sorted by anew (on a Z-order curve), so that a reader who asks for some of
                their values reads few files; none, for leaving large files as they are.
        """

    def vacuum(self, kept_us: int) -> None:
        """Delete files that no version of the table has needed for a time.

        Args:
            kept_us: The time, microseconds; versions older than that cannot be read any more.
        """

    def count_values(self, column: str) -> int | None:
        """Return how many rows have a value in a column, from the statistics of files; None where those do not say."""
