"""Comparing a table of PostgreSQL with its Delta table, equal and with three rows that differ; results in results/compare.txt.

bytes    between PostgreSQL and Spark, counted by a proxy
memory   most resident memory of Spark's process, which has its driver and its tasks

    python -m bench.replicate_compare [--quick]
"""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from bench.machine import Report, run_benchmark
from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata
from headstream.replicate.compare.comparison import CompareSettings, TableResult
from headstream.replicate.compare.source_database import JdbcAccess
from headstream.replicate.compare.tables import compare_tables
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.settings.table_settings import TableRules
from headstream.replicate.tables.table_memory import TableMemory
from headstream.replicate.tables.tables import TABLES_NAME
from headstream.spark import session, stop
from headstream.testing import PostgresServer

ROWS: Final = 10_000_000
COLUMNS: Final = (
    ColumnMetadata("id", 1, "INT8", 0, 0, 0, 1),
    ColumnMetadata("customer", 2, "INT4", 0, 0, 0, 0),
    ColumnMetadata("total", 3, "NUMERIC", 0, 18, 2, 0),
    ColumnMetadata("note", 4, "WSTRING", 60, 0, 0, 0),
    ColumnMetadata("changed", 5, "DATETIME", 0, 0, 0, 0),
)
_CREATE: Final = """
CREATE TABLE orders AS SELECT g AS id, (g * 7919 % 100000)::int AS customer, (g % 1000000)::numeric(18,2) / 4 AS total,
    'order ' || g AS note, timestamp '2026-01-01' + g * interval '1 second' AS changed FROM generate_series(1, {rows}::bigint) g;
ALTER TABLE orders ADD PRIMARY KEY (id), ALTER total TYPE numeric(18,2);
"""


_DATA_SCHEMA: Final = '{"type": "record", "name": "Data", "fields": []}'


class Proxy:
    """Forwards connections to a port of this machine, and counts the bytes that come back."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.received = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._forward, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        try:
            while data := source.recv(1 << 18):
                self.received += len(data) if counts else 0
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()


def main() -> None:
    """Run the benchmark."""
    with run_benchmark("compare", __doc__, "a hundredth of the rows") as (report, directory, quick):
        rows = ROWS // 100 if quick else ROWS
        spark = session("bench", config={"spark.driver.memory": "4g"}, with_jars=["postgresql"])
        try:
            with PostgresServer() as server:
                server.execute(_CREATE.format(rows=rows))
                make_tables(spark, directory, rows)
                run(report, spark, server, directory, rows)
        finally:
            stop(spark)


def make_tables(spark: SparkSession, directory: Path, rows: int) -> None:
    """Make the Delta table, and a checkpoint that knows its schema."""
    g = sf.col("id")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = spark.range(1, rows + 1, numPartitions=8).select(
        g,
        (g * 7919 % 100_000).cast("int").alias("customer"),
        ((g % 1_000_000).cast("decimal(18,2)") / 4).cast("decimal(18,2)").alias("total"),
        sf.concat(sf.lit("order "), g.cast("string")).alias("note"),
        sf.timestamp_micros((sf.lit(1_767_225_600) + g) * 1_000_000).alias("changed"),
        sf.lit("20260131000000000000000000000000001").alias("_hs_sequence"),
        sf.lit(None).cast("string").alias("_hs_versions"),
    )
    table.write.format("delta").save(str(directory / "tables" / "public" / "orders"))
    Ledger(directory / "checkpoint" / "ledger.sqlite").close()
    TableMemory(directory / "checkpoint" / TABLES_NAME).close()
    metadata = TableMetadata("0" * 32, Lineage("server", "task", "public", "orders", 1, ""), COLUMNS, _DATA_SCHEMA)
    SchemaStore(directory / "checkpoint" / "zone").add(StoredSchema(metadata, 1, "t", 0, 0))


def run(report: Report, spark: SparkSession, server: PostgresServer, directory: Path, rows: int) -> None:
    """Compare, equal and with differences."""
    proxy = Proxy(server.port)
    url = server.url.replace(f":{server.port}/", f":{proxy.port}/")
    report.line(f"{rows:,} rows of {len(COLUMNS)} columns, 4 connections; Delta table {_megabytes(directory / 'tables'):,.0f} MB")
    report.line("")
    report.line("                     seconds   bytes from the source   rows read there   memory   result")
    for name in ("equal", "three differ"):
        if name != "equal":
            server.execute(
                f"UPDATE orders SET note = 'x' WHERE id IN (7, {rows // 2}); DELETE FROM orders WHERE id = {rows // 3}"
            )
        proxy.received, began = 0, time.perf_counter()
        settings = CompareSettings(capture_lag_us=0, wait_us=0)
        (found,) = compare_tables(
            spark, JdbcAccess.parse(url), directory / "tables", TableRules(), lambda: directory / "checkpoint", settings=settings
        )  # fmt: skip
        seconds, result = time.perf_counter() - began, found.result
        report.line(
            f"{name:20} {seconds:7.1f} {proxy.received / 1e6:16,.0f} MB {result.source_reads:19,} "
            f"{_java_megabytes():7,.0f} MB   {_describe(result)}"
        )


def _describe(result: TableResult) -> str:
    return result.error or ("equal" if result.is_equal else f"{len(result.differences)} rows differ")


def _megabytes(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*.parquet")) / 1e6


def _java_megabytes() -> float:
    """Return the most resident memory that Spark's process has had."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    pid = gateway.jvm.java.lang.ProcessHandle.current().pid()
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) / 1e3 if found else 0


if __name__ == "__main__":
    main()
