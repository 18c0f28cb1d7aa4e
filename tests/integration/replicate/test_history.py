"""Tables of type 2, and tables that Spark merges, through the whole pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.testing import SHOP_TABLES, SourceDatabase, digest_rows, repeat, shuffle, split
from headstream.testing.source_tables import SourceTable
from tests.integration.replicate.test_pipeline import Run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("tables", "rows", "transactions"),
    [(SHOP_TABLES[:2], 5, 8), pytest.param(SHOP_TABLES, 20, 60, marks=pytest.mark.nightly)],
    ids=["two tables", "all tables"],
)
def test_open_versions_equal_the_source_whichever_engine_merges(
    spark: SparkSession, tmp_path: Path, tables: tuple[SourceTable, ...], rows: int, transactions: int
) -> None:
    run = Run(spark, tmp_path)
    source = SourceDatabase(4, tables=tables, rows=rows, transactions=transactions)
    rules = TableRules(defaults=TableSettings(scd_type=2), rules=(TableRule("*.customers", {"engine": "spark"}),))
    messages = repeat(shuffle(source.capture(), seed=4), seed=4, fraction=0.1)
    for part in split(messages, 2, seed=4):
        run.send(part)
        run.run(rules=rules)
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        found = run.rows(schema, table)
        current = [row for row in found if row["_hs_current"]]
        assert digest_rows(current, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}"
        assert len(found) > len(current)
    assert run.dead() == []
