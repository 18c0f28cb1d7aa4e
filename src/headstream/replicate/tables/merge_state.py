"""The state of a table that its merges use, in the driver and on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.evolution import SeenSchema
from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.raw import Coordinates
from headstream.replicate.engines.engine import MergedTable, RowCounts, TableEngine
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.tables.table_memory import TableMemory

_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge: row counts, rejected changes with their reasons, and the number of changes left out."""

    counts: RowCounts
    rejected: dict[Coordinates, str]
    left_out: int = 0


class MergeState:
    """The state of one table during merges.

    Args:
        changes: Returns the engine of the table's change table; None if there is none or it has no change.
    """

    def __init__(
        self, name: tuple[str, str], memory: TableMemory, gap_us: int, changes: Callable[[], TableEngine | None]
    ) -> None:
        self._name = name
        self._memory = memory
        self._changes = changes
        self.gap_us = gap_us
        self.state = memory.find(name)

    def keep(self) -> None:
        """Store the state."""
        self._memory.keep(self._name, self.state)

    def placed(self, changes: pa.Table, schema: TableSchema, *, keeps_all: bool) -> pa.Table:
        """Return changes with their positions among the loads, without ignored deletions."""
        placed = self.state.loads.place(changes, self.gap_us, keeps_all=keeps_all)
        if schema.settings.deletes == "skip":
            placed = placed.filter(pc.not_equal(placed["_hs_operation"], _DELETE))
        return placed

    def given_up(self, app_id: str, version: int) -> dict[Coordinates, str]:
        """Return the rejected changes of a unit that was already applied."""
        return self._memory.given_up(self._name, app_id, version)

    def decide(self, rejected: dict[Coordinates, str], table: MergedTable, app_id: str, version: int) -> dict[Coordinates, str]:
        """Return the rejected changes; if the unit was already applied, the changes recorded then, since rows have changed."""
        for engine in filter(None, (table.engine, self._changes())):
            applied = engine.last_applied(app_id)
            if applied is not None and applied >= version:
                return self.given_up(app_id, version)
        self._memory.give_up(self._name, app_id, version, rejected)
        return rejected

    def known_columns(self, columns: Iterable[str], table: MergedTable) -> list[str]:
        """Return the table's columns that its source has or had; the pipeline does not write other columns."""
        known = {*self.state.columns, *columns}
        if self.state.schema is not None:
            known |= self.state.schema.columns.keys()
        if len(known) > len(self.state.columns):
            self.state.columns = sorted(known)
            self.keep()
        return [name for name in table.columns if name in known]

    def follow(self, seen: SeenSchema) -> None:
        """Record a schema as the newest schema unless it is older than the recorded schema."""
        if self.state.schema is None or seen.version >= self.state.schema.version:
            self.state.schema = seen
        self.keep()


def by_coordinates(rejected: Iterable[tuple[str, int, int, str]]) -> dict[Coordinates, str]:
    """Return the reasons for rejected changes, by coordinates."""
    return {(topic, partition, offset): reason for topic, partition, offset, reason in rejected}
