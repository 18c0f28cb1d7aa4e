"""Whole transactions through the whole pipeline: read in parts from several partitions, merged by either engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.replicate.tables.tables import table_path
from headstream.testing import SHOP_TABLES, SourceDatabase, digest_rows, repeat, shuffle, split
from tests.integration.replicate.test_pipeline import Run
from tests.support.replicate.whole_transactions import halves_in_rows

pytestmark = pytest.mark.spark


@pytest.mark.nightly  # test_kill.py is in the first tier
def test_every_version_of_a_table_has_whole_transactions_whichever_engine_merges(spark: SparkSession, tmp_path: Path) -> None:
    names = ("customers", "orders", "order_lines", "documents")
    run = Run(spark, tmp_path)
    tables = tuple(table for table in SHOP_TABLES if table.name in names)
    source = SourceDatabase(6, tables=tables, rows=5, transactions=25)
    engines = TableRule("*.customers", {"engine": "spark"}), TableRule("*.order_lines", {"scd_type": 2})
    rules = TableRules(exclude=("*.documents",), defaults=TableSettings(deletes="soft"), rules=engines)
    released = 0
    for part in split(repeat(shuffle(source.capture(), seed=6, window=40), seed=6), 2, seed=6):
        run.send(part)
        summary = run.run(atomic=True, rules=rules)
        released += summary.released
    assert summary.parked == 0
    assert released > 0
    for table in tables:
        if table.name != "documents":
            path = table_path(tmp_path / "tables", table.schema, table.name)
            assert halves_in_rows(path, source, table) == []
            rows = [row for row in run.rows(table.schema, table.name) if row.get("_hs_current", True) and not row["_hs_deleted"]]
            assert digest_rows(rows, table.key_columns) == source.digest(table.schema, table.name), table.name
