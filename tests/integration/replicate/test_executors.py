"""Tables that executors of a real cluster fold and merge: they equal the source, and the driver gets no rows of them."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from deltalake import DeltaTable

from headstream.connect import connect
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC
from headstream.replicate.storage.places import Place
from headstream.testing import SHOP_TABLES, CaptureOptions, SourceDatabase, digest_rows, repeat, shuffle
from headstream.testing.source_capture import SourceMessage
from tests.integration.replicate import executor_pipeline
from tests.integration.replicate.test_kill import read_table
from tests.support.replicate.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ROWS = 200


class Cluster:
    """A pipeline on a cluster, in a process group of its own."""

    def __init__(self, directory: Path, *how: str) -> None:
        home = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
        self._errors = directory / "errors.txt"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(executor_pipeline.__file__), str(directory), *how],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **home},
                cwd=directory,
                start_new_session=True,
            )

    def run(self, where: str = "") -> dict[str, Any]:
        """Apply all that is in the log; return the summary. `driver` merges into tables of its own, in the driver."""
        line = self._ask(where)
        assert line, self._errors.read_text(errors="replace")[-4000:]
        found: dict[str, Any] = json.loads(line)
        return found

    def run_or_fail(self) -> dict[str, Any] | None:
        """The same; return None if the run has ended with an error."""
        line = self._ask()
        return json.loads(line) if line else None

    def run_and_die(self) -> None:
        """The same in a process that kills itself before the end."""
        assert self._ask() == b""
        assert self._process.wait(60) == -signal.SIGKILL

    def _ask(self, where: str = "") -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(where.encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def cluster(directory: Path, *how: str) -> Iterator[Cluster]:
    opened = Cluster(directory, *how)
    try:
        yield opened
    finally:
        opened.close()


class Log:
    """The log of a source of two tables, without changes of keys, and what is to be sent."""

    def __init__(self, directory: Path, transactions: int, rows: int = ROWS) -> None:
        self.directory = directory
        tables = [table for table in SHOP_TABLES if table.qualified_name in executor_pipeline.TABLES]
        self.source = SourceDatabase(11, tables=tables, rows=rows, transactions=transactions, key_changes=False)
        messages = list(self.source.capture())
        self.metadata = [message for message in messages if message.role == "metadata"]
        data = [message for message in messages if message.role == "data"]
        self.loads, self.changes = data[: 2 * rows], data[2 * rows :]
        self.url = (directory / "log").as_uri()
        with connect(self.url) as log:
            log.create_topic("cdc/data", partitions=3)
            log.create_topic("cdc/metadata")

    def send(self, messages: Iterable[SourceMessage]) -> int:
        count = 0
        with connect(self.url) as log, log.producer("cdc/data") as data, log.producer("cdc/metadata") as metadata:
            for message in messages:
                (data if message.role == "data" else metadata).send(message.value, key=message.key, headers=message.headers)
                count += 1
        return count

    def send_values(self, *values: bytes) -> None:
        with connect(self.url) as log, log.producer("cdc/data") as producer:
            for value in values:
                producer.send(value)

    def dead(self) -> list[bytes | None]:
        with connect((self.directory / "checkpoint" / "log").as_uri()) as log:
            return [message.payload for message in log.poll(DEAD_LETTER_TOPIC, 1, start="first", count=1000)]

    def assert_equal(self, place: Place | None = None) -> None:
        for metadata in self.source.tables():
            schema, table = metadata.lineage.schema, metadata.lineage.table
            rows = read_table((self.directory if place is None else place) / "tables" / schema / table, "*")
            rows = [row for row in rows if row.get("_hs_current", True) and not row.get("_hs_deleted")]
            assert digest_rows(rows, metadata.key_columns) == self.source.digest(schema, table), f"{schema}.{table}"


@pytest.mark.nightly
def test_executors_fold_what_a_source_sends_and_the_driver_gets_only_what_needs_it(tmp_path: Path) -> None:
    """A full load; then changes out of order, repeated, of two structures, with rows of the load that are late and bad messages;
    then changes of which some leave columns out, sent again: the driver gets keys of changes older than their rows'; then a
    function of the executors fails: their log names the messages."""
    log = Log(tmp_path, transactions=150)
    bad = (b"no envelope", log.changes[0].value[:-7])
    with cluster(tmp_path) as pipeline:
        log.send([*log.metadata, *log.loads[60:]])
        summary = pipeline.run()
        assert (summary["changes"], summary["rows_in_driver"]) == (2 * ROWS - 60, 0)

        mixed = repeat(shuffle([*log.changes, *log.loads[:60]], seed=3), seed=3, fraction=0.2)
        count = log.send(mixed)
        log.send_values(*bad)
        summary = pipeline.run()
        assert (summary["changes"], summary["rows_in_driver"], summary["dead"]) == (count, 0, len(bad))
        assert sorted(payload or b"" for payload in log.dead()) == sorted(bad)
        log.assert_equal()

        partial = list(log.source.capture(CaptureOptions(partial_images=True)))[-120:]
        count = log.send(message for message in partial if message.role == "data")
        summary = pipeline.run()
        assert summary["changes"] == count
        assert 0 < summary["rows_in_driver"] <= count
        log.assert_equal()

        count = log.send(shuffle(log.changes, seed=4))
        summary = pipeline.run("fail")  # the tables wait, and are merged in the driver before the run ends
        assert (summary["failing"], summary["parked"], summary["rows_in_driver"]) == ({}, 0, count)
        log.assert_equal()
        errors = executor_errors(summary["application"])
    for table in executor_pipeline.TABLES:
        assert re.search(rf"while joining changes of {table}, bucket 0: cdc/data partition 1, offsets \d+ to \d+\n", errors)


def executor_errors(application: str) -> str:
    """Return what the executors of a standalone cluster have logged."""
    return "".join(path.read_text() for path in (Path(pyspark.__file__).parent / "work" / application).glob("*/stderr"))


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        pytest.param([], ROWS, marks=pytest.mark.nightly),
        pytest.param(["soft"], ROWS, marks=pytest.mark.soak),
        pytest.param(["lose-executor"], ROWS, marks=pytest.mark.nightly),
        (["lose-executor", "one-executor"], 30),
    ],
)
def test_executors_join_partial_images_to_stored_rows(tmp_path: Path, how: list[str], rows: int) -> None:
    log = Log(tmp_path, transactions=min(rows, 150), rows=rows)
    half = len(log.changes) // 2
    partial = [m for m in log.source.capture(CaptureOptions(partial_images=True)) if m.role == "data"][2 * rows :]
    assert len(partial) == len(log.changes)
    with cluster(tmp_path, *how) as pipeline:
        log.send([*log.metadata, *log.loads, *log.changes[:half]])
        pipeline.run()
        count = log.send(shuffle(partial[half:], seed=3, window=10))
        summary = pipeline.run()
        assert (summary["changes"], summary["parked"], summary["failing"]) == (count, 0, {})
        assert summary["rows_in_driver"] < count // 4
    log.assert_equal()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with S3Server() as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.parametrize(
    "how",
    [
        pytest.param([], marks=pytest.mark.nightly),
        *(pytest.param(how, marks=pytest.mark.soak) for how in (["soft", "lose-executor"], ["s3"])),
    ],
)
def test_executors_extend_histories_append_changes_and_find_whole_transactions(
    tmp_path: Path, server: S3Server, how: list[str]
) -> None:
    """Type 2, change tables and atomic: as the driver writes them, and each change once; it gets parts of transactions."""
    log = Log(tmp_path, transactions=150)
    mixed = repeat(shuffle(log.changes, seed=3, window=30), seed=3, fraction=0.1)
    half = len(mixed) // 2
    with cluster(tmp_path, "history", *how) as pipeline:
        count = log.send([*log.metadata, *log.loads, *mixed[:half]]) - len(log.metadata)
        summary = pipeline.run()
        assert (summary["changes"] + summary["parked"], summary["rows_in_driver"], summary["failing"]) == (count, 0, {})
        assert 0 < summary["parked"] < 40
        for table in ("customers", "order_lines") if "s3" not in how else ():
            commits = DeltaTable(str(tmp_path / "tables" / "SHOP" / table)).history()
            operations = [commit["operation"] for commit in reversed(commits) if commit["operation"] != "SET TBLPROPERTIES"]
            assert operations[:2] == ["CREATE TABLE", "WRITE"], "the first changes are appended"
        more = log.send(mixed[half:])
        again = pipeline.run()
        assert (summary["changes"] + again["changes"], again["parked"], again["failing"]) == (count + more, 0, {})
        assert again["rows_in_driver"] <= summary["parked"] + 40
        pipeline.run("driver")
    place: Place = server.place(tmp_path.name) if "s3" in how else tmp_path
    for kind, table in itertools.product(("tables", "changes"), ("customers", "order_lines")):
        own, drivers = (sorted(map(repr, read_table(one / kind / "SHOP" / table, "*"))) for one in (place, tmp_path / "driver"))
        assert own == drivers, (kind, table)
    assert sum(_count(place / "changes" / "SHOP" / table) for table in ("customers", "order_lines")) == count + more
    log.assert_equal(tmp_path / "driver")


def _count(path: Place) -> int:
    places = [tuple(row.values()) for row in read_table(path, "_hs_topic, _hs_partition, _hs_offset")]
    assert len(set(places)) == len(places)
    return len(places)


@pytest.mark.nightly
def test_few_changes_of_small_tables_are_merged_in_the_driver_and_many_by_spark(tmp_path: Path) -> None:
    log = Log(tmp_path, transactions=150)
    with cluster(tmp_path) as pipeline:
        log.send([*log.metadata, *log.loads])
        pipeline.run()
    with cluster(tmp_path, "few") as pipeline:
        count = log.send(log.changes[:-100])
        summary = pipeline.run()
        assert (summary["changes"], summary["rows_in_driver"], summary["failing"]) == (count, count, {})
    with cluster(tmp_path) as pipeline:
        log.send(log.changes[-100:])
        assert pipeline.run()["rows_in_driver"] == 0
    log.assert_equal()
    for table in ("customers", "order_lines"):
        commits = DeltaTable(str(tmp_path / "tables" / "SHOP" / table)).history()
        writers = ["delta-rs" in str(c.get("clientVersion", "")) for c in commits if c["operation"] in ("MERGE", "WRITE")]
        assert [is_small for is_small, _ in itertools.groupby(writers)] == [False, True, False], table


@pytest.mark.nightly
def test_tables_equal_the_source_when_an_executor_is_killed_in_a_merge(tmp_path: Path) -> None:
    log = Log(tmp_path, transactions=100)
    log.send([*log.metadata, *log.loads, *log.changes])
    with cluster(tmp_path, "lose-executor") as pipeline:
        summary = pipeline.run()
    assert len(summary["killed"]) == 1
    assert (summary["rows_in_driver"], summary["parked"], summary["failing"]) == (0, 0, {})
    log.assert_equal()


@pytest.mark.nightly
@pytest.mark.parametrize("how", [[], pytest.param(["history"], marks=pytest.mark.soak)])
def test_tables_equal_the_source_when_the_driver_is_killed_between_the_merges_and_the_end_of_the_micro_batch(
    tmp_path: Path, how: list[str]
) -> None:
    log = Log(tmp_path, transactions=100)
    log.send([*log.metadata, *log.loads, *log.changes])
    log.send_values(b"no envelope")
    with cluster(tmp_path, "die-after-merges", *how) as pipeline:
        pipeline.run_and_die()
    versions = {table: DeltaTable(str(tmp_path / "tables" / "SHOP" / table)).version() for table in ("customers", "order_lines")}
    with cluster(tmp_path, *how) as pipeline:
        summary = pipeline.run()
    assert summary["rows_in_driver"] == 0
    assert {table: DeltaTable(str(tmp_path / "tables" / "SHOP" / table)).version() for table in versions} == versions
    assert log.dead() == [b"no envelope"]
    log.assert_equal()
    for table in versions if how else ():
        _count(tmp_path / "changes" / "SHOP" / table)


@pytest.mark.soak
@pytest.mark.parametrize("begins_with", ["/part-", "_delta_log/00000000000000000002.json"])
@pytest.mark.parametrize("how", [[], ["history"]])
def test_tables_equal_the_source_when_the_store_refuses_all_requests_for_a_minute(
    tmp_path: Path, server: S3Server, how: list[str], begins_with: str
) -> None:
    """Longer than `retry` is by default, from the first file that a task writes, or from the first commit of a merge."""
    log = Log(tmp_path, transactions=100)
    count = log.send([*log.metadata, *log.loads, *log.changes]) - len(log.metadata)
    server.plan_outage(60, begins_with)
    for _ in range(5):
        with cluster(tmp_path, "s3", *how) as pipeline:
            summary = pipeline.run_or_fail()
        if summary is not None and not summary["failing"] and not summary["parked"]:
            break
    assert server.refused_count() > 1
    place = server.place(tmp_path.name)
    log.assert_equal(place)
    if how:
        assert sum(_count(place / "changes" / "SHOP" / table) for table in ("customers", "order_lines")) == count


@pytest.mark.soak
@pytest.mark.parametrize("how", [[], ["history"], ["soft"], ["history", "s3"]])
def test_tables_equal_the_source_when_the_driver_is_killed_at_each_step(tmp_path: Path, server: S3Server, how: list[str]) -> None:
    log = Log(tmp_path, transactions=100)
    place: Place = server.place(tmp_path.name) if "s3" in how else tmp_path
    mixed = repeat(shuffle(log.changes, seed=5, window=30), seed=5, fraction=0.1)
    count = -len(log.metadata)
    for part in ([*log.metadata, *log.loads, *mixed[:300]], mixed[300:]):
        count += log.send(part)
        summary, steps = run_killed_at_each_step(tmp_path, *how)
        assert steps > 10
        assert summary["failing"] == {}
    assert summary["parked"] == 0
    log.assert_equal(place)
    if "history" in how:
        assert sum(_count(place / "changes" / "SHOP" / table) for table in ("customers", "order_lines")) == count


def run_killed_at_each_step(directory: Path, *how: str) -> tuple[dict[str, Any], int]:
    """Kill each run one step later than the one before, until one has fewer steps; return its summary and that number."""
    for step in itertools.count(1):
        with cluster(directory, f"die-at-{step}", *how) as pipeline:
            summary = pipeline.run_or_fail()
        if summary is not None:
            return summary, step
    raise AssertionError("unreachable")
