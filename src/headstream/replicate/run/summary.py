"""The summary of a pipeline run, as text and JSON."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.engines.engine import RowCounts, VectorState
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.tables.tables import Applied


@dataclass(slots=True)
class Summary:
    """The summary of a run.

    Args:
        batches: Finished micro-batches.
        messages: Messages that were read.
        changes: Data messages that were applied.
        rows_in_driver: Data messages whose decoded rows were sent to the driver; all other messages were folded on executors.
        merges: Number of merges into tables.
        released: Parked messages that were applied.
        dead: Messages moved to the dead-letter topic.
        tombstones: Messages with a null payload, which were skipped.
        parked: Messages that currently wait for their schema, table, transaction or load.
        delayed: Messages that are currently in the delayed topic.
        incomplete_transactions: Transactions that, by the settings, were applied without all of their events.
        changes_without_transaction_position: With `atomic`, changes without a position (from older versions of Replicate).
        failing: (schema, table) -> reason for the failure.
        lags_us: (schema, table) -> time from the source's commit of the newest change to its commit in the table, microseconds.
        last_changes_us: (schema, table) -> time at which the source committed the newest change, microseconds since 1970 UTC.
        tables: (schema, table) -> rows inserted, updated and deleted.
        vectors: (schema, table) -> deletion vectors, for tables that have or use deletion vectors.
        read_until_us: Time before which all logged messages have been read, microseconds since 1970 UTC; 0 if unknown.
        seconds: Total time of the micro-batches, seconds.
    """

    batches: int = 0
    messages: int = 0
    size_bytes: int = 0
    changes: int = 0
    rows_in_driver: int = 0
    merges: int = 0
    schemas: int = 0
    released: int = 0
    dead: int = 0
    tombstones: int = 0
    parked: int = 0
    delayed: int = 0
    incomplete_transactions: int = 0
    changes_without_transaction_position: int = 0
    failing: dict[tuple[str, str], str] = field(default_factory=dict)
    lags_us: dict[tuple[str, str], int] = field(default_factory=dict)
    last_changes_us: dict[tuple[str, str], int] = field(default_factory=dict)
    tables: dict[tuple[str, str], RowCounts] = field(default_factory=dict)
    vectors: dict[tuple[str, str], VectorState] = field(default_factory=dict)
    read_until_us: int = 0
    seconds: float = 0.0

    def note_read(self, decoded: Decoded) -> None:
        """Add the messages of a micro-batch."""
        self.messages += decoded.message_count
        self.size_bytes += decoded.size_bytes
        self.tombstones += decoded.tombstones

    def add(self, applied: Applied) -> None:
        """Add the result of applying changes."""
        self.changes += applied.changes
        self.merges += applied.merges
        for table, counts in applied.counts.items():
            self.tables[table] = self.tables.get(table, RowCounts()) + counts

    def note_commits(
        self, decoded: Decoded, schemas: Mapping[str, TableSchema], failed: Container[tuple[str, str]], now_us: int
    ) -> None:
        """Record the time from changes' commits in the source to their commits in the tables, except for failed tables."""
        newest: dict[tuple[str, str], str] = {}
        for schema_id, kept in decoded.stored.items():
            table = schemas[schema_id].table
            if table not in failed:
                newest[table] = max(newest.get(table, ""), kept.statistics.most)
        for schema_id, batches in decoded.changes.items():
            table = schemas[schema_id].table
            if table not in failed:
                found = [pc.max(batch.column("_hs_sequence")).as_py() or "" for batch in batches if batch.num_rows]
                newest[table] = max([newest.get(table, ""), *found])
        for table, sequence in newest.items():
            committed_us = commit_time_us(sequence)
            if committed_us is not None:
                self.lags_us[table] = now_us - committed_us
                self.last_changes_us[table] = committed_us

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a JSON object: the counts, and a map of `schema.table` to rows."""
        tables = {
            f"{schema}.{table}": {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
            for (schema, table), counts in sorted(self.tables.items())
        }
        return {
            "tables": tables,
            "messages": self.messages,
            "bytes": self.size_bytes,
            "changes": self.changes,
            "rows_in_driver": self.rows_in_driver,
            "merges": self.merges,
            "schemas": self.schemas,
            "released": self.released,
            "parked": self.parked,
            "delayed": self.delayed,
            "dead": self.dead,
            "tombstones": self.tombstones,
            "incomplete_transactions": self.incomplete_transactions,
            "changes_without_transaction_position": self.changes_without_transaction_position,
            "untold": self.changes_without_transaction_position,  # the name until 0.2
            "failing": {f"{schema}.{table}": reason for (schema, table), reason in sorted(self.failing.items())},
            "lag_seconds": {f"{schema}.{table}": round(us / 1e6, 3) for (schema, table), us in sorted(self.lags_us.items())},
            "last_change_us": {f"{schema}.{table}": us for (schema, table), us in sorted(self.last_changes_us.items())},
            "deletion_vectors": {f"{schema}.{table}": found.to_dict() for (schema, table), found in sorted(self.vectors.items())},
            "read_until_us": self.read_until_us,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
        }


def commit_time_us(sequence: str) -> int | None:
    """Return the commit time (us) at the start of a sequence `YYYYMMDDhhmmsscc…` (cc: hundredths of a second), or None."""
    try:
        whole = datetime.strptime(sequence[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return int(whole.timestamp()) * 1_000_000 + int(sequence[14:16]) * 10_000
    except ValueError:
        return None
