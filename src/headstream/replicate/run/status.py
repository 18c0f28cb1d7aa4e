"""The status of a pipeline, which a run writes to the ledger; readable during and after the run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.parked.failing_tables import FailingTables
from headstream.replicate.parked.ledger import Ledger, Table
from headstream.replicate.parked.requests import Requests
from headstream.replicate.run.summary import Summary
from headstream.replicate.run.transactions import waiting_transactions
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.settings.table_settings import TableRules

HEARTBEAT_US: Final = 5_000_000
"""Maximum interval between a run's status updates, microseconds."""
_MISSED_HEARTBEATS: Final = 3
_MARK: Final = "status"
_TARGETS: Final = "targets"


def note_status(
    ledger: Ledger,
    state: str,
    summary: Summary,
    schema_store: Path,
    now_us: int,
    heartbeat_us: int = HEARTBEAT_US,
    catalog: dict[str, Any] | None = None,
    mask_orders: list[dict[str, Any]] | None = None,
    iceberg: dict[str, Any] | None = None,
) -> None:
    """Write the status of a run.

    Args:
        state: `running`, `ended`, or `failed: ` followed by the reason.
        heartbeat_us: Maximum interval until the next status, microseconds.
        catalog: The registration status of the tables; None if there is no catalog.
    """
    place = str(schema_store.absolute())  # a reader of the status can have another working directory
    document = {"state": state, "process": os.getpid(), "updated_us": now_us, "zone": place, "run": summary.to_dict()}
    document |= {"heartbeat_us": heartbeat_us, "catalog": catalog, "mask_orders": mask_orders or [], "iceberg": iceberg}
    ledger.set_mark(_MARK, json.dumps(document))


def describe_orders(orders: MaskOrders, schema_store: SchemaStore) -> list[dict[str, Any]]:
    """Return the decided mask byte orders, one object per task, with the stored evidence (None if not stored)."""
    lineages = [entry.metadata.lineage for history in schema_store.tables().values() for entry in history]
    tasks = {(lineage.server, lineage.task): lineage for lineage in lineages}
    return [
        {"server": server, "task": task, "order": order, "evidence": orders.evidence(lineage)}
        for (server, task), lineage in sorted(tasks.items(), key=lambda pair: pair[0])
        if (order := orders.find(lineage)) is not None
    ]


def note_targets(ledger: Ledger, schema_store: SchemaStore, rules: TableRules) -> None:
    """Write the target table of each schema of a schema store, for readers of the ledger that lack the settings."""
    targets = {}
    for (schema, table), history in schema_store.tables().items():
        settings = rules.settings_of(schema, table)
        for entry in history:
            lineage = entry.metadata.lineage
            name = settings.target_name(schema=schema, table=table, task=lineage.task, server=lineage.server)
            targets[entry.metadata.schema_id] = name
    ledger.set_mark(_TARGETS, json.dumps(targets))


def read_targets(ledger: Ledger) -> dict[str, Table]:
    """Return the target table of each schema id, as last written by the pipeline."""
    stored = json.loads(ledger.mark(_TARGETS) or "{}")
    return {schema_id: (schema, name) for schema_id, (schema, name) in stored.items()}


def read_status(ledger: Ledger, now_us: int) -> dict[str, Any]:
    """Return the status of a pipeline as a JSON object."""
    stored = json.loads(ledger.mark(_MARK) or "null")
    status: dict[str, Any] = {"state": "has not run", "process": None, "updated_us": None, "zone": None, "run": None}
    status["catalog"] = status["iceberg"] = None
    status["mask_orders"] = []
    if stored is not None:
        heartbeat_us = stored.pop("heartbeat_us", HEARTBEAT_US)
        status |= stored
        if stored["state"] == "running" and now_us - stored["updated_us"] > _MISSED_HEARTBEATS * heartbeat_us:
            status["state"] = "not reporting"  # killed, or in a long micro-batch
    counts, waiting = ledger.counts(), ledger.waiting()
    status["waiting"] = waiting.count
    status["waiting_bytes"] = waiting.size_bytes
    status["oldest_wait_seconds"] = None if waiting.oldest_us is None else round((now_us - waiting.oldest_us) / 1e6, 3)
    status |= {state: counts.get(state, 0) for state in ("parked", "delayed", "dead")}
    status["waiting_for_loads"] = ledger.waiting("load").count
    transactions = waiting_transactions(ledger, now_us)
    status["open_transactions"] = len(transactions)
    status["oldest_transaction"] = (
        None
        if not transactions
        else {"wait_seconds": round((now_us - transactions[0].since_us) / 1e6, 3), "lacks": transactions[0].describe()}
    )
    health = FailingTables(ledger)
    status["failing_tables"] = [
        {
            "table": ".".join(found.table),
            "failures": found.failures,
            "poisoned": found.is_poisoned,
            "stopped": found.table in health.stopped,
            "since_us": found.since_us,
            "next_us": found.next_us,
            "reason": found.reason,
        }
        for found in health.failing.values()
    ]
    requests = Requests(ledger)
    status["requests"] = [{"id": request.id, "kind": request.kind} for request in requests.open()]
    done = requests.newest_done()
    status["last_request"] = None if done is None else {"id": done.id, "kind": done.kind, "result": done.result}
    return status
