"""Rows that are stored for a table before a merge and removed if the merge is not committed.

Deletions (tombstones.py) and changes of connected keys (key_log.py) are appended to small Delta tables of the checkpoint before
the merge of their unit. If the merge fails, a merge of other changes must not read these rows. So each append records its unit in
its commit. Before the table is used again, the appends of the last unit are reverted if the table's log does not record the unit.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from deltalake import CommitProperties, DeltaTable

from headstream.replicate.engines.deltalake import TableLog
from headstream.replicate.engines.engine import MergedTable, RowCounts, TableEngine

_UNIT: Final = "headstream.unit"
"""The entry of a commit's metadata that names the unit, as JSON: app_id and version of the merge."""

Unit: TypeAlias = tuple[str, int]


class UnitMemory(ABC):
    """A small Delta table whose newest appends can belong to a unit that is not committed."""

    def __init__(self) -> None:
        self._unit: Unit | None = None
        self._undecided: Unit | None = None

    @abstractmethod
    def _take_back(self, unit: Unit) -> None:
        """Remove the rows that a unit has appended."""

    @abstractmethod
    def _retain(self) -> None:
        """Write a commit without a unit."""

    def decide(self, engine: TableEngine) -> None:
        """Revert the last unit's appends unless the unit was committed. Call decide() before reading for a merge."""
        self._unit, unit = None, self._undecided
        if unit is None:
            return
        if not engine.columns:  # the table was dropped: its deletions remain
            self._retain()
        elif not _has(engine, unit) and not _has(TableLog(engine.path), unit):  # a commit's response can be lost
            self._take_back(unit)
        self._undecided = None

    def begin_merge(self, app_id: str, version: int, engine: TableEngine) -> None:
        """Begin a unit's merge: later appends are reverted unless the merge is committed."""
        self.decide(engine)
        self._unit = app_id, version

    def end_merge(self, engine: TableEngine, counts: RowCounts) -> None:
        """End a unit's successful merge; a merge without changes makes no commit."""
        if self._undecided is not None and counts == RowCounts() and not _has(engine, self._undecided):
            self._retain()
        self._unit = self._undecided = None

    def _note_stored(self, table: DeltaTable) -> None:
        """Read the unit of the newest commit when the table is opened."""
        self._undecided = _unit_of(table.history(1)[0])

    def _commit_properties(self) -> CommitProperties | None:
        """Return the commit properties of the next append, with the unit's name."""
        self._undecided = self._unit
        return None if self._unit is None else CommitProperties(custom_metadata={_UNIT: json.dumps(self._unit)})


class RememberedTable(MergedTable):
    """A target table with its tombstones or change logs."""

    def __init__(self, engine: TableEngine, keys: list[str], *memories: UnitMemory) -> None:
        super().__init__(engine, keys)
        self._memories = memories

    def decide(self) -> None:
        """Revert the last unit's appends, unless the unit was committed."""
        for memory in self._memories:
            memory.decide(self.engine)

    def _merge_unit(self, app_id: str, version: int, merge: Callable[[], RowCounts]) -> RowCounts:
        """Merge a unit; rows that `merge` appends to the memories stay only if `merge` returns."""
        for memory in self._memories:
            memory.begin_merge(app_id, version, self.engine)
        counts = merge()
        for memory in self._memories:
            memory.end_merge(self.engine, counts)
        return counts


def take_back(table: DeltaTable, unit: Unit) -> None:
    """Undo the newest commits of a table, which all belong to a unit."""
    before = next((entry["version"] for entry in table.history() if _unit_of(entry) != unit), None)
    if before is None:
        table.delete()
    else:
        table.restore(before)


def _unit_of(commit: dict[str, Any]) -> Unit | None:
    if _UNIT not in commit:
        return None
    app_id, version = json.loads(commit[_UNIT])
    return app_id, version


def _has(table: TableEngine | TableLog, unit: Unit) -> bool:
    """Return whether a table's log records this or a later unit; decide() runs before each merge, so either is sufficient."""
    applied = table.last_applied(unit[0])
    return applied is not None and applied >= unit[1]
