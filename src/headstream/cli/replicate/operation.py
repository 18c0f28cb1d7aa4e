"""`headstream replicate status|schemas|parked|redrive|reload`: reads a pipeline's state and sends requests to the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from headstream.cli.shared.checkpoints import ask_pipeline, checkpoint_options, config_option, read_checkpoint
from headstream.cli.shared.output import format_time, print_object, print_objects, print_text
from headstream.cli.shared.parameters import Checked, StorablePlace, output_option
from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    from headstream.replicate.parked.ledger import Ledger, ParkedBatch
    from headstream.replicate.parked.requests import Selection
    from headstream.replicate.schemas.schema_store import SchemaStore
    from headstream.replicate.storage.places import Place

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_PARKED_COLUMNS: Final = ("state", "waits_for", "schema_id", "table", "messages", "bytes", "since", "reason")
_SCHEMA_COLUMNS: Final = ("schema_id", "table", "version", "task", "columns", "keys", "arrived")
_REFUSED_COLUMNS: Final = ("unregistered", "name", "reason")
_BEHIND_COLUMNS: Final = ("iceberg", "name", "delta_version", "lag_seconds", "refused", "reason")
_FAILING_COLUMNS: Final = ("table", "failures", "poisoned", "since", "next", "reason")


def _read_time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a time", advice="Write a time such as 2026-01-31T12:00:00Z") from None
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _read_table(text: str) -> tuple[str, str]:
    schema, dot, name = text.rpartition(".")
    if not (schema and dot and name):
        raise InvalidInputError(f"{text!r} is not a table name", advice="Write schema.table, for example SHOP.orders")
    return schema, name


_TIME: Final = Checked("time", _read_time)
_TABLE: Final = Checked("schema.table", _read_table)


def _selection_options(function: _Function) -> _Function:
    for option in reversed(
        (
            click.option("--reason", metavar="TEXT", help="Only messages whose reason contains this text, in any case."),
            click.option("--table", type=_TABLE, metavar="SCHEMA.TABLE", help="Only messages of one target table."),
            click.option("--schema-id", metavar="ID", help="Only messages with this schema id."),
            click.option("--since", "since_us", type=_TIME, metavar="TIME", help="Only messages recorded at or after this time."),
            click.option("--until", "until_us", type=_TIME, metavar="TIME", help="Only messages recorded before this time."),
        )
    ):
        function = option(function)
    return function


@click.command()
@checkpoint_options
@click.option("--watch", is_flag=True, help="Refresh the status every second, until Ctrl-C.")
@output_option
def status(checkpoint: Place, watch: bool, output: str) -> None:
    """Show a pipeline's status: totals, parked messages, failing tables, lag.

    The command only reads, and can be used while the pipeline runs.

    \b
    Examples:
      headstream replicate status --checkpoint /data/checkpoint
      headstream replicate status --checkpoint /data/checkpoint --watch --output jsonl
    """
    from headstream.replicate.run.status import read_status

    with read_checkpoint(checkpoint) as read:
        while True:
            with _open_ledger(read()) as ledger:
                _print_status(read_status(ledger, time.time_ns() // 1000), output)
            if not watch:
                return
            print_text("", flush=True)
            time.sleep(1)


@click.command()
@checkpoint_options
@click.option("--zone", type=StorablePlace(), help="Schema store (directory or URI).  [default: the last run's]")
@click.option("--table", type=_TABLE, metavar="SCHEMA.TABLE", help="Only schemas of this source table, for example SHOP.orders.")
@output_option
def schemas(checkpoint: Place, zone: Place | None, table: tuple[str, str] | None, output: str) -> None:
    """List the schemas that a pipeline has received, in order of arrival.

    \b
    Example:
      headstream replicate schemas --checkpoint /data/checkpoint --table SHOP.orders
    """
    with read_checkpoint(checkpoint) as read, TemporaryDirectory(prefix="headstream-") as copy:
        entries = list((_open_schema_store(read()) if zone is None else _open_named_store(zone, Path(copy))).entries())
    rows = [
        {
            "schema_id": entry.metadata.schema_id,
            "table": f"{entry.metadata.lineage.schema}.{entry.metadata.lineage.table}",
            "version": entry.metadata.lineage.table_version,
            "task": entry.metadata.lineage.task,
            "columns": len(entry.metadata.columns),
            "keys": list(entry.metadata.key_columns),
            "arrived": format_time(entry.arrived_us),
        }
        for entry in entries
        if table in (None, (entry.metadata.lineage.schema, entry.metadata.lineage.table))
    ]
    print_objects(rows, _SCHEMA_COLUMNS, output)


@click.command()
@checkpoint_options
@_selection_options
@click.option("--dead", is_flag=True, help="Include dead letters.")
@output_option
def parked(checkpoint: Place, dead: bool, output: str, **chosen: Any) -> None:
    """List a pipeline's parked messages and what they wait for: a schema, a table, a transaction, or earlier messages.

    \b
    Examples:
      headstream replicate parked --checkpoint /data/checkpoint
      headstream replicate parked --checkpoint /data/checkpoint --dead --reason "cut short" --output json
    """
    from headstream.replicate.parked.requests import Selection

    states = ("parked", "called", "releasing", "delayed", *(("dead",) if dead else ()))
    selection = Selection(states=states, **chosen)
    with read_checkpoint(checkpoint) as read:
        rows = _rows(read(), selection)
    print_objects(rows, _PARKED_COLUMNS, output)


@click.command()
@checkpoint_options
@_selection_options
@click.option(
    "--from",
    "states",
    type=click.Choice(["dead", "delayed", "all"]),
    default="dead",
    show_default=True,
    help="Source of the messages: dead letters, delayed topic, or both.",
)
@click.option("--dry-run", is_flag=True, help="Show the selected messages, and redrive nothing.")
@output_option
def redrive(checkpoint: Place, states: str, dry_run: bool, output: str, **chosen: Any) -> None:
    """Redrive dead letters or delayed messages: they are decoded and applied like new messages, exactly once.

    A running pipeline redrives the messages within a second; otherwise the next run redrives them, even after a crash. Messages
    that still cannot be applied are parked or become dead letters again, with the reason.

    \b
    Examples:
      headstream replicate redrive --checkpoint /data/checkpoint --table SHOP.orders --dry-run
      headstream replicate redrive --checkpoint /data/checkpoint --reason "schema id" --since 2026-01-31T12:00:00Z
    """
    from headstream.replicate.parked.requests import Selection

    selection = Selection(states=("dead", "delayed") if states == "all" else (states,), **chosen)
    with read_checkpoint(checkpoint) as read:
        rows = _rows(read(), selection)
    if dry_run:
        print_objects(rows, _PARKED_COLUMNS, output)
        return
    if not rows:
        raise InvalidInputError("no dead letter or delayed message matches the options", advice="See `replicate parked --dead`")
    number = ask_pipeline(checkpoint, "redrive", selection.to_document())
    print_object({"request": number, "messages": sum(row["messages"] for row in rows)}, output)


@click.command()
@click.argument("table", type=_TABLE, metavar="SCHEMA.TABLE")
@checkpoint_options
@click.option("--at", "at_us", type=_TIME, metavar="TIME", help="Start of the load.  [default: now]")
@click.option("--ended", is_flag=True, help="Announce the end of the load. Rows that are missing from the load are then deleted.")
@output_option
def reload(table: tuple[str, str], checkpoint: Place, at_us: int | None, ended: bool, output: str) -> None:
    """Announce a full load of a target table, before starting the load in Replicate; with --ended, announce its end.

    The pipeline detects loads itself, except a load that begins within five minutes of a change to the table. Rows of
    the table stay until the load replaces them; rows missing from the load are deleted at the table's next change or
    with --ended. Times are the log times of messages. `status` shows the result.

    \b
    Examples:
      headstream replicate reload SHOP.orders --checkpoint /data/checkpoint
      headstream replicate reload SHOP.orders --checkpoint /data/checkpoint --ended
    """
    if ended and at_us is not None:
        raise click.UsageError("--at announces the start of a load, and --ended announces its end: set only one of these options")
    begin_us = time.time_ns() // 1000 if at_us is None else at_us
    number = ask_pipeline(checkpoint, "reload", {"table": list(table), "at_us": begin_us, "ended": ended})
    print_object({"request": number, "table": ".".join(table)}, output)


@click.command("remove-deletion-vectors")
@click.argument("table", type=StorablePlace(exists=True, is_table=True), metavar="PLACE")
@config_option("The pipeline's TOML file, with [storage] for an object store.")
@output_option
def remove_deletion_vectors(table: Place, config_file: Path | None, output: str) -> None:
    """Rewrite the files of a Delta table that have deletion vectors, and remove this feature from the table.

    PLACE is the directory or URI of the table. Afterwards, readers that do not support deletion vectors can read the table, but
    not its older versions. If merge_strategy is "deletion-vectors" for the table, set it to "rewrite" first: otherwise the next
    merge enables deletion vectors again.

    \b
    Example:
      headstream replicate remove-deletion-vectors /data/tables/SHOP/orders
    """
    from headstream.replicate.engines.folding import remove_vectors
    from headstream.replicate.settings.config_file import load_checkpoint

    done = remove_vectors(table if config_file is None else load_checkpoint(config_file, table))
    print_object({"files": done.removed, "deleted_rows": done.deleted}, output)


@contextmanager
def _open_ledger(checkpoint: Path) -> Iterator[Ledger]:
    from headstream.replicate.parked.ledger import Ledger

    with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
        yield ledger


def _open_named_store(zone: Place, copy: Path) -> SchemaStore:
    """Return the schema store at a place; a schema store in an object store is copied to the directory `copy`."""
    from headstream.replicate.schemas.schema_store import SchemaStore

    return SchemaStore(zone) if isinstance(zone, Path) else SchemaStore(copy, place=zone)


def _open_schema_store(checkpoint: Path) -> SchemaStore:
    """Return the schema store that the pipeline last used or, if it is not accessible here, the one in the checkpoint."""
    from headstream.replicate.run.report import find_schema_store
    from headstream.replicate.run.status import read_status
    from headstream.replicate.schemas.schema_store import SchemaStore

    with _open_ledger(checkpoint) as ledger:
        return SchemaStore(find_schema_store(checkpoint, read_status(ledger, 0)["zone"]))


def _rows(checkpoint: Path, selection: Selection) -> list[dict[str, Any]]:
    from headstream.replicate.run.report import tables_of_schemas
    from headstream.replicate.run.status import read_targets

    zone = _open_schema_store(checkpoint)
    with _open_ledger(checkpoint) as ledger:
        table_of = tables_of_schemas(zone, read_targets(ledger))

    def row(parked_batch: ParkedBatch) -> dict[str, Any]:
        table = parked_batch.table or (table_of(parked_batch.schema_id) if parked_batch.schema_id is not None else None)
        return {
            "state": parked_batch.state,
            "waits_for": parked_batch.cause if parked_batch.state != "dead" else None,
            "schema_id": parked_batch.schema_id,
            "table": None if table is None else ".".join(table),
            "messages": parked_batch.count,
            "bytes": parked_batch.size_bytes,
            "since": format_time(parked_batch.since_us),
            "reason": parked_batch.reason,
            "transaction": parked_batch.transaction_key,
            "topic": parked_batch.log_topic,
            "from_offset": parked_batch.from_offset,
            "until_offset": parked_batch.until_offset,
        }

    with _open_ledger(checkpoint) as ledger:
        return [row(parked_batch) for parked_batch in selection.find(ledger, table_of)]


def _describe(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in result.items())


def _describe_evidence(evidence: dict[str, Any] | None) -> str:
    return "" if evidence is None else f": {evidence['rows']} {evidence['by']}"


def _print_status(document: dict[str, Any], output: str) -> None:
    if output != "table":
        print_object(document, output)
        return
    run, failing = document.pop("run") or {}, document.pop("failing_tables")
    document["updated"] = None if document["updated_us"] is None else format_time(document["updated_us"])
    oldest = document["oldest_transaction"]
    document["oldest_transaction"] = None if oldest is None else f"{oldest['wait_seconds']} s: {oldest['lacks']}"
    catalog = document["catalog"]
    refused = [] if catalog is None else catalog["failing"]
    document["catalog"] = None if catalog is None else f"{catalog['registered']} registered, {catalog['waiting']} waiting"
    iceberg = document["iceberg"] or {"tables": [], "waiting": 0}
    document["iceberg"] = None if not iceberg["tables"] else f"{len(iceberg['tables'])} tables, {iceberg['waiting']} behind"
    document["mask_orders"] = [
        f"{found['order']} (task {found['task']}{_describe_evidence(found['evidence'])})" for found in document["mask_orders"]
    ]
    document["requests"] = [f"{request['kind']} {request['id']}" for request in document["requests"]]
    last = document["last_request"]
    document["last_request"] = None if last is None else f"{last['kind']} {last['id']}: {_describe(last['result'])}"
    document |= {name: run.get(name) for name in ("messages", "changes", "batches")}
    lags = run.get("lag_seconds", {})
    document["lag_seconds"] = max(lags.values()) if lags else None
    del document["updated_us"]
    print_object(document, output)
    tables = [{"table": name, **counts, "lag_seconds": lags.get(name)} for name, counts in run.get("tables", {}).items()]
    if tables:
        print_text("")
        print_objects(tables, ("table", "inserted", "updated", "deleted", "lag_seconds"), output)
    vectors = [
        {"table": name, **found, "folded": None if found["folded_us"] is None else format_time(found["folded_us"])}
        for name, found in run.get("deletion_vectors", {}).items()
    ]
    if vectors:
        print_text("")
        print_objects(vectors, ("table", "strategy", "files", "deleted", "index_bytes", "folded"), output)
    if failing:
        print_text("")
        rows = [{**found, "since": format_time(found["since_us"]), "next": format_time(found["next_us"])} for found in failing]
        print_objects(rows, _FAILING_COLUMNS, output)
    behind = [{"iceberg": found["table"], **found} for found in iceberg["tables"] if found["lag_seconds"] or found["reason"]]
    if behind:
        print_text("")
        print_objects(behind, _BEHIND_COLUMNS, output)
    if refused:
        print_text("")
        print_objects([{"unregistered": found["table"], **found} for found in refused], _REFUSED_COLUMNS, output)
