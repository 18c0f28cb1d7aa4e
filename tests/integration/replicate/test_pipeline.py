"""The whole pipeline on a real Spark, against the simulated source's own final state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from headstream.cli.main import cli
from headstream.connect import connect
from headstream.errors import HeadstreamError, InvalidOptionError, SchemaError, StorageError
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC, ParkingLot
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.run.summary import Summary
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.tables.tables import table_path
from headstream.testing import SHOP_TABLES, CaptureOptions, SourceDatabase, digest_rows, repeat, shuffle, split
from headstream.testing.samples import sample_messages
from headstream.testing.source_capture import SourceMessage
from tests.support.crashes import CrashError
from tests.support.replicate.iceberg_tables import iceberg_rows

pytestmark = pytest.mark.spark

DATA, METADATA = "cdc/data", "cdc/metadata"
PLAIN_TABLES = (SHOP_TABLES[0], SHOP_TABLES[2])
"""Customers and order lines: Spark creates neither, since their columns need no mapping."""


class Run:
    """One pipeline over one log in a directory of its own."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.url = f"file://{directory / 'log'}"
        with connect(self.url) as log:
            log.create_topic(DATA, partitions=3)
            log.create_topic(METADATA)

    def send(self, messages: Iterable[SourceMessage]) -> None:
        with connect(self.url) as log, log.producer(DATA) as data, log.producer(METADATA) as metadata:
            for message in messages:
                producer = data if message.role == "data" else metadata
                producer.send(message.value, key=message.key, headers=message.headers)

    def send_values(self, *values: bytes, topic: str = DATA) -> None:
        with connect(self.url) as log, log.producer(topic) as producer:
            for value in values:
                producer.send(value)

    def pipeline(self, **options: Any) -> ReplicatePipeline:
        config: dict[str, Any] = {"source": self.url, "topics": (DATA,), "metadata": (METADATA,), "once": True}
        config |= {"tables": self.directory / "tables", "checkpoint": self.directory / "checkpoint"}
        return ReplicatePipeline(self.spark, ReplicateConfig(**(config | options)))

    def run(self, **options: Any) -> Summary:
        return self.pipeline(**options).run()

    def rows(self, schema: str, table: str) -> list[dict[str, Any]]:
        # DataFusion knows column mapping, as Spark does, and reads a small table in milliseconds.
        target = DeltaTable(str(table_path(self.directory / "tables", schema, table)))
        found: list[dict[str, Any]] = pa.table(QueryBuilder().register("t", target).execute("SELECT * FROM t")).to_pylist()
        return found

    def rows_by_spark(self, schema: str, table: str) -> list[dict[str, Any]]:
        path = table_path(self.directory / "tables", schema, table)
        found: list[dict[str, Any]] = self.spark.read.format("delta").load(str(path)).toArrow().to_pylist()
        return found

    def assert_equal(self, source: SourceDatabase) -> None:
        for metadata in source.tables():
            schema, table = metadata.lineage.schema, metadata.lineage.table
            rows = self.rows(schema, table)
            assert len(rows) == len(source.final_state(schema, table)), f"{schema}.{table}"
            assert digest_rows(rows, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}"

    def dead(self) -> list[tuple[bytes | None, str]]:
        with connect(f"file://{self.directory / 'checkpoint' / 'log'}") as log:
            messages = log.poll(DEAD_LETTER_TOPIC, 1, start="first", count=10_000)
        return [(message.payload, message.headers["hs.reason"].as_string()) for message in messages]


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    return Run(spark, tmp_path)


def test_pipeline_equals_the_source_when_everything_comes_in_order_and_changes_nothing_when_it_comes_again(run: Run) -> None:
    source = SourceDatabase(1, rows=10, transactions=15)
    messages = list(source.capture())
    run.send(messages)
    summary = run.run()
    run.assert_equal(source)
    assert summary.messages == len(messages)
    assert (summary.parked, summary.delayed, summary.dead) == (0, 0, 0)
    assert summary.changes == sum(message.role == "data" for message in messages)
    for metadata in source.tables()[:2]:
        schema, table = metadata.lineage.schema, metadata.lineage.table
        assert digest_rows(run.rows_by_spark(schema, table), metadata.key_columns) == source.digest(schema, table)
    run.send(messages)
    summary = run.run()
    run.assert_equal(source)
    assert all(counts.inserted == counts.updated == counts.deleted == 0 for counts in summary.tables.values()), summary.tables


def test_iceberg_tables_equal_the_source_and_the_command_compares_and_repairs_them(run: Run) -> None:
    source = SourceDatabase(6, tables=SHOP_TABLES[:2], rows=10, transactions=20)
    catalog = {"type": "sql", "uri": f"sqlite:///{run.directory / 'later' / 'catalog.db'}"}
    settings = IcebergSettings(catalog=catalog, namespace="lake.{schema}", snapshots=5)
    options: dict[str, Any] = {"iceberg": settings, "compact_every_us": 1, "vacuum_every_us": 1, "vacuum_kept_us": 0}
    for part in split(source.capture(), 2, seed=6):
        run.send(part)
        assert run.run(max_messages_per_batch=60, **options).delayed == 0, "a catalog that fails has delayed a merge"
        (run.directory / "later").mkdir(exist_ok=True)  # the first run has had no catalog, and its vacuum was put off
    tables = {(m.lineage.schema, m.lineage.table): m.key_columns for m in source.tables()}
    opened = open_catalog(settings, run.directory)
    mapped = 0
    for (schema, name), keys in tables.items():
        table = opened.load_table(("lake", schema, name))
        mapped += any(" " in field.name for field in table.schema().fields)
        columns, *rows = iceberg_rows(table)
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        assert digest_rows(found, keys) == source.digest(schema, name), f"{schema}.{name}"
    assert mapped, "one of the tables should have column mapping"
    text = f'source = "{run.url}"\ntopics = ["{DATA}"]\ntables = "tables"\ncheckpoint = "checkpoint"\n[iceberg]\n'
    text += f'namespace = "lake.{{schema}}"\n[iceberg.catalog]\ntype = "sql"\nuri = "{catalog["uri"]}"\n'
    (run.directory / "pipeline.toml").write_text(text)
    command = ["replicate", "iceberg", "check", "--config", str(run.directory / "pipeline.toml"), "--output", "json"]
    checked = CliRunner().invoke(cli, command)
    assert checked.exit_code == 0, checked.output
    assert {(row["table"], row["state"]) for row in json.loads(checked.stdout)} == {(".".join(t), "equal") for t in tables}
    opened.drop_table(("lake", "SHOP", "customers"))
    assert CliRunner().invoke(cli, command).exit_code == 1
    repaired = CliRunner().invoke(cli, [*command, "--repair"])
    assert repaired.exit_code == 0, repaired.output
    assert [row["table"] for row in json.loads(repaired.stdout) if row["state"] == "repaired"] == ["SHOP.customers"]
    opened.close()


@pytest.mark.parametrize(
    ("seed", "rows"), [(2, 10), pytest.param(2, 40, marks=pytest.mark.nightly), pytest.param(3, 40, marks=pytest.mark.nightly)]
)
def test_pipeline_equals_the_source_when_messages_are_shuffled_repeated_and_split_over_runs(
    run: Run, seed: int, rows: int
) -> None:
    source = SourceDatabase(seed, rows=rows, transactions=3 * rows)
    options = CaptureOptions(partial_images=True, deletes_in="before" if seed % 2 else "data", deleted_columns="key")
    messages = repeat(shuffle(source.capture(options), seed=seed), seed=seed, fraction=0.2)
    waited = 0
    for part in split(messages, 3, seed=seed):
        run.send(part)
        waited += run.run(max_messages_per_batch=4 * rows).released
    run.assert_equal(source)
    assert waited > 0, "the shuffle should have put data before its metadata"


def test_pipeline_parks_data_without_schema_and_does_not_hold_up_the_rest(run: Run) -> None:
    source = SourceDatabase(5, tables=PLAIN_TABLES, rows=10, transactions=30)
    late = "SHOP.order_lines"
    messages = list(source.capture(CaptureOptions(late_metadata={late: "end"})))
    waiting = [m for m in messages if m.table == late and m.role == "data"]
    run.send(m for m in messages if not (m.table == late and m.role == "metadata"))
    first = run.run()
    assert (first.parked, first.delayed, first.dead) == (len(waiting), 0, 0)
    assert not table_path(run.directory / "tables", "SHOP", "order_lines").exists()
    delayed = run.run(schema_wait_us=0)
    assert (delayed.parked, delayed.delayed) == (0, len(waiting))
    run.send(m for m in messages if m.table == late and m.role == "metadata")
    last = run.run()
    assert (last.released, last.parked, last.delayed) == (len(waiting), 0, 0)
    run.assert_equal(source)


def test_pipeline_releases_what_waits_when_another_process_fills_the_zone(run: Run) -> None:
    source = SourceDatabase(6, tables=PLAIN_TABLES, rows=10, transactions=10)
    messages = list(source.capture())
    run.send(m for m in messages if m.role == "data")
    assert run.run().parked == sum(m.role == "data" for m in messages)
    other = Run(run.spark, run.directory / "other")
    other.send(m for m in messages if m.role == "metadata")
    other.run(zone=run.directory / "checkpoint" / "zone")
    assert run.run().parked == 0
    run.assert_equal(source)


def test_pipeline_gives_up_or_fails_when_the_policy_says_so(run: Run) -> None:
    source = SourceDatabase(7, rows=3, transactions=0)
    data = [m for m in source.capture() if m.role == "data"]
    run.send(data)
    with pytest.raises(SchemaError, match="wait for a missing schema"):
        run.run(schema_wait_us=0, on_missing_schema="fail")
    summary = run.run(schema_wait_us=0, on_missing_schema="dead-letter")
    assert sorted(payload or b"" for payload, _ in run.dead()) == sorted(m.value or b"" for m in data), "each once"
    assert (summary.parked, summary.dead) == (0, len(data))


def test_pipeline_sets_bad_messages_aside_with_their_bytes_and_reasons_and_goes_on(run: Run) -> None:
    source = SourceDatabase(8, tables=PLAIN_TABLES, rows=10, transactions=20)
    messages = list(source.capture())
    good = next(m.value for m in messages if m.role == "data" and m.value.startswith(b"atMSG"))
    bad = {
        b"hello": "must begin with",
        b"atMSG\x04XX\x00\x00\x00\x00": "unknown type",
        good[: len(good) // 2]: "",
        good + b"\x00": "",
        b'{"magic": "atMSG", "type": "DT"': "",
        b'{"data": {"a": 1}, "beforeData": null, "headers": {"operation": "INSERT", "changeSequence": "1"}}': "schema id",
        b"\x00\x00\x00\x00\x07abc": "registry",
    }
    run.send(messages)
    run.send_values(*bad)
    summary = run.run()
    run.assert_equal(source)
    assert summary.dead == len(bad)
    reasons = dict(run.dead())
    assert set(reasons) == set(bad)
    for payload, part in bad.items():
        assert reasons[payload], payload
        assert part in reasons[payload]


def test_pipeline_keeps_a_tables_changes_whole_when_it_cannot_be_written_and_applies_them_later(run: Run) -> None:
    source = SourceDatabase(4, tables=PLAIN_TABLES, rows=10, transactions=20)
    run.send(source.capture())
    lineage = source.tables()[0].lineage
    in_the_way = table_path(run.directory / "tables", lineage.schema, lineage.table)
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_bytes(b"a file, where a directory is to be")
    summary = run.run()
    assert list(summary.failing) == [(lineage.schema, lineage.table)]
    assert summary.parked > 0
    in_the_way.unlink()
    summary = run.run()
    assert (summary.parked, summary.dead, summary.failing) == (0, 0, {})
    run.assert_equal(source)


def test_pipeline_applies_the_real_samples(run: Run) -> None:
    run.send_values(*(value for _, value in sample_messages()))
    summary = run.run()
    rows = [{k: v for k, v in row.items() if not k.startswith("_hs_")} for row in run.rows("employees", "salaries")]
    assert [(row["emp_no"], row["salary"], str(row["from_date"]), str(row["to_date"])) for row in rows] == [
        (14472, 49592, "1993-11-25", "1994-11-25")
    ]
    assert summary.schemas == 2
    assert summary.dead == 2, "the two messages without a schema id"


CRASH_POINTS: list[tuple[type, str, int]] = [
    (SchemaStore, "add", 3),
    (Ledger, "add", 1),
    (ParkingLot, "park", 1),
    (Ledger, "add", 2),
    (Scd1Table, "merge", 1),
    (ParkingLot, "dead_letter", 1),
    (Scd1Table, "merge", 4),
    (Ledger, "begin_release", 1),
    (ParkingLot, "finish_release", 1),
]
CRASH_TABLES = (*SHOP_TABLES[:3], SHOP_TABLES[-1])


def crash_at(run: Run, owner: type, method: str, call: int, when: str) -> None:
    """Run the pipeline, which ends before or after so many calls of a method."""
    original, calls = getattr(owner, method), 0

    def crashing(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        is_the_one = calls == call  # tables are merged side by side
        if is_the_one and when == "before":
            raise CrashError
        result = original(*arguments, **options)
        if is_the_one:
            raise CrashError
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, crashing)
        with pytest.raises(CrashError):
            run.run(max_messages_per_batch=40)


def test_pipeline_equals_the_source_when_each_of_its_runs_crashes_at_another_step(run: Run) -> None:
    source = SourceDatabase(9, tables=CRASH_TABLES, rows=8, transactions=40)
    messages = list(source.capture(CaptureOptions(late_metadata={"SHOP.orders": "end"})))
    late = [message for message in messages if (message.table, message.role) == ("SHOP.orders", "metadata")]
    run.send(message for message in messages if message.role == "metadata" and message not in late)
    parts = split([message for message in messages if message.role == "data"], len(CRASH_POINTS), seed=9)
    for number, (point, part) in enumerate(zip(CRASH_POINTS, parts, strict=True)):
        if point == (Ledger, "begin_release", 1):
            run.send(late)
        run.send(part)
        run.send_values(b"not a message %d" % number)
        crash_at(run, *point, "after" if number % 2 else "before")
    run.run(max_messages_per_batch=40)
    run.assert_equal(source)
    assert sorted(payload or b"" for payload, _ in run.dead()) == [b"not a message %d" % n for n in range(len(CRASH_POINTS))]


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "method", "call"), CRASH_POINTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_pipeline_ends_the_same_when_it_crashes_at_a_step_and_runs_again(
    run: Run, owner: type, method: str, call: int, when: str
) -> None:
    source = SourceDatabase(9, tables=CRASH_TABLES, rows=8, transactions=20)
    messages = list(source.capture(CaptureOptions(late_metadata={"SHOP.orders": "end"})))
    late = [message for message in messages if (message.table, message.role) == ("SHOP.orders", "metadata")]
    run.send(message for message in messages if message not in late)
    comes_after_the_crash = (owner, method) == (ParkingLot, "park")  # so that there is something to park, however batches are cut
    if not comes_after_the_crash:
        run.send(late)
    run.send_values(b"not a message")
    crash_at(run, owner, method, call, when)
    if comes_after_the_crash:
        run.send(late)
    run.run(max_messages_per_batch=40)
    run.assert_equal(source)
    assert len(run.dead()) == 1


def test_pipeline_says_what_to_do_when_a_topic_does_not_exist(run: Run) -> None:
    with pytest.raises(HeadstreamError, match="nowhere"):
        run.run(topics=("cdc/nowhere",))


def test_pipeline_refuses_a_file_that_is_not_a_ledger(run: Run) -> None:
    (run.directory / "checkpoint").mkdir()
    (run.directory / "checkpoint" / "ledger.sqlite").write_bytes(b"something else entirely, and long enough to be read")
    with pytest.raises(StorageError, match=r"ledger\.sqlite"):
        run.pipeline()


def test_pipeline_refuses_spark_connect_before_it_makes_anything(tmp_path: Path) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    config = ReplicateConfig(source="file:///x", topics=("a/b",), tables=tmp_path / "t", checkpoint=tmp_path / "c")
    client: Any = object.__new__(ConnectSession)  # one with a server would cost a minute, and is not asked anything
    with pytest.raises(InvalidOptionError, match="does not support Spark Connect"):
        ReplicatePipeline(client, config)
    assert list(tmp_path.iterdir()) == []
