"""Comparing a pipeline's tables with a real PostgreSQL, and repairing them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headstream import connect
from headstream.replicate.compare.comparison import CompareSettings, TableResult
from headstream.replicate.compare.repair import describe_repair, newest_sequence, sequence_after
from headstream.replicate.compare.source_database import JdbcAccess
from headstream.replicate.compare.tables import Compared, compare_tables
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.requests import Requests
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.table_settings import TableRule, TableRules
from headstream.testing import SHOP_TABLES, CaptureOptions, PostgresServer, SourceDatabase
from headstream.testing.source_tables import SourceTable
from tests.integration.replicate.test_pipeline import DATA, Run
from tests.support.replicate.debezium_messages import envelope, key_of
from tests.support.replicate.source_rows import fill_postgres, run_sql
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

QUICK = CompareSettings(limit=50, connections=2, capture_lag_us=0, wait_us=1_000_000)
TYPE_2 = TableRules(rules=tuple(TableRule(table, {"scd_type": 2}) for table in ("SHOP.order_lines", "shop.kit")))


def compare(
    run: Run,
    postgres: PostgresServer,
    tables: Iterable[tuple[str, str]],
    settings: CompareSettings = QUICK,
    show: Callable[[str], None] = lambda text: None,
) -> dict[str, Compared]:
    found = compare_tables(
        run.spark,
        JdbcAccess.parse(postgres.url),
        run.directory / "tables",
        TYPE_2,
        lambda: run.directory / "checkpoint",
        chosen=tuple(".".join(table) for table in tables),
        settings=settings,
        show=show,
    )
    return {compared.result.table: compared for compared in found}


def kinds(result: TableResult) -> list[str]:
    assert result.error is None, result.error
    return sorted(difference.kind for difference in result.differences)


def wrong(result: TableResult) -> list[object]:
    """Return what is wrong with a table that should be equal, for the message of a failing test."""
    shown = [(each.kind, each.key, [(n, (each.source or {}).get(n), (each.target or {}).get(n)) for n in each.columns])
             for each in result.differences]  # fmt: skip
    return [*([result.error] if result.error else []), *shown]


def request_repair(run: Run, compared: Iterable[Compared]) -> None:
    ledger = Ledger(run.directory / "checkpoint" / "ledger.sqlite")
    for each in compared:
        Requests(ledger).ask("repair", describe_repair(each.result, each.schema), 1)
    ledger.close()


def update_quantity(key: tuple[object, ...], quantity: int, sequence: str) -> bytes:
    data = {"order_id": key[0], "line": key[1], "quantity": quantity}
    return json.dumps({"schema": "SHOP", "table": "order_lines", "op": "U", "change_seq": sequence, "data": data}).encode()


@pytest.mark.parametrize(
    ("source_tables", "rows", "transactions"),
    [
        ([table for table in SHOP_TABLES if table.name in ("order_lines", "devices")], 10, 10),
        pytest.param(SHOP_TABLES, 40, 60, marks=pytest.mark.nightly),
    ],
    ids=["two", "all"],
)
def test_compare_finds_each_difference_and_nothing_after_its_repair(
    spark: SparkSession,
    postgres: PostgresServer,
    tmp_path: Path,
    source_tables: Sequence[SourceTable],
    rows: int,
    transactions: int,
) -> None:
    run = Run(spark, tmp_path)
    source = SourceDatabase(5, tables=source_tables, rows=rows, transactions=transactions)
    tables = [(t.schema, t.name) for t in source_tables]
    run.send(source.capture(CaptureOptions(partial_images=True)))
    run.run(rules=TYPE_2)
    fill_postgres(postgres, source, tables)
    equal = compare(run, postgres, tables)
    assert [wrong(each.result) for each in equal.values() if wrong(each.result)] == []
    assert all(each.result.is_equal and not each.result.left_out for each in equal.values())
    for schema, table in tables:
        count = len(source.final_state(schema, table))
        assert equal[f"{schema}.{table}"].result.rows == (count, count)

    lines = sorted(source.final_state("SHOP", "order_lines"))
    assert run_sql(
        postgres, 'UPDATE "SHOP".order_lines SET quantity = 77, price = NULL WHERE (order_id, line) = (%s, %s)', *lines[0]
    )
    assert run_sql(postgres, 'DELETE FROM "SHOP".order_lines WHERE (order_id, line) = (%s, %s)', *lines[1])
    assert run_sql(postgres, """INSERT INTO "SHOP".order_lines (order_id, line, product) VALUES (123456, 65535, 'ü''\\ "')""")
    assert run_sql(postgres, 'DELETE FROM "LAB".devices') > 1
    found = compare(run, postgres, tables)
    assert kinds(found["SHOP.order_lines"].result) == ["changed", "extra", "missing"]
    (changed,) = (each for each in found["SHOP.order_lines"].result.differences if each.kind == "changed")
    assert set(changed.columns) <= {"quantity", "price"}
    assert changed.source is not None
    assert changed.source["quantity"] == 77
    assert set(kinds(found["LAB.devices"].result)) == {"extra"}

    request_repair(run, [each for each in found.values() if each.result.differences])
    run.run(rules=TYPE_2)
    assert run.dead() == []
    later = sequence_after(newest_sequence(run.directory / "checkpoint", ("SHOP", "order_lines")))
    run.send_values(update_quantity(lines[0], 78, later))
    run.run(rules=TYPE_2)
    assert run_sql(postgres, 'UPDATE "SHOP".order_lines SET quantity = 78 WHERE (order_id, line) = (%s, %s)', *lines[0])
    assert [wrong(each.result) for each in compare(run, postgres, tables).values() if wrong(each.result)] == []


@pytest.mark.nightly
def test_compare_reports_no_row_that_the_running_pipeline_applies_later(
    spark: SparkSession, postgres: PostgresServer, tmp_path: Path
) -> None:
    run, source, table = Run(spark, tmp_path), SourceDatabase(5, rows=40, transactions=60), ("SHOP", "order_lines")
    run.send(source.capture())
    pipeline = run.pipeline(rules=TYPE_2, once=False)
    fill_postgres(postgres, source, [table])
    late, wrong_row = sorted(source.final_state(*table))[:2]
    for key in (late, wrong_row):
        assert run_sql(postgres, 'UPDATE "SHOP".order_lines SET quantity = 77 WHERE (order_id, line) = (%s, %s)', *key)
    pipeline.start()
    sent: list[str] = []

    def send_when_it_waits(text: str) -> None:
        if "waiting for the pipeline" in text and not sent:
            newest = newest_sequence(tmp_path / "checkpoint", table)
            run.send_values(update_quantity(late, 77, sequence_after(newest)))
            sent.append(text)

    try:
        wait_until(lambda: "SHOP.order_lines" in (pipeline.status()["run"] or {}).get("tables", {}))
        settings = CompareSettings(limit=50, connections=2, capture_lag_us=2_000_000, wait_us=120_000_000)
        (found,) = compare(run, postgres, [table], settings, send_when_it_waits).values()
    finally:
        pipeline.stop()
        pipeline.await_termination(120)
    assert found.result.error is None
    assert found.result.has_passed
    assert (found.result.late, [tuple(each.key.values()) for each in found.result.differences]) == (1, [wrong_row])


@pytest.mark.nightly
def test_compare_repairs_rows_that_debezium_captured_and_later_changes_win(
    spark: SparkSession, postgres: PostgresServer, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path)

    def apply(*changes: tuple[str, int, str, int]) -> None:
        with connect(run.url) as log, log.producer(DATA) as producer:
            for operation, number, name, lsn in changes:
                row = {"id": number, "name": name, "price": str(number), "tags": [name, 'ü, "b"'], "counts": [number, None]}
                place: dict[str, Any] = {"lsn": lsn, "sequence": f'["{lsn - 1}","{lsn}"]'}
                images = (None, row) if operation == "d" else (row, None)
                producer.send(envelope(operation, *images, **place), key=key_of(id=number))
        summary = run.run(rules=TYPE_2, debezium=DebeziumSettings())
        assert (summary.dead, summary.parked) == (0, 0)

    columns = "id bigint PRIMARY KEY, name text, price text, tags text[], counts int[]"
    postgres.execute(f"CREATE SCHEMA shop; CREATE TABLE shop.kit ({columns})")
    arrays = """ARRAY['n' || n, 'ü, "b"'], ARRAY[n, NULL]"""
    postgres.execute(f"INSERT INTO shop.kit SELECT n, 'n' || n, n, {arrays} FROM generate_series(1, 4) n")
    apply(("c", 1, "n1", 10), ("c", 2, "old", 20), ("c", 4, "n4", 25), ("c", 9, "gone", 30), ("d", 4, "n4", 40))
    (found,) = compare(run, postgres, [("shop", "kit")]).values()
    assert kinds(found.result) == ["changed", "extra", "missing", "missing"]
    request_repair(run, [found])
    run.run(rules=TYPE_2, debezium=DebeziumSettings())
    assert [wrong(each.result) for each in compare(run, postgres, [("shop", "kit")]).values()] == [[]]
    postgres.execute("UPDATE shop.kit SET name = 'new', tags[1] = 'new' WHERE id IN (2, 4); DELETE FROM shop.kit WHERE id = 3")
    apply(("u", 2, "new", 50), ("u", 4, "new", 51), ("d", 3, "n3", 52), ("u", 2, "late", 19))
    assert [wrong(each.result) for each in compare(run, postgres, [("shop", "kit")]).values()] == [[]]


@pytest.mark.nightly
def test_compare_command_prints_differences_and_exits_with_1(
    spark: SparkSession, postgres: PostgresServer, tmp_path: Path
) -> None:
    run, source, table = Run(spark, tmp_path), SourceDatabase(5, rows=10, transactions=10), ("SHOP", "documents")
    run.send(source.capture())
    run.run()
    fill_postgres(postgres, source, [table])
    options = ["--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint"), "--table", "SHOP.documents"]
    command = [sys.executable, "-m", "headstream.cli", "replicate", "compare", "--source-db", postgres.url, *options]
    equal = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, timeout=300)
    assert equal.returncode == 0, equal.stderr
    (row,) = json.loads(equal.stdout)
    assert (row["result"], row["source_rows"], row["differences"]) == ("equal", len(source.final_state(*table)), [])
    assert run_sql(postgres, 'UPDATE "SHOP".documents SET pages = 4711 WHERE code = (SELECT max(code) FROM "SHOP".documents)')
    different = subprocess.run([*command, "--output", "json", "--repair", "--yes"], capture_output=True, text=True, timeout=300)
    assert different.returncode == 1, different.stderr
    (row,) = json.loads(different.stdout)
    assert (row["changed"], row["differences"][0]["columns"]["pages"]["source"]) == (1, 4711)
    assert postgres.password not in different.stdout + different.stderr
    run.run()
    (after,) = compare(run, postgres, [table]).values()
    assert wrong(after.result) == []
