"""What a run of the pipeline has done, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headstream.spark.replicate.apply.deltalake import Counts
from headstream.spark.replicate.tables import Applied

__all__ = ["Summary"]


@dataclass(slots=True)
class Summary:
    """One run.

    Args:
        batches: Micro-batches finished.
        messages: Messages read.
        changes: Data messages applied.
        schemas: New schemas in the zone.
        released: Messages that had waited and whose schema came.
        dead: Messages moved to the dead letter.
        parked: Messages that wait for their schema now.
        delayed: Messages in the delayed topic now.
        tables: (schema, table) -> rows inserted, updated and deleted.
        seconds: How long the micro-batches took.
    """

    batches: int = 0
    messages: int = 0
    changes: int = 0
    schemas: int = 0
    released: int = 0
    dead: int = 0
    parked: int = 0
    delayed: int = 0
    tables: dict[tuple[str, str], Counts] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, applied: Applied) -> None:
        """Add what one application of changes did."""
        self.changes += applied.changes
        for table, counts in applied.counts.items():
            self.tables[table] = self.tables.get(table, Counts()) + counts

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: a map of `schema.table` to its rows, and the counts beside it."""
        tables = {
            f"{schema}.{table}": {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
            for (schema, table), counts in sorted(self.tables.items())
        }
        return {
            "tables": tables,
            "messages": self.messages,
            "changes": self.changes,
            "schemas": self.schemas,
            "released": self.released,
            "parked": self.parked,
            "delayed": self.delayed,
            "dead": self.dead,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
        }
