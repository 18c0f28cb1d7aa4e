"""The pipeline as a process that is killed with SIGKILL, JVM and all, at seeded moments, and started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from headstream.connect import connect
from headstream.spark.replicate.tables import table_path
from headstream.testing import CaptureOptions, SourceDatabase, digest_rows, repeat, shuffle

pytestmark = pytest.mark.spark


def start(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headstream.cli", "replicate", "run", "--once", "--output", "json"]
    command += ["--source", f"file://{directory / 'log'}", "--topics", "cdc/data", "--metadata", "cdc/metadata"]
    command += ["--tables", str(directory / "tables"), "--checkpoint", str(directory / "checkpoint")]
    command += ["--change-tables", str(directory / "changes")]
    command += ["--max-messages-per-batch", "150"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def kill_during_work(directory: Path, rng: random.Random) -> int:
    """Start the pipeline, let it make a seeded number of commits to its tables, and kill it a moment later; return how many."""
    process = start(directory)
    wanted = rng.randint(1, 12)
    present = count_commits(directory)
    deadline = time.monotonic() + 180
    while process.poll() is None and time.monotonic() < deadline and count_commits(directory) - present < wanted:
        time.sleep(0.02)
    time.sleep(rng.random() * 0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return count_commits(directory) - present


def count_commits(directory: Path) -> int:
    return sum(1 for _ in (directory / "tables").rglob("_delta_log/*.json"))


def read_table(path: Path, columns: str) -> list[dict[str, Any]]:
    found = QueryBuilder().register("t", DeltaTable(str(path))).execute(f"SELECT {columns} FROM t")
    return list(pa.table(found).to_pylist())


def run_killed(directory: Path, seed: int, kills: int) -> None:
    source = SourceDatabase(seed, rows=40, transactions=150)
    options = CaptureOptions(partial_images=True, late_metadata={"SHOP.order_lines": "end"})
    messages = repeat(shuffle(source.capture(options), seed=seed, window=400), seed=seed)
    with connect(f"file://{directory / 'log'}") as log:
        log.create_topic("cdc/data", partitions=3)
        log.create_topic("cdc/metadata")
        with log.producer("cdc/data") as data, log.producer("cdc/metadata") as metadata:
            for message in messages:
                (data if message.role == "data" else metadata).send(message.value, key=message.key, headers=message.headers)
    rng = random.Random(seed)
    killed = [kill_during_work(directory, rng) for _ in range(kills)]
    assert any(killed), "no kill hit a run at work"
    last = start(directory)
    output, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors.decode()
    summary: dict[str, Any] = json.loads(output)
    assert (summary["parked"], summary["delayed"]) == (0, 0)
    changes = [row for place in (directory / "changes").glob("*/*") for row in read_table(place, "_hs_partition, _hs_offset")]
    places = {(row["_hs_partition"], row["_hs_offset"]) for row in changes}
    assert len(changes) == len(places) == sum(message.role == "data" for message in messages), f"each change once, seed {seed}"
    for metadata_of in source.tables():
        schema, table = metadata_of.lineage.schema, metadata_of.lineage.table
        rows = read_table(table_path(directory / "tables", schema, table), "*")
        assert digest_rows(rows, metadata_of.key_columns) == source.digest(schema, table), f"{schema}.{table}, seed {seed}"


def test_pipeline_equals_the_source_when_it_is_killed_and_started_again(tmp_path: Path) -> None:
    run_killed(tmp_path, seed=21, kills=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_pipeline_equals_the_source_through_many_kills(tmp_path: Path, seed: int) -> None:
    run_killed(tmp_path, seed=seed, kills=5)
