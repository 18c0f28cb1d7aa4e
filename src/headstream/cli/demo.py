"""`headstream demo`: runs the main use case on this machine, from a source database's changes to Delta tables."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table

from headstream.cli.shared.parameters import LocalPath
from headstream.connect import connect
from headstream.core.model.constructors import uint8
from headstream.errors import InvalidInputError
from headstream.spark.sessions.java import find_java
from headstream.spark.sessions.spark_home import find_pyspark
from headstream.testing import CaptureOptions, SourceDatabase, digest_rows
from headstream.testing.samples import sample_messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headstream.client.client import Client
    from headstream.replicate.run.summary import Summary
    from headstream.replicate.settings.iceberg_settings import IcebergSettings
    from headstream.testing.source_capture import SourceMessage

_MARKER: Final = ".headstream-demo"
_LATE_TABLE: Final = "SHOP.order_lines"
_DATA, _METADATA, _SAMPLES = "cdc/data", "cdc/metadata", "cdc/samples"
_SAMPLE_ROW: Final = ("employees", "salaries")


@click.command(
    epilog="""
    \b
    Examples:
      headstream demo --log
      headstream demo
      headstream demo --iceberg
      headstream demo --postgres
      headstream demo --directory /tmp/demo --rows 5000 --transactions 20000
    """
)
@click.option(
    "--log",
    "log_only",
    is_flag=True,
    help="Demonstrate only the log: typed headers, retries and a dead letter. This takes seconds and needs no Java.",
)
@click.option(
    "--postgres", is_flag=True, help="Use a real PostgreSQL database and a real Debezium connector, in temporary directories."
)
@click.option(
    "--directory",
    type=LocalPath(),
    show_default="headstream-demo; with --log a temporary one",
    help="Directory for the log, state and tables; the results of an earlier demo are deleted first.",
)
@click.option("--seed", default=7, show_default=True, help="Seed for the random changes of the simulated source.")
@click.option("--rows", default=1000, show_default=True, help="Rows per table in the full load.")
@click.option("--transactions", default=4000, show_default=True, help="Number of transactions after the full load.")
@click.option("--iceberg", "is_iceberg", is_flag=True, help="Create an Iceberg table for each Delta table, and compare both.")
def demo(
    log_only: bool, postgres: bool, directory: Path | None, seed: int, rows: int, transactions: int, is_iceberg: bool
) -> None:
    """Run the complete pipeline on this machine, in about a minute.

    A simulated source database writes its changes, together with some real Replicate messages, to a log in a directory.
    A Spark pipeline applies the changes to Delta tables, which are then compared with the final state of the source database.
    The metadata of one table arrives late, so this table's changes are parked until then.
    """
    console = Console(highlight=False, soft_wrap=True)
    if log_only:
        from headstream.cli.log_demo import run_log_demo

        directory = Path(tempfile.mkdtemp(prefix="headstream-demo-")) if directory is None else directory
        _prepare(directory)
        run_log_demo(console, directory / "log")
        return
    find_pyspark()
    find_java()  # before anything is written
    if postgres:
        from headstream.cli.postgres_demo import run_postgres_demo

        if directory is not None:
            raise click.UsageError("--postgres uses temporary directories: omit --directory.")
        run_postgres_demo(console)
        return
    directory = Path("headstream-demo") if directory is None else directory
    iceberg = _iceberg_settings(directory) if is_iceberg else None
    _prepare(directory)
    console.print(f"[bold]1. The source[/] a database of {rows} rows per table and {transactions} transactions, seed {seed}")
    source = SourceDatabase(seed, rows=rows, transactions=transactions)
    messages = list(source.capture(CaptureOptions(late_metadata={_LATE_TABLE: "end"})))
    late = [m for m in messages if m.role == "metadata" and m.table == _LATE_TABLE]
    url = f"file://{(directory / 'log').resolve()}"
    with connect(url) as log:
        _send_all(console, log, [m for m in messages if m not in late])
    console.print("[bold]3. The pipeline[/] Spark reads the log; each source table becomes a Delta table")
    with console.status("starting Spark"):
        from headstream.spark.sessions.session import session

        spark = session("headstream-demo", master="local[2]", quick_start=True)
    try:
        first = _run(console, spark, directory, url, iceberg)
        console.print(
            f"   {first.parked:,} changes of {_LATE_TABLE} wait for their metadata, "
            f"{first.dead} messages without a schema are dead letters"
        )
        with connect(url) as log, log.producer(_METADATA) as producer:
            for message in late:
                producer.send(message.value, key=message.key, headers=message.headers)
        console.print(f"   the metadata of {_LATE_TABLE} arrives")
        second = _run(console, spark, directory, url, iceberg)
        console.print(f"   {second.released:,} waiting changes are applied; {second.parked} still wait")
        equal = _compare(console, spark, source, directory / "tables", iceberg)
        _show_sample(console, spark, directory / "tables")
    finally:
        from headstream.spark.sessions.session import stop

        stop(spark)
    changes, seconds = first.changes + second.changes, first.seconds + second.seconds
    tables = len(first.tables | second.tables)
    console.print(f"\n{changes:,} changes into {tables} tables in {seconds:.1f} s: {changes / seconds:,.0f} per second")
    console.print(f"Tables: {directory / 'tables'}   log: headstream topic list --url {url}")
    if not equal:
        raise click.ClickException("a Delta table differs from its source table")


def _prepare(directory: Path) -> None:
    """Recreate the demo's directory; raise an error if the existing directory was not created by the demo."""
    if directory.exists() and any(directory.iterdir()) and not (directory / _MARKER).exists():
        raise InvalidInputError(
            "the directory contains other files", where=str(directory), advice="Set another directory with --directory"
        )
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / _MARKER).touch()


def _send_all(console: Console, log: Client, messages: list[SourceMessage]) -> None:
    log.create_topic(_DATA, partitions=2)
    log.create_topic(_METADATA)
    log.create_topic(_SAMPLES)
    began = time.perf_counter()
    with log.producer(_DATA) as data, log.producer(_METADATA) as metadata:
        for message in messages:
            producer = data if message.role == "data" else metadata
            producer.send(message.value, key=message.key, headers={**message.headers, "attempt": uint8(1)})
    with log.producer(_SAMPLES) as samples:
        for name, value in sample_messages():
            samples.send(value, headers={"sample": name})
    seconds = time.perf_counter() - began
    size_bytes = sum(topic.size_bytes for topic in log.topics())
    console.print(
        f"[bold]2. The log[/] {len(messages):,} messages with typed headers sent in {seconds:.1f} s: "
        f"{len(messages) / seconds:,.0f} per second, {size_bytes / 1e6:.1f} MB"
    )
    example = next(m for m in log.poll(_DATA, 1, start="first", count=1))
    headers = ", ".join(f"{key}={value!r}" for key, value in example.headers.items())
    console.print(f"   the headers of the first message: {headers}")


def _iceberg_settings(directory: Path) -> IcebergSettings:
    import headstream.replicate.iceberg.catalog  # noqa: F401 - before anything is written, so that a missing extra is told
    from headstream.replicate.settings.iceberg_settings import IcebergSettings

    return IcebergSettings(catalog={"type": "sql", "uri": f"sqlite:///{directory.resolve() / 'catalog.db'}"})


def _run(console: Console, spark: SparkSession, directory: Path, url: str, iceberg: IcebergSettings | None) -> Summary:
    from headstream.replicate.run.pipeline import ReplicatePipeline
    from headstream.replicate.settings.config import ReplicateConfig

    config = ReplicateConfig(
        source=url,
        topics=(_DATA, _SAMPLES),
        metadata=(_METADATA,),
        tables=directory / "tables",
        checkpoint=directory / "checkpoint",
        once=True,
        iceberg=iceberg,
    )
    with console.status("applying") as status:

        def show(summary: Summary) -> None:
            status.update(f"applying: {summary.messages:,} messages read, {summary.changes:,} changes applied")

        return ReplicatePipeline(spark, config, on_progress=show).run()


def _read(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = spark.read.format("delta").load(str(path)).toArrow().to_pylist()
    return rows


def _read_iceberg(iceberg: IcebergSettings, tables: Path, schema: str, table: str) -> list[dict[str, Any]]:
    from headstream.replicate.iceberg.catalog import open_catalog

    rows: list[dict[str, Any]] = open_catalog(iceberg, tables).load_table((schema, table)).scan().to_arrow().to_pylist()
    return rows


def _compare(
    console: Console, spark: SparkSession, source: SourceDatabase, tables: Path, iceberg: IcebergSettings | None
) -> bool:
    """Print each table next to its final state in the source; return whether all tables are equal."""
    from headstream.replicate.tables.tables import table_path

    shown = Table("table", "rows", "in source", "digest", "in source", "equal", *(["Iceberg"] if iceberg else []))
    shown.columns[0].no_wrap = True
    equal = True
    with console.status("comparing"):
        for metadata in source.tables():
            schema, table = metadata.lineage.schema, metadata.lineage.table
            rows = _read(spark, table_path(tables, schema, table))
            digest, expected = digest_rows(rows, metadata.key_columns), source.digest(schema, table)
            answers = [digest == expected]
            counts = f"{len(rows):,}", f"{len(source.final_state(schema, table)):,}"
            if iceberg is not None:
                answers.append(digest_rows(_read_iceberg(iceberg, tables, schema, table), metadata.key_columns) == expected)
            equal = equal and all(answers)
            marks = ("[green]yes" if each else "[bold red]NO" for each in answers)
            shown.add_row(f"{schema}.{table}", *counts, digest[:12], expected[:12], *marks)
    console.print("[bold]4. The tables[/] compared with the final state of the source")
    console.print(shown)
    return equal


def _show_sample(console: Console, spark: SparkSession, tables: Path) -> None:
    from headstream.replicate.tables.tables import table_path

    for row in _read(spark, table_path(tables, *_SAMPLE_ROW)):
        values = {name: str(value) for name, value in row.items() if not name.startswith("_hs_")}
        console.print(f"   {'.'.join(_SAMPLE_ROW)}, from the real messages: {values}")
