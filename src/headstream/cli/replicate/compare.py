"""`headstream replicate compare`: compares a pipeline's tables with the source database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.replicate.session import SPARK_SETTING, open_session, show_progress
from headstream.cli.shared.checkpoints import ask_pipeline, config_option, read_checkpoint
from headstream.cli.shared.confirmation import confirm, yes_option
from headstream.cli.shared.output import print_objects, print_text
from headstream.cli.shared.parameters import DURATION, StorablePlace, output_option

if TYPE_CHECKING:
    from headstream.replicate.compare.comparison import Difference
    from headstream.replicate.compare.tables import Compared
    from headstream.replicate.settings.table_settings import TableRules
    from headstream.replicate.storage.places import Place

_COLUMNS: Final = ("table", "result", "source_rows", "target_rows", "missing", "extra", "changed", "late")
_DIFFERENCE_COLUMNS: Final = ("table", "kind", "key", "columns")
_MOST_CHARACTERS: Final = 200
"""Maximum length of a value in the output."""


@click.command()
@click.option(
    "--source-db",
    envvar="HEADSTREAM_SOURCE_DB",
    show_envvar=True,
    required=True,
    metavar="URL",
    help="URL of the source: postgresql://user:password@host/database, mariadb://…, or jdbc:…",
)
@config_option("The pipeline's TOML file, with the table directory, checkpoint and table settings.")
@click.option("--tables", type=StorablePlace(is_table=True), help="Directory or URI of the Delta tables; overrides --config.")
@click.option("--checkpoint", type=StorablePlace(exists=True), help="Directory or URI of the checkpoint; overrides --config.")
@click.option("--table", "chosen", multiple=True, metavar="SCHEMA.TABLE", help="Compare only this target table; repeatable.")
@click.option(
    "--limit", type=click.IntRange(1), default=1000, show_default=True, help="Maximum number of differing rows per table."
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Maximum number of concurrent connections to the source.",
)
@click.option(
    "--capture-lag",
    "capture_lag_us",
    type=DURATION,
    default="10s",
    show_default=True,
    help="Maximum time from a commit in the source until its changes are in the log.",
)
@click.option(
    "--wait",
    "wait_us",
    type=DURATION,
    default="5m",
    show_default=True,
    help="Maximum time to wait for the pipeline to apply all changes made before a read.",
)
@click.option("--repair", is_flag=True, help="Send the differing rows through the pipeline; the source is not changed.")
@click.option("--conf", "spark", type=SPARK_SETTING, multiple=True, metavar="NAME=VALUE", help="A Spark setting; repeatable.")
@yes_option
@output_option
@click.pass_context
def compare(
    context: click.Context,
    /,
    source_db: str,
    chosen: tuple[str, ...],
    repair: bool,
    spark: tuple[tuple[str, str], ...],
    yes: bool,
    output: str,
    **options: Any,
) -> None:
    """Compare the tables of the source database with the tables of a pipeline, using Spark; the pipeline can be running.

    Rows that differ are read again after the pipeline has passed the time of the first read, so late rows are not
    reported. For type 2 tables, the current rows are compared. Exit code: 0 equal, 1 different or not compared, 2 misuse.

    \b
    Examples:
      headstream replicate compare --source-db postgresql://reader:…@db/shop --config pipeline.toml
      headstream replicate compare --source-db postgresql://reader:…@db/shop --tables /data/tables \\
          --checkpoint /data/checkpoint --table public.orders --repair
    """
    from headstream.errors import InvalidInputError
    from headstream.replicate.compare.comparison import CompareSettings
    from headstream.replicate.compare.source_database import JdbcAccess
    from headstream.replicate.compare.tables import compare_tables

    try:
        access = JdbcAccess.parse(source_db)
    except InvalidInputError as error:
        raise click.UsageError(str(error), context) from error
    places, rules, settings = _find_pipeline(
        context, options.pop("config_file"), options.pop("tables"), options.pop("checkpoint")
    )
    settings |= dict(spark)
    rows: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    repairs: list[Compared] = []
    jar_sets = [] if access.jar_set is None else [access.jar_set]
    with (
        read_checkpoint(places[1], with_tables=True) as read,
        show_progress("starting Spark") as show,
        open_session("headstream-compare", settings, places, jar_sets) as session,
    ):
        found = compare_tables(
            session, access, places[0], rules, read, chosen=chosen, settings=CompareSettings(**options), show=show
        )
        for compared in found:
            rows.append(_describe(compared))
            differences += [
                {"table": compared.result.table, **_describe_difference(each)} for each in compared.result.differences
            ]
            repairs += [compared] if compared.result.differences else []
    if repair and repairs:
        _repair(places[1], repairs, rows, yes=yes)
    _print(rows, differences, output)
    if any(row["result"] != "equal" for row in rows):
        context.exit(1)


def _find_pipeline(
    context: click.Context, config_file: Path | None, tables: Place | None, checkpoint: Place | None
) -> tuple[tuple[Place, Place], TableRules, dict[str, str]]:
    """Return the locations of the tables and the checkpoint, the table settings, and the Spark settings."""
    from headstream.replicate.settings.config_file import load_config
    from headstream.replicate.settings.table_settings import TableRules

    if config_file is not None:
        given = {name: place for name, place in (("tables", tables), ("checkpoint", checkpoint)) if place is not None}
        config = load_config(config_file, given)
        return (config.tables, config.checkpoint), config.rules, dict(config.spark)
    if tables is None or checkpoint is None:
        raise click.UsageError("Missing --tables and --checkpoint: set both, or use the pipeline's --config FILE", context)
    return (tables, checkpoint), TableRules(), {}


def _repair(checkpoint: Place, repairs: Iterable[Compared], rows: list[dict[str, Any]], *, yes: bool) -> None:
    """Request that the pipeline apply the source's rows."""
    from headstream.replicate.compare.repair import describe_repair

    for compared in repairs:
        arguments = describe_repair(compared.result, compared.schema)
        count, table = len(arguments["messages"]), compared.result.table
        if count:
            confirm(f"Apply {count:,} row{'s' * (count != 1)} of the source to {table}", yes=yes)
            number = ask_pipeline(checkpoint, "repair", arguments)
            next(row for row in rows if row["table"] == table)["repair"] = number


def _describe(compared: Compared) -> dict[str, Any]:
    result = compared.result
    counts = {kind: sum(each.kind == kind for each in result.differences) for kind in ("missing", "extra", "changed")}
    return {
        "table": result.table,
        "result": "failed" if result.error is not None else "equal" if result.is_equal else "different",
        "source": result.source,
        "source_rows": result.rows[0],
        "target_rows": result.rows[1],
        **counts,
        "duplicate": sum(each.kind == "duplicate" for each in result.differences),
        "unsettled": sum(each.kind == "unsettled" for each in result.differences),
        "late": result.late,
        "is_complete": result.is_complete,
        "has_passed": result.has_passed,
        "source_reads": result.source_reads,
        "columns_left_out": list(result.left_out),
        "repair": None,
        "error": result.error,
    }


def _describe_difference(difference: Difference) -> dict[str, Any]:
    source, target = difference.source or {}, difference.target or {}
    columns = {name: {"source": _show(source.get(name)), "target": _show(target.get(name))} for name in difference.columns}
    return {"kind": difference.kind, "key": {name: _show(value) for name, value in difference.key.items()}, "columns": columns}


def _show(value: Any) -> Any:
    """Return a value in the form of the JSON output; long strings are truncated."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value.isoformat() if isinstance(value, (date, datetime)) else value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _print(rows: list[dict[str, Any]], differences: Sequence[Mapping[str, Any]], output: str) -> None:
    if output != "table":
        for row in rows:
            own = [each for each in differences if each["table"] == row["table"]]
            row["differences"] = [{name: value for name, value in each.items() if name != "table"} for each in own]
        print_objects(rows, (), output)
        return
    print_objects(rows, _COLUMNS, output)
    if differences:
        print_text("")
        texts = [{**each, "key": _pairs(each["key"]), "columns": _changes(each["columns"])} for each in differences]
        print_objects(texts, _DIFFERENCE_COLUMNS, output)
    for row in rows:
        for note in _notes(row):
            print_text(f"{row['table']}: {note}")


def _pairs(members: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in members.items())


def _changes(columns: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name}: {found['source']} in the source, {found['target']} here" for name, found in columns.items())


def _notes(row: Mapping[str, Any]) -> list[str]:
    """Return the remarks that are printed next to a table's counts."""
    notes = [] if row["error"] is None else [f"the table could not be compared: {row['error']}"]
    if not row["is_complete"]:
        notes.append("more rows differ; the first rows by key are shown (--limit)")
    if row["has_passed"] is False:
        notes.append("the pipeline has not applied all changes made before the read: missing changes are reported as differences")
    if row["columns_left_out"]:
        notes.append(f"columns not compared, because only one side has them: {', '.join(row['columns_left_out'])}")
    if row["repair"] is not None:
        notes.append(f"request {row['repair']}: the pipeline applies the source's rows within a second, or in its next run")
    return notes
