"""Pipelines whose tables Spark writes in Azure's or Google's storage, for test_store_spark.py.

python -m tests.integration.replicate.store_spark_jobs KIND DIRECTORY [long]
"""

from __future__ import annotations

import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headstream.connect import connect
from headstream.errors import EnvironmentSetupError
from headstream.replicate.codec import ColumnMetadata, TableMetadata, data_message, metadata_message
from headstream.replicate.engines.spark_store import configure_store, require_store
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.replicate.storage.places import StorePlace
from headstream.spark import session, stop
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.replicate.store_servers import SERVERS

PLAIN = make_table(schema="SHOP", table="orders")
MAPPED = make_table(
    ColumnMetadata("id", 1, "INT4", primary_key_position=1),
    ColumnMetadata("full name", 2, "WSTRING", 20),
    schema_id="2" * 32,
    schema="SHOP",
    table="order lines",
)
NAMES = {"SHOP.orders": "shop.orders", "SHOP.order lines": "shop.order_lines"}
WRITERS = 8
OTHERS = {"azure": StorePlace("other", scheme="gs"), "google": StorePlace("other@acme1.dfs.core.windows.net", scheme="abfss")}
"""Places of stores for which the session has no jars."""


def main(kind: str, directory: Path, *, is_long: bool) -> None:
    """Run two pipelines, read the tables by name, and let several writers commit at once.

    Args:
        kind: One of SERVERS.
        directory: For the log, the checkpoint and what is found.
        is_long: Whether executors are processes, and there are a second table, change tables and more commits.
    """
    kits = [MAPPED, PLAIN] if is_long else [MAPPED]
    url = (directory / "log").as_uri()
    with SERVERS[kind](directory) as server:
        place = server.place("lake")
        master = "local-cluster[1,2,1024]" if is_long else "local[2]"
        spark = session(master=master, config={"spark.ui.enabled": "true"}, with_jars=[str(place.access.jars)])
        try:
            spark.sql("CREATE SCHEMA shop")
            found: dict[str, Any] = {"summaries": []}
            for part in (0, 1):
                send(url, part, kits)
                found["summaries"].append(run(spark, directory, url, place, is_long=is_long))
            names = [NAMES[f"SHOP.{kit.lineage.table}"] for kit in kits]
            found["rows"] = [sorted(row[:2] for row in spark.table(name).collect()) for name in names]
            found["made"] = race(spark, place, 20 if is_long else 1)
            found["refused"] = refused(spark, place)
            found["lacking"] = lacking(spark, OTHERS[kind])
            rest = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
            pages = ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true&length=1000")
            found["pages"] = [read(f"{rest}/{page}") for page in pages]
        finally:
            stop(spark)
        (directory / "found.json").write_text(json.dumps(found))


def send(url: str, part: int, kits: list[TableMetadata]) -> None:
    """Send the changes of each table: first rows 1 to 3; then an update, a deletion and row 4."""
    later = [(1, "UPDATE", 11), (2, "DELETE", 12), (4, "INSERT", 13)]
    with connect(url) as log:
        if part == 0:
            log.create_topic("cdc/data")
        with log.producer("cdc/data") as producer:
            for kit in kits:
                producer.send(metadata_message(kit))
                for number, operation, sequence in later if part else [(n, "INSERT", n) for n in (1, 2, 3)]:
                    change = make_change(number, operation, change_sequence=f"{sequence:035d}")
                    change = replace(change, data={"id": number, kit.columns[1].name: f"{operation.lower()}{number}"})
                    producer.send(data_message(kit, change))


def run(spark: SparkSession, directory: Path, url: str, place: StorePlace, *, is_long: bool) -> dict[str, Any]:
    """Run a pipeline to the end of the log, and return its summary."""
    rules = TableRules(
        defaults=TableSettings(engine="spark", catalog="spark_catalog.{schema}.{table}"),
        rules=(TableRule("SHOP.order lines", {"catalog": "spark_catalog.shop.order_lines"}),),
    )
    config = ReplicateConfig(
        source=url, topics=("cdc/data",), tables=place / "tables", change_tables=place / "changes" if is_long else None,
        checkpoint=directory / "checkpoint", once=True, storage=place.storage, rules=rules,
    )  # fmt: skip
    return dict(ReplicatePipeline(spark, config).run().to_dict())


def race(spark: SparkSession, place: StorePlace, commits: int) -> list[int]:
    """Return how many of several writers make each commit, by Delta's own class for logs of this store."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext
    assert jvm is not None
    hadoop = context._jsc.hadoopConfiguration()
    store = jvm.org.apache.spark.sql.delta.storage.LogStore.apply(spark._jsparkSession)
    log = jvm.org.apache.hadoop.fs.Path(f"{place.hadoop_uri}/race/_delta_log")
    log.getFileSystem(hadoop).mkdirs(log)

    def write(number: int, commit: int) -> bool:
        line = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.List.of(f"{number}").iterator())
        try:
            store.write(jvm.org.apache.hadoop.fs.Path(log, f"{commit:020d}.json"), line, False, hadoop)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in str(error.java_exception):
                raise
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as threads:
        return [sum(threads.map(lambda number, at=commit: write(number, at), range(WRITERS))) for commit in range(commits)]


def refused(spark: SparkSession, place: StorePlace) -> str:
    """Return Spark's error for a table in a bucket that does not exist."""
    try:
        spark.read.format("delta").load(place.hadoop_uri.replace("//lake", "//nowhere")).collect()
    except (Py4JJavaError, PySparkException) as error:
        return str(error)[:2000]
    return ""


def lacking(spark: SparkSession, place: StorePlace) -> str:
    """Return the error for a store without jars; there is none once the session has a file system of its own."""
    configure_store(spark, place)
    try:
        require_store(spark, place, "Spark merges the tables")
    except EnvironmentSetupError as error:
        own = "org.apache.hadoop.fs.RawLocalFileSystem"
        spark.sparkContext._jsc.hadoopConfiguration().set(f"fs.{place.scheme}.impl", own)
        configure_store(spark, place)
        require_store(spark, place, "Spark merges the tables")
        return str(error)
    return ""


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode(errors="replace"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), is_long="long" in sys.argv[3:])
