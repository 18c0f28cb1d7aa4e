"""Divides changes and the stored rows of their keys into key buckets, on executors; no I/O.

A bucket has all changes and all stored rows of its keys. The driver merges all changes of keys that key updates connect, because
a key update can depend on other buckets and on changes that were logged earlier (key_log.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.on_executors.fold import FoldReport, FoldTask
from headstream.replicate.columns.changes import OPERATIONS, has_partial_images, moved_keys
from headstream.replicate.columns.conversion import in_table_types
from headstream.replicate.columns.key_buckets import divide
from headstream.replicate.columns.loads import Loads
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out, match_keys
from headstream.replicate.engines.key_ranges import ValueRanges, join_ranges, value_ranges

MAX_DRIVER_KEYS: Final = 20_000
"""Maximum number of connected keys that the driver merges; above it, the driver gets all changes of the table."""
_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """Statistics of changes that the driver needs before the join.

    Args:
        moved: The keys before and after key updates; None if there are more than MAX_DRIVER_KEYS.
        lowest: The lowest position of the changes, for tables of type 2; None if there are no changes.
    """

    ranges: ValueRanges
    moved: pa.Table | None
    has_partial: bool = False
    lowest: str | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """Result of a bucket: rows of the merge's source, tombstones to write first, and changes that the driver must merge."""

    report: FoldReport
    rows: pa.Table | None = None
    deletions: pa.Table | None = None
    left: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class KeyedTask(ABC):
    """Joins one table's changes of one structure to its rows; serializable for executors.

    Args:
        ended: The bounds below which loads have replaced rows, strings in type 1 and positions in type 2; see Loads.ends.
        driver_keys: The keys that key updates connect, as key columns in the table's types, or None.
    """

    fold: FoldTask
    columns: dict[str, str]
    ended: tuple[str, ...] = ()
    soft: bool = False
    driver_keys: pa.Table | None = None

    @property
    def table(self) -> str:
        """Schema and name of the source table, for errors."""
        return self.fold.table

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return list(self.fold.metadata.key_columns)

    @property
    def key_types(self) -> dict[str, str]:
        """The key columns and their Spark types."""
        return {key: self.fold.types[key] for key in self.keys}

    @property
    @abstractmethod
    def row_types(self) -> dict[str, str]:
        """The columns of the merge's source and their Spark types."""

    @property
    @abstractmethod
    def stored_types(self) -> dict[str, str]:
        """The columns to read of stored rows, and their Spark types."""

    @abstractmethod
    def join(self, changes: pa.Table, stored: pa.Table | None) -> Joined:
        """Return the join of one bucket: `changes` in log order, and the `stored` rows from split_stored(), or None."""

    def keys_of(self, changes: pa.Table) -> pa.Table:
        """Return the keys of decoded changes, in the table's types."""
        return self._own_keys(changes.rename_columns(list(self.fold.names)))

    def key_statistics(self, changes: pa.Table) -> KeyStatistics:
        """Return the statistics of decoded changes that the driver needs before the join."""
        named = changes.rename_columns(list(self.fold.names))
        if self.fold.left_out is not None:
            named = leave_out(named, CHANGE_COORDINATES, self.fold.left_out)
        return replace(self._key_statistics(named), left_out=changes.num_rows - named.num_rows)

    def _key_statistics(self, named: pa.Table) -> KeyStatistics:
        moved = in_table_types(moved_keys(named, self.keys), self.fold.types)
        ranges = value_ranges(self._own_keys(named), self.keys)
        is_few = moved.num_rows <= MAX_DRIVER_KEYS
        return KeyStatistics(ranges, moved if is_few else None, has_partial_images(named, self.fold.metadata))

    def split(self, changes: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
        """Divide decoded changes into buckets; the changes and stored rows of a key are in the same bucket."""
        named = changes.rename_columns(list(self.fold.names))
        yield from divide(named, self._own_keys(named).columns, count)

    def split_stored(self, rows: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
        """Divide stored rows, with the columns of `stored_types`, into buckets."""
        rows = in_table_types(rows, self.columns)
        yield from divide(rows, rows.select(self.keys).columns, count)

    def _place(self, changes: pa.Table, *, keeps_all: bool) -> tuple[pa.Table, Loads]:
        """Return changes with their positions, without ignored deletions, and the loads after these changes."""
        loads = Loads(loads=list(self.fold.loads), settled=self.fold.settled)
        placed = loads.place(changes, self.fold.gap_us, keeps_all=keeps_all)
        if self.fold.skips_deletes:
            placed = placed.filter(pc.not_equal(placed["_hs_operation"], _DELETE))
        return placed, loads

    def _own_keys(self, named: pa.Table) -> pa.Table:
        return in_table_types(named.select(self.keys), self.fold.types)

    def _are_of(self, changes: pa.Table, keys: pa.Table | None) -> npt.NDArray[np.bool_]:
        """Return which changes have one of the given keys."""
        found = np.zeros(changes.num_rows, np.bool_)
        if keys is not None and keys.num_rows:
            numbered = self._own_keys(changes).append_column("_hs_place", pa.array(np.arange(changes.num_rows)))
            found[match_keys(numbered, keys)["_hs_place"].to_numpy()] = True
        return found


def join_key_statistics(parts: Iterable[KeyStatistics]) -> KeyStatistics:
    """Return the key statistics of all changes from the statistics of one or more parts."""
    found = list(parts)
    moved = [part.moved for part in found if part.moved is not None]
    is_few = len(moved) == len(found) and sum(part.num_rows for part in moved) <= MAX_DRIVER_KEYS
    return KeyStatistics(
        join_ranges(part.ranges for part in found),
        pa.concat_tables(moved) if is_few else None,
        any(part.has_partial for part in found),
        min((part.lowest for part in found if part.lowest is not None), default=None),
        sum(part.left_out for part in found),
    )
