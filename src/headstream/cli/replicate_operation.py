"""`headstream replicate status|schemas|parked|redrive|reload`: beside a running pipeline, or after it; they read, and ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from headstream.cli.output import format_time, print_object, print_objects, print_text
from headstream.cli.parameters import Checked, LocalPath, output_option
from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    from headstream.spark.replicate.ledger import Ledger, Parcel
    from headstream.spark.replicate.requests import Selection
    from headstream.spark.replicate.zone import SchemaZone

__all__ = ["parked", "redrive", "reload", "schemas", "status"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_PARCEL_COLUMNS: Final = ("state", "waits_for", "schema_id", "table", "messages", "bytes", "since", "reason")
_SCHEMA_COLUMNS: Final = ("schema_id", "table", "version", "task", "columns", "keys", "arrived")
_FAILING_COLUMNS: Final = ("table", "failures", "poisoned", "since", "next", "reason")


def _read_time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a time", advice="Write it as in 2026-01-31T12:00:00Z") from None
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _read_table(text: str) -> tuple[str, str]:
    schema, dot, name = text.rpartition(".")
    if not (schema and dot and name):
        raise InvalidInputError(f"{text!r} is not a table", advice="Write schema.table, as in SHOP.orders")
    return schema, name


_TIME: Final = Checked("time", _read_time)
_TABLE: Final = Checked("schema.table", _read_table)
_checkpoint_option = click.option(
    "--checkpoint",
    type=LocalPath(exists=True),
    required=True,
    help="Where the pipeline's own state is.",
)


def _selection_options(function: _Function) -> _Function:
    """Add the options that choose among messages set aside."""
    for option in reversed(
        (
            click.option("--reason", metavar="TEXT", help="Those whose reason has this text in it."),
            click.option("--table", type=_TABLE, metavar="SCHEMA.TABLE", help="Those of one target table."),
            click.option("--schema-id", metavar="ID", help="Those that name this schema."),
            click.option("--since", "since_us", type=_TIME, metavar="TIME", help="Those set aside at or after this time."),
            click.option("--until", "until_us", type=_TIME, metavar="TIME", help="Those set aside before this time."),
        )
    ):
        function = option(function)
    return function


@click.command()
@_checkpoint_option
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@output_option
def status(checkpoint: Path, watch: bool, output: str) -> None:
    """Show how a pipeline stands: what it has done, what waits, which tables fail, how far behind it is.

    It reads alone, and may be used while the pipeline runs.

    \b
    Examples:
      headstream replicate status --checkpoint /data/checkpoint
      headstream replicate status --checkpoint /data/checkpoint --watch --output jsonl
    """
    from headstream.spark.replicate.status import read_status

    with _open_ledger(checkpoint) as ledger:
        while True:
            _print_status(read_status(ledger, time.time_ns() // 1000), output)
            if not watch:
                return
            print_text("", flush=True)
            time.sleep(1)


@click.command()
@_checkpoint_option
@click.option("--zone", type=LocalPath(), help="The schema zone, where it is elsewhere.")
@click.option("--table", type=_TABLE, metavar="SCHEMA.TABLE", help="The history of one source table.")
@output_option
def schemas(checkpoint: Path, zone: Path | None, table: tuple[str, str] | None, output: str) -> None:
    """Show the schemas that a pipeline knows, in order of arrival.

    \b
    Example:
      headstream replicate schemas --checkpoint /data/checkpoint --table SHOP.orders
    """
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
        for entry in _open_zone(checkpoint, zone).entries()
        if table in (None, (entry.metadata.lineage.schema, entry.metadata.lineage.table))
    ]
    print_objects(rows, _SCHEMA_COLUMNS, output)


@click.command()
@_checkpoint_option
@_selection_options
@click.option("--dead", is_flag=True, help="Show the dead letter too.")
@output_option
def parked(checkpoint: Path, dead: bool, output: str, **chosen: Any) -> None:
    """Show the messages that a pipeline has set aside, by what they wait for: a schema, a table, the rest of a transaction.

    \b
    Examples:
      headstream replicate parked --checkpoint /data/checkpoint
      headstream replicate parked --checkpoint /data/checkpoint --dead --reason "cut short" --output json
    """
    from headstream.spark.replicate.requests import Selection

    states = ("parked", "called", "releasing", "delayed", *(("dead",) if dead else ()))
    with _open_ledger(checkpoint) as ledger:
        rows = _rows(ledger, Selection(states=states, **chosen), _open_zone(checkpoint, None))
    print_objects(rows, _PARCEL_COLUMNS, output)


@click.command()
@_checkpoint_option
@_selection_options
@click.option(
    "--from",
    "states",
    type=click.Choice(["dead", "delayed", "all"]),
    default="dead",
    show_default=True,
    help="From the dead letter, from the delayed topic, or from both.",
)
@click.option("--dry-run", is_flag=True, help="Show what would come back, and ask for nothing.")
@output_option
def redrive(checkpoint: Path, states: str, dry_run: bool, output: str, **chosen: Any) -> None:
    """Bring messages back that were set aside: they are decoded and applied as if they had just come.

    The pipeline that is running does so within a second, or the next run; however it is killed, once. What still cannot
    be applied is set aside again, with its reason.

    \b
    Examples:
      headstream replicate redrive --checkpoint /data/checkpoint --table SHOP.orders --dry-run
      headstream replicate redrive --checkpoint /data/checkpoint --reason "schema id" --since 2026-01-31T12:00:00Z
    """
    from headstream.spark.replicate.requests import Requests, Selection

    selection = Selection(states=("dead", "delayed") if states == "all" else (states,), **chosen)
    with _open_ledger(checkpoint) as ledger:
        rows = _rows(ledger, selection, _open_zone(checkpoint, None))
    if dry_run:
        print_objects(rows, _PARCEL_COLUMNS, output)
        return
    if not rows:
        raise InvalidInputError("no message set aside is like that", advice="See headstream replicate parked --dead")
    with _open_ledger(checkpoint, write=True) as ledger:
        number = Requests(ledger).ask("redrive", selection.to_document(), time.time_ns() // 1000)
    print_object({"request": number, "messages": sum(row["messages"] for row in rows)}, output)


@click.command()
@click.argument("table", type=_TABLE, metavar="SCHEMA.TABLE")
@_checkpoint_option
@click.option("--at", "at_us", type=_TIME, metavar="TIME", help="When the load begins.  [default: now]")
@click.option("--ended", is_flag=True, help="The load is over: rows that it did not bring are gone at the source.")
@output_option
def reload(table: tuple[str, str], checkpoint: Path, at_us: int | None, ended: bool, output: str) -> None:
    """Say that a full load of a target table begins, before it is started in Replicate; or, with --ended, that it is over.

    The pipeline finds loads by itself, but one that begins within five minutes of a change of the table. What the table
    has stays until the load's rows replace it; rows that the load did not bring go when the table's next change comes, or
    --ended says so. Times are those that the messages have in their log. What came of it is in the status.

    \b
    Examples:
      headstream replicate reload SHOP.orders --checkpoint /data/checkpoint
      headstream replicate reload SHOP.orders --checkpoint /data/checkpoint --ended
    """
    from headstream.spark.replicate.requests import Requests

    if ended and at_us is not None:
        raise click.UsageError("--at says when a load begins, --ended that one is over: give one of them")
    now_us = time.time_ns() // 1000
    arguments = {"table": list(table), "at_us": now_us if at_us is None else at_us, "ended": ended}
    with _open_ledger(checkpoint, write=True) as ledger:
        number = Requests(ledger).ask("reload", arguments, now_us)
    print_object({"request": number, "table": ".".join(table)}, output)


@contextmanager
def _open_ledger(checkpoint: Path, *, write: bool = False) -> Iterator[Ledger]:
    from headstream.spark.replicate.ledger import Ledger

    with closing(Ledger(checkpoint / "ledger.sqlite", read_only=not write)) as ledger:
        yield ledger


def _open_zone(checkpoint: Path, zone: Path | None) -> SchemaZone:
    """Return the schema zone that is named, or the one the pipeline last used; of a checkpoint that was moved, its own."""
    from headstream.spark.replicate.status import read_status
    from headstream.spark.replicate.zone import SchemaZone

    if zone is None:
        with _open_ledger(checkpoint) as ledger:
            noted = read_status(ledger, 0)["zone"]
        zone = Path(noted) if noted and Path(noted).is_dir() else checkpoint / "zone"
    return SchemaZone(zone)


def _rows(ledger: Ledger, selection: Selection, zone: SchemaZone) -> list[dict[str, Any]]:
    from headstream.spark.replicate.status import read_targets

    targets = read_targets(ledger)

    def table_of(schema_id: str) -> tuple[str, str] | None:
        if schema_id in targets:
            return targets[schema_id]
        entry = zone.find(schema_id)
        return None if entry is None else (entry.metadata.lineage.schema, entry.metadata.lineage.table)

    def row(parcel: Parcel) -> dict[str, Any]:
        table = parcel.table or (table_of(parcel.schema_id) if parcel.schema_id is not None else None)
        return {
            "state": parcel.state,
            "waits_for": parcel.cause if parcel.state != "dead" else None,
            "schema_id": parcel.schema_id,
            "table": None if table is None else ".".join(table),
            "messages": parcel.count,
            "bytes": parcel.size_bytes,
            "since": format_time(parcel.since_us),
            "reason": parcel.reason,
            "transaction": parcel.transaction_key,
            "topic": parcel.log_topic,
            "from_offset": parcel.from_offset,
            "until_offset": parcel.until_offset,
        }

    return [row(parcel) for parcel in selection.find(ledger, table_of)]


def _describe(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in result.items())


def _print_status(document: dict[str, Any], output: str) -> None:
    if output != "table":
        print_object(document, output)
        return
    run, failing = document.pop("run") or {}, document.pop("failing_tables")
    document["updated"] = None if document["updated_us"] is None else format_time(document["updated_us"])
    oldest = document["oldest_transaction"]
    document["oldest_transaction"] = None if oldest is None else f"{oldest['wait_seconds']} s: {oldest['lacks']}"
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
    if failing:
        print_text("")
        rows = [{**found, "since": format_time(found["since_us"]), "next": format_time(found["next_us"])} for found in failing]
        print_objects(rows, _FAILING_COLUMNS, output)
