"""A pipeline's report: its status, and the rows, lag, failures, waiting messages and schema versions of each table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from headstream.replicate.codec import TableMetadata
from headstream.replicate.parked.ledger import Ledger, Table
from headstream.replicate.run.status import read_status, read_targets
from headstream.replicate.schemas.differences import find_differences
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema

_MOST_VERSIONS: Final = 20
"""Maximum number of schema versions per table in a report, the newest first."""

_FRESH_S: Final = 1.0
"""Minimum interval at which a checkpoint is read again for an unknown schema, seconds."""

_WAITING: Final = ("parked", "called", "releasing", "delayed")


class PipelineReport:
    """Reads the report of one pipeline, whether or not it is running; thread-safe.

    Args:
        read: Returns a directory with the newest ledger and schema store of the pipeline's checkpoint.
    """

    def __init__(self, read: Callable[[], Path]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._schema_store: SchemaStore | None = None
        self._read_s = -_FRESH_S

    def read(self) -> dict[str, Any]:
        """Return the report as a JSON object.

        Raises:
            StorageError: the checkpoint cannot be read.
        """
        with self._lock:
            return self._read_report()

    def find_schema(self, schema_id: str) -> TableMetadata | None:
        """Return the table version with a schema id; None if the pipeline's schema store lacks the id.

        Raises:
            SchemaError: a file of the schema store is damaged.
            StorageError: the checkpoint cannot be read.
        """
        with self._lock:
            entry = None if self._schema_store is None else self._schema_store.find(schema_id)
            if entry is None and time.monotonic() - self._read_s >= _FRESH_S:
                checkpoint = self._read()
                with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
                    noted = read_status(ledger, time.time_ns() // 1000)["zone"]
                entry = self._schema_store_of(find_schema_store(checkpoint, noted)).find(schema_id)
        return None if entry is None else entry.metadata

    def _read_report(self) -> dict[str, Any]:
        checkpoint = self._read()
        with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
            status = read_status(ledger, time.time_ns() // 1000)
            schema_store = self._schema_store_of(find_schema_store(checkpoint, status["zone"]))
            schema_store.scan()
            targets = read_targets(ledger)
            waiting = _sum_parked_batches(ledger, tables_of_schemas(schema_store, targets))
        return {**status, "tables": _describe_tables(status, waiting, schema_store, targets)}

    def _schema_store_of(self, directory: Path) -> SchemaStore:
        """Return the cached schema store. Its entries never change, so each file is read once."""
        self._read_s = time.monotonic()
        if self._schema_store is None or self._schema_store.directory != directory:
            self._schema_store = SchemaStore(directory)
        return self._schema_store


def find_schema_store(checkpoint: Path, noted: str | None) -> Path:
    """Return the schema store's directory that the last run recorded or, if it does not exist here, the one in the checkpoint."""
    return Path(noted) if noted and Path(noted).is_dir() else checkpoint / "zone"


def tables_of_schemas(schema_store: SchemaStore, targets: dict[str, Table]) -> Callable[[str], Table | None]:
    """Return a function that returns the target table of a schema id, or the source's table, or None for an unknown id."""

    def table_of(schema_id: str) -> Table | None:
        if schema_id in targets:
            return targets[schema_id]
        entry = schema_store.find(schema_id)
        return None if entry is None else (entry.metadata.lineage.schema, entry.metadata.lineage.table)

    return table_of


def _sum_parked_batches(ledger: Ledger, table_of: Callable[[str], Table | None]) -> dict[str, dict[str, Any]]:
    """Return the parked messages of each table; the key of unknown tables is ""."""
    found: dict[str, dict[str, Any]] = {}
    for parked_batch in ledger.parked_batches(*_WAITING, "dead"):
        table = parked_batch.table or (None if parked_batch.schema_id is None else table_of(parked_batch.schema_id))
        sums = found.setdefault("" if table is None else ".".join(table), _nothing_waits())
        if parked_batch.state == "dead":
            sums["dead"] += parked_batch.count
            sums["dead_reason"] = parked_batch.reason
        else:
            sums["waiting"] += parked_batch.count
            sums["waiting_bytes"] += parked_batch.size_bytes
            sums["waiting_since_us"] = min(parked_batch.since_us, sums["waiting_since_us"] or parked_batch.since_us)
            sums["waits_for"] = parked_batch.cause
    return found


def _nothing_waits() -> dict[str, Any]:
    return {"waiting": 0, "waiting_bytes": 0, "waiting_since_us": None, "waits_for": None, "dead": 0, "dead_reason": None}


def _describe_tables(
    status: dict[str, Any], waiting: dict[str, dict[str, Any]], schema_store: SchemaStore, targets: dict[str, Table]
) -> list[dict[str, Any]]:
    run = status["run"] or {}
    rows, lags, commits = run.get("tables", {}), run.get("lag_seconds", {}), run.get("last_change_us", {})
    failing = {found["table"]: found for found in status["failing_tables"]}
    histories: dict[str, list[StoredSchema]] = {}
    for source, history in schema_store.tables().items():
        for entry in history:
            histories.setdefault(".".join(targets.get(entry.metadata.schema_id, source)), []).append(entry)
    nothing = {"inserted": 0, "updated": 0, "deleted": 0}
    return [
        {
            "table": name,
            **rows.get(name, nothing),
            "lag_seconds": lags.get(name),
            "last_change_us": commits.get(name),
            **waiting.get(name, _nothing_waits()),
            "failing": failing.get(name),
            "versions_count": len(histories.get(name, ())),
            "versions": _describe_versions(histories.get(name, [])),
        }
        for name in sorted({*rows, *lags, *waiting, *failing, *histories})
    ]


def _describe_versions(history: list[StoredSchema]) -> list[dict[str, Any]]:
    """Return a table's schema versions, the newest first, with the differences from the task's previous version."""
    before: dict[tuple[str, str], StoredSchema] = {}
    versions = []
    for entry in history:
        lineage = entry.metadata.lineage
        earlier = before.get((lineage.server, lineage.task))
        versions.append(
            {
                "schema_id": entry.metadata.schema_id,
                "version": lineage.table_version,
                "source": f"{lineage.schema}.{lineage.table}",
                "task": lineage.task,
                "columns": len(entry.metadata.columns),
                "keys": list(entry.metadata.key_columns),
                "arrived_us": entry.arrived_us,
                "differences": None if earlier is None else find_differences(earlier.metadata, entry.metadata),
            }
        )
        before[lineage.server, lineage.task] = entry
    return versions[: -_MOST_VERSIONS - 1 : -1]
