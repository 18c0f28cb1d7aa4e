"""`headstream demo --postgres`: Debezium sends the changes of a PostgreSQL database, which are applied to Delta tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table

from headstream.connect import connect
from headstream.testing import DebeziumEngine, LocalServer, PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headstream.replicate.run.summary import Summary

_TABLES: Final = ("customers", "orders")
_TOPICS: Final = tuple(f"shop/public.{table}" for table in _TABLES)
_SETUP: Final = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, feels mood, born date, portrait bytea);
CREATE TABLE orders (customer int, number int, total numeric(12,2), placed timestamptz, details jsonb, note text,
  PRIMARY KEY (customer, number));
ALTER TABLE customers ALTER portrait SET STORAGE EXTERNAL;
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
INSERT INTO customers SELECT n, 'customer ' || n, 'ok', date '1970-01-01' + n,
  decode(repeat(md5(n::text), 200), 'hex') FROM generate_series(1, 200) n;
INSERT INTO orders SELECT c, n, c + n / 100.0, timestamptz '2026-01-01' + n * interval '1 hour 1 microsecond',
  jsonb_build_object('state', 'new'), repeat(md5(n::text), 200) FROM generate_series(1, 200) c, generate_series(1, 5) n;
"""
_STEPS: Final = {
    "updates that do not touch the large columns: PostgreSQL does not send unchanged large columns": """
UPDATE customers SET feels = 'happy' WHERE id % 3 = 0;
UPDATE orders SET total = total + 0.01, details = details || '{"state": "changed"}' WHERE number < 3;
""",
    "changed keys, two of them swapped in a transaction; deletions": """
BEGIN;
UPDATE customers SET id = -1 WHERE id = 1;
UPDATE customers SET id = 1 WHERE id = 2;
UPDATE customers SET id = 2 WHERE id = -1;
COMMIT;
UPDATE orders SET customer = customer + 1000 WHERE number = 4;
DELETE FROM orders WHERE number = 5 AND customer % 2 = 0;
""",
    "a changed schema: one column added, one dropped, one widened": """
ALTER TABLE customers ADD COLUMN score double precision, DROP COLUMN born;
ALTER TABLE orders ALTER number TYPE bigint;
UPDATE customers SET score = id / 7.0 WHERE id % 5 = 0;
INSERT INTO orders VALUES (1, 3000000000, 1.50, '2026-02-01', '{}', NULL);
""",
}
_SAMPLE: Final = "SELECT id, name, feels, score, length(portrait) AS portrait_bytes FROM {} WHERE id = 15"


def run_postgres_demo(console: Console) -> None:
    """Run the demo, print the Delta tables next to PostgreSQL's tables, and remove all files.

    Raises:
        EnvironmentSetupError: PostgreSQL or Java is missing; the message names the package to install.
        ClickException: a table differs.
    """
    settings = {"wal_level": "logical"}
    with tempfile.TemporaryDirectory(prefix="headstream-demo-") as name, PostgresServer(settings=settings) as source:
        directory = Path(name)
        console.print(f"[bold]1. The source[/] a PostgreSQL server in a temporary directory, port {source.port}")
        source.execute(_SETUP)
        with LocalServer(directory / "log", kafka=True) as server:
            with connect(server.url) as log:
                for topic in (*_TOPICS, "shop/transaction"):
                    log.create_topic(topic, partitions=2, limits="wide")
            _change(console, source, server)
            _apply(console, directory, source, server)


def _change(console: Console, source: PostgresServer, server: LocalServer) -> None:
    """Change the source, so that Debezium sends a snapshot and some changes."""
    console.print(f"[bold]2. Debezium[/] sends the changes to Headstream's Kafka listener, port {server.kafka_address[1]}")
    with DebeziumEngine(source, server.kafka_address, start_seconds=180) as engine:
        with console.status("a snapshot of both tables (the first run downloads Debezium's jars)"):
            engine.flush()
        console.print("   a snapshot of both tables")
        for title, sql in _STEPS.items():
            source.execute(sql)
            console.print(f"   {title}")
        engine.flush()


def _apply(console: Console, directory: Path, source: PostgresServer, server: LocalServer) -> None:
    from headstream.spark.sessions.session import session, stop

    console.print("[bold]3. The pipeline[/] headstream replicate run --format debezium")
    with console.status("starting Spark"):
        spark = session("headstream-demo", master="local[2]", quick_start=True, with_jars=["postgresql"])
    try:
        with console.status("applying"):
            summary = _run(spark, directory, server.url)
        console.print(f"   {summary.messages:,} messages read, {summary.changes:,} changes applied in {summary.seconds:.1f} s")
        with console.status("comparing"):
            is_equal = _compare(console, spark, directory, source)
    finally:
        stop(spark)
    if not is_equal:
        raise click.ClickException("a Delta table differs from its PostgreSQL table")
    console.print("\nThe servers were stopped, and their directories were removed.")


def _run(spark: SparkSession, directory: Path, url: str) -> Summary:
    from headstream.replicate.run.pipeline import ReplicatePipeline
    from headstream.replicate.settings.config import ReplicateConfig
    from headstream.replicate.settings.debezium_settings import DebeziumSettings

    config = ReplicateConfig(
        source=url,
        topics=_TOPICS,
        debezium=DebeziumSettings(),
        tables=directory / "tables",
        checkpoint=directory / "checkpoint",
        once=True,
    )
    return ReplicatePipeline(spark, config).run()


def _compare(console: Console, spark: SparkSession, directory: Path, source: PostgresServer) -> bool:
    """Compare each table with PostgreSQL's table, as `replicate compare` does; print and return whether all are equal."""
    from headstream.replicate.compare.source_database import JdbcAccess
    from headstream.replicate.compare.tables import compare_tables
    from headstream.replicate.settings.table_settings import TableRules

    access, shown, is_equal = JdbcAccess.parse(source.url), Table("table", "rows", "in PostgreSQL", "compare"), True
    checkpoint = directory / "checkpoint"
    for compared in compare_tables(spark, access, directory / "tables", TableRules(), lambda: checkpoint):
        result = compared.result
        is_equal = is_equal and result.is_equal
        verdict = "[green]equal" if result.is_equal else f"[bold red]{result.error or f'{len(result.differences)} rows differ'}"
        shown.add_row(result.table, f"{result.rows[1]:,}", f"{result.rows[0]:,}", verdict)
    console.print("[bold]4. The tables[/] headstream replicate compare")
    console.print(shown)
    (row,) = spark.sql(_SAMPLE.format(f"delta.`{directory / 'tables' / 'public' / 'customers'}`")).toArrow().to_pylist()
    console.print(f"   a row whose large column was in no update: {'|'.join(map(str, row.values()))}")
    console.print(f"   the same row in PostgreSQL:              {source.execute(_SAMPLE.format('customers')).strip()}")
    return is_equal
