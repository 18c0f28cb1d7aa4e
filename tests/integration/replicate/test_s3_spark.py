"""Tables in an object store that Spark's executors write through s3a, and a store that refuses all requests for a while."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headstream.connect import connect
from headstream.replicate.tables.tables import table_path
from headstream.testing import SHOP_TABLES, SourceDatabase, digest_rows
from headstream.testing.source_capture import SourceMessage
from tests.integration.replicate.test_kill import read_table
from tests.support.killed_jobs import Job
from tests.support.replicate.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

TABLES = ("SHOP.customers", "SHOP.order_lines")
WRITTEN_BY_TASKS = "/part-"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with S3Server() as running:
        variables = running.variables | {
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_SCALA_VERSION": "2.13",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_MASTER": "local-cluster[2,1,1024]",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield running


class Pipeline:
    """A pipeline of two tables into a store; each run is a process with executors of its own."""

    def __init__(self, server: S3Server, directory: Path, retry: str) -> None:
        self._directory = directory
        self._place = server.place(directory.name)
        self._source = SourceDatabase(
            12, tables=[t for t in SHOP_TABLES if t.qualified_name in TABLES], rows=60, transactions=60, key_changes=False
        )
        self.messages = list(self._source.capture())
        url = (directory / "log").as_uri()
        with connect(url) as log:
            log.create_topic("cdc/data", partitions=2)
            log.create_topic("cdc/metadata")
        self._config = directory / "pipeline.toml"
        self._config.write_text(f"""
source = "{url}"
topics = ["cdc/data"]
metadata = ["cdc/metadata"]
tables = "{self._place}/tables"
checkpoint = "{directory}/checkpoint"
[storage]
retry = "{retry}"
[defaults]
engine = "spark"
""")

    def send(self, messages: list[SourceMessage]) -> None:
        url = (self._directory / "log").as_uri()
        with connect(url) as log, log.producer("cdc/data") as data, log.producer("cdc/metadata") as metadata:
            for message in messages:
                (data if message.role == "data" else metadata).send(message.value, key=message.key, headers=message.headers)

    def run(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "headstream.cli", "replicate", "run", "--config", str(self._config)]
        summary: dict[str, Any] = json.loads(Job([*command, "--once", "--output", "json"], self._directory).finish())
        return summary

    def assert_equal(self) -> None:
        for metadata in self._source.tables():
            schema, table = metadata.lineage.schema, metadata.lineage.table
            rows = read_table(table_path(self._place / "tables", schema, table), "*")
            assert digest_rows(rows, metadata.key_columns) == self._source.digest(schema, table), f"{schema}.{table}"


@pytest.mark.nightly
def test_spark_waits_for_a_store_that_refuses_all_requests_for_a_moment(server: S3Server, tmp_path: Path) -> None:
    pipeline = Pipeline(server, tmp_path, retry="60s")
    pipeline.send(pipeline.messages)
    server.plan_outage(3, WRITTEN_BY_TASKS)
    summary = pipeline.run()
    assert server.refused_count() > 1
    assert (summary["failing"], summary["parked"]) == ({}, 0)
    pipeline.assert_equal()


@pytest.mark.nightly
def test_tables_fail_when_a_store_refuses_requests_for_longer_than_spark_retries_them(server: S3Server, tmp_path: Path) -> None:
    """Hadoop's own defaults would retry for days; the changes wait in the checkpoint, and are applied once by the next run."""
    pipeline = Pipeline(server, tmp_path, retry="1s")
    half = len(pipeline.messages) // 2
    pipeline.send(pipeline.messages[:half])
    assert pipeline.run()["failing"] == {}
    pipeline.send(pipeline.messages[half:])
    server.plan_outage(100_000, WRITTEN_BY_TASKS)
    summary = pipeline.run()
    assert summary["failing"].keys() == set(TABLES)
    assert summary["parked"] > 0
    server.recover()
    summary = pipeline.run()
    assert (summary["failing"], summary["parked"], summary["dead"]) == ({}, 0, 0)
    pipeline.assert_equal()
