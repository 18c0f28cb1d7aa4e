"""Pipelines whose session has Hive's metastore as its catalog, which test_catalog.py runs in a process of their own."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream.connect import connect
from headstream.replicate.codec import TableMetadata, data_message, metadata_message
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.run.status import read_status
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.replicate.tables.table_places import has_table, table_path
from headstream.spark import session, stop
from tests.support.replicate.hive_metastore import HiveMetastore
from tests.support.replicate.replicate_messages import make_change, make_table

NAMES = [
    ("SHOP", "orders"),
    ("", "loose"),
    ("SHOP", "order lines"),
    ("SHOP", "o'clock 100%"),
    ("SHOP", "taken"),
    ("SHOP", "view"),
]
KITS = [make_table(schema_id=f"{number:032d}", schema=schema, table=table) for number, (schema, table) in enumerate(NAMES)]
RULES = (
    TableRule("SHOP.order lines", {"catalog": "shop.order_lines"}),
    TableRule("SHOP.view", {"catalog": "{schema}.some_view"}),
)


class Job:
    """A log, and pipelines that read it one after the other."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.url = (directory / "log").as_uri()
        with connect(self.url) as log:
            log.create_topic("cdc/data")

    def send(self, number: int, *kits: TableMetadata) -> None:
        with connect(self.url) as log, log.producer("cdc/data") as producer:
            for kit in kits:
                producer.send(metadata_message(kit))
                producer.send(data_message(kit, make_change(number)))

    def pipeline(self, *, once: bool = True, on_progress: Callable[[Any], None] | None = None) -> ReplicatePipeline:
        rules = TableRules(defaults=TableSettings(catalog="spark_catalog.{schema}.{table}"), rules=RULES)
        config = ReplicateConfig(
            source=self.url, topics=("cdc/data",), tables=self.directory / "tables", checkpoint=self.directory / "checkpoint",
            rules=rules, once=once,
        )  # fmt: skip
        return ReplicatePipeline(self.spark, config, on_progress=on_progress)

    def run(self) -> dict[str, Any]:
        """Run a pipeline to the end of the log; return the catalog's part of its status."""
        self.pipeline().run()
        with closing(Ledger(self.directory / "checkpoint" / "ledger.sqlite", read_only=True)) as ledger:
            found: dict[str, Any] = read_status(ledger, 0)["catalog"]
        return found

    def rows(self, name: str) -> list[int]:
        return sorted(row[0] for row in self.spark.sql(f"SELECT id FROM {name}").collect())

    def kept(self, schema: str, table: str) -> int:
        """Return the number of a table's rows, without a catalog; 0 if it is not made."""
        table_directory = table_path(self.directory / "tables", schema, table)
        return int(DeltaTable(str(table_directory)).to_pyarrow_table().num_rows) if has_table(table_directory) else 0


def names(spark: SparkSession, directory: Path) -> dict[str, Any]:
    """Tables of all sorts of names; one of them is dropped from the catalog before the second run."""
    spark.sql("CREATE SCHEMA shop")
    spark.sql("CREATE TABLE shop.taken (id INT) USING parquet")
    spark.sql("CREATE VIEW shop.some_view AS SELECT 1 AS id")
    job = Job(spark, directory)
    job.send(1, *KITS)
    found: dict[str, Any] = {"first": job.run()}
    before = DeltaTable(str(table_path(directory / "tables", "SHOP", "orders"))).version()
    found["rows"] = {name: job.rows(name) for name in ("shop.orders", "default.loose", "shop.order_lines")}
    found["kept"] = {f"{schema}.{table}": job.kept(schema, table) for schema, table in NAMES}
    spark.sql("DROP TABLE shop.orders")
    found["version"] = [before, DeltaTable(str(table_path(directory / "tables", "SHOP", "orders"))).version()]
    job.send(2, KITS[1])
    found["second"] = job.run()
    found["again"] = {name: job.rows(name) for name in ("shop.orders", "default.loose")}
    rows = spark.sql("DESCRIBE TABLE EXTENDED shop.orders").collect()
    found["details"] = {row[0]: row[1] for row in rows if row[0] in ("Type", "Location")}
    return found


def away(spark: SparkSession, directory: Path, metastore: HiveMetastore) -> dict[str, Any]:
    """A pipeline that begins while the metastore is down, and goes on when it is up."""
    metastore.kill()
    job = Job(spark, directory)
    job.send(1, KITS[0])
    states: list[dict[str, Any]] = [{}]
    failed, registered = threading.Event(), threading.Event()

    def watch(_: Any) -> None:
        catalog = pipeline.status()["catalog"]
        states.append(catalog | {"rows": job.kept(*NAMES[0])})
        if catalog["failing"]:
            failed.set()
        if catalog["registered"]:
            registered.set()

    pipeline = job.pipeline(once=False, on_progress=watch)
    running = threading.Thread(target=pipeline.run)
    running.start()
    assert failed.wait(180), "no failure is in the status"
    states_before = len(states)
    metastore.start()
    job.send(2, KITS[0])
    assert registered.wait(300), states[-1]
    pipeline.stop()
    running.join()
    return {"away": states[states_before - 1], "back": states[-1], "rows": job.rows("shop.orders")}


def main(job: str, directory: Path) -> None:
    with HiveMetastore(directory / "metastore") as metastore:
        spark = session(master="local[2]", quick_start=True, config=metastore.settings)
        try:
            found = names(spark, directory) if job == "names" else away(spark, directory, metastore)
        finally:
            stop(spark)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
