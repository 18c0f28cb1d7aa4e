"""Comparing a pipeline's tables with a real PostgreSQL, and repairing them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headstream.replicate.compare.comparison import CompareSettings, TableResult
from headstream.replicate.compare.repair import describe_repair
from headstream.replicate.compare.source_database import JdbcAccess
from headstream.replicate.compare.tables import Compared, compare_tables
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.requests import Requests
from headstream.replicate.settings.table_settings import TableRule, TableRules
from headstream.testing import CaptureOptions, PostgresServer, SourceDatabase
from tests.integration.replicate.test_pipeline import Run
from tests.support.replicate.source_rows import fill_postgres, run_sql

pytestmark = pytest.mark.spark

QUICK = CompareSettings(limit=50, connections=2, capture_lag_us=0, wait_us=1_000_000)
TYPE_2 = TableRules(rules=(TableRule("SHOP.order_lines", {"scd_type": 2}),))


def compare(
    run: Run, postgres: PostgresServer, tables: Iterable[tuple[str, str]], settings: CompareSettings = QUICK
) -> dict[str, Compared]:
    found = compare_tables(
        run.spark,
        JdbcAccess.parse(postgres.url),
        run.directory / "tables",
        TYPE_2,
        lambda: run.directory / "checkpoint",
        chosen=tuple(".".join(table) for table in tables),
        settings=settings,
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


@pytest.mark.parametrize(
    "tables",
    [
        [("SHOP", "order_lines"), ("LAB", "devices")],
        pytest.param([(t.lineage.schema, t.lineage.table) for t in SourceDatabase(1).tables()], marks=pytest.mark.nightly),
    ],
    ids=["two", "all"],
)
def test_compare_finds_each_difference_and_nothing_after_its_repair(
    spark: SparkSession, postgres: PostgresServer, tmp_path: Path, tables: list[tuple[str, str]]
) -> None:
    run, source = Run(spark, tmp_path), SourceDatabase(5, rows=40, transactions=60)
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
    assert all(each.result.is_equal for each in compare(run, postgres, tables).values())
