"""The pipeline as a process that is killed with SIGKILL, JVM and all, at seeded moments, and started again."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import QueryBuilder

from headstream.connect import connect
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.storage.places import Place
from headstream.replicate.tables.tables import table_path
from headstream.testing import SHOP_TABLES, CaptureOptions, SourceDatabase, digest_rows, repeat, shuffle
from tests.support.killed_jobs import Job
from tests.support.replicate.plain_engine import next_strategy
from tests.support.replicate.s3_server import find_keys
from tests.support.replicate.whole_transactions import halves_in_changes

pytestmark = pytest.mark.spark


def start(directory: Path, place: Place, *options: str, checkpoint: Place | None = None) -> Job:
    command = [sys.executable, "-m", "headstream.cli", "replicate", "run", "--once", "--output", "json"]
    command += ["--source", f"file://{directory / 'log'}", "--topics", "cdc/data", "--metadata", "cdc/metadata"]
    command += ["--tables", str(place / "tables"), "--checkpoint", str(checkpoint or directory / "checkpoint")]
    command += ["--change-tables", str(place / "changes")]
    command += options if "--max-messages-per-batch" in options else ["--max-messages-per-batch", "80", *options]
    strategy = next_strategy()
    return Job([*command, *(["--merge-strategy", strategy] if strategy is not None else [])], directory)


def find_commits(place: Place) -> list[tuple[str, ...]]:
    """Return the parts below a place of each commit's path: schema, table, log, version."""
    if isinstance(place, Path):
        return [path.relative_to(place).parts for path in place.rglob("_delta_log/*.json")]
    return [tuple(key.split("/")) for key in find_keys(place) if "/_delta_log/" in key and key.endswith(".json")]


def read_table(place: Place, columns: str) -> list[dict[str, Any]]:
    table = open_table(place)
    assert table is not None, place
    found = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t")
    return list(pa.table(found).to_pylist())


def run_killed(
    directory: Path,
    seed: int,
    kills: int,
    *options: str,
    source_rows: int = 40,
    transactions: int = 150,
    place: Place | None = None,
    checkpoint: Place | None = None,
) -> SourceDatabase:
    """Kill runs at seeded moments, let the last one end, and compare its tables, in the directory or at another place."""
    place = directory if place is None else place
    source = SourceDatabase(seed, rows=source_rows, transactions=transactions)
    capture = CaptureOptions(partial_images=True, late_metadata={"SHOP.order_lines": "end"})
    messages = repeat(shuffle(source.capture(capture), seed=seed, window=400), seed=seed)
    with connect(f"file://{directory / 'log'}") as log:
        log.create_topic("cdc/data", partitions=3)
        log.create_topic("cdc/metadata")
        with log.producer("cdc/data") as data, log.producer("cdc/metadata") as metadata:
            for message in messages:
                (data if message.role == "data" else metadata).send(message.value, key=message.key, headers=message.headers)
    rng = random.Random(seed)
    for _ in range(kills):
        job = start(directory, place, *options, checkpoint=checkpoint)
        job.kill_at_work(lambda: len(find_commits(place / "tables")), rng.randint(1, 12), rng.random() * 0.1)
    summary: dict[str, Any] = json.loads(start(directory, place, *options, checkpoint=checkpoint).finish())
    assert (summary["parked"], summary["delayed"]) == (0, 0)
    names = sorted({parts[:2] for parts in find_commits(place / "changes")})
    changes = [row for name in names for row in read_table(place / "changes" / name[0] / name[1], "_hs_partition, _hs_offset")]
    places = {(row["_hs_partition"], row["_hs_offset"]) for row in changes}
    assert len(changes) == len(places) == sum(message.role == "data" for message in messages), f"each change once, seed {seed}"
    for metadata_of in source.tables():
        schema, table = metadata_of.lineage.schema, metadata_of.lineage.table
        rows = read_table(table_path(place / "tables", schema, table), "*")
        assert digest_rows(rows, metadata_of.key_columns) == source.digest(schema, table), f"{schema}.{table}, seed {seed}"
    return source


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_pipeline_equals_the_source_when_it_is_killed_and_started_again(tmp_path: Path) -> None:
    run_killed(tmp_path, 21, 5)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kills", "most", "rows"), [(1, 150, 10), pytest.param(3, 80, 40, marks=pytest.mark.nightly)])
def test_no_part_of_a_transaction_is_seen_when_the_pipeline_is_killed_and_started_again(
    tmp_path: Path, kills: int, most: int, rows: int
) -> None:
    options = ("--atomic", "--max-messages-per-batch", str(most))
    source = run_killed(tmp_path, 22, kills, *options, source_rows=rows, transactions=4 * rows)
    for table in SHOP_TABLES:
        assert halves_in_changes(table_path(tmp_path / "changes", table.schema, table.name), source, table) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_pipeline_equals_the_source_through_many_kills(tmp_path: Path, seed: int) -> None:
    run_killed(tmp_path, seed, 5, *(["--atomic"] if seed % 2 else []))
