"""`headstream replicate run` as a process: what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from headstream.connect import connect
from headstream.testing import SHOP_TABLES, CaptureOptions, SourceDatabase
from tests.support.cli_inputs import COMMAND, environment, run_program

pytestmark = pytest.mark.spark

VARIABLES = {"SPARK_MASTER": "local[2]"}


def fill(url: str, *, without: str | None = None) -> SourceDatabase:
    """Put a small source's messages into a log; the metadata of one table may be missing."""
    source = SourceDatabase(3, tables=SHOP_TABLES[:2], rows=20, transactions=30)
    with connect(url) as log:
        log.create_topic("cdc/data", partitions=2)
        log.create_topic("cdc/metadata")
        with log.producer("cdc/data") as data, log.producer("cdc/metadata") as metadata:
            for message in source.capture(CaptureOptions()):
                if message.role == "data":
                    data.send(message.value, key=message.key, headers=message.headers)
                elif message.table != without:
                    metadata.send(message.value, key=message.key, headers=message.headers)
    return source


def arguments(directory: Path, url: str) -> list[str]:
    names = ["--topics", "cdc/data", "--metadata", "cdc/metadata", "--schema-wait", "5m", "--output", "json"]
    places = ["--source", url, "--tables", str(directory / "tables"), "--checkpoint", str(directory / "checkpoint")]
    return ["replicate", "run", *names, *places]


@pytest.mark.nightly
def test_replicate_run_once_prints_its_summary_and_ends_with_0_although_something_waits(tmp_path: Path, url: str) -> None:
    source = fill(url, without="SHOP.orders")
    ran = run_program(*arguments(tmp_path, url), "--once", variables=VARIABLES)
    summary = json.loads(ran.stdout)
    tables = {f"{table.lineage.schema}.{table.lineage.table}" for table in source.tables()}
    assert set(summary["tables"]) == tables - {"SHOP.orders"}
    assert summary["parked"] > 0
    assert summary["changes"] + summary["parked"] <= summary["messages"]
    counts = summary["tables"]["SHOP.customers"]
    assert counts["inserted"] - counts["deleted"] == len(source.final_state("SHOP", "customers"))


def test_replicate_run_ends_in_good_order_by_ctrl_c(tmp_path: Path, url: str) -> None:
    fill(url)
    command = [*COMMAND, *arguments(tmp_path, url)]
    tables = tmp_path / "tables" / "SHOP" / "customers" / "_delta_log"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**VARIABLES)) as running:
        try:
            deadline = time.monotonic() + 300
            while not tables.exists() and running.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=250)
        finally:
            running.kill()
    assert running.returncode == 0, err
    assert json.loads(out)["batches"] >= 1
    assert b"Traceback" not in err, err


def test_replicate_run_names_a_missing_topic_before_spark_starts(tmp_path: Path, url: str) -> None:
    failed = run_program(*arguments(tmp_path, url), variables=VARIABLES, code=1)
    assert b"there is no topic 'cdc/metadata'" in failed.stderr
    assert b"WARNING" not in failed.stderr  # Java's own, from its start
    assert not (tmp_path / "checkpoint").exists()
