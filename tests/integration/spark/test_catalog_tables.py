"""Tables of a catalog over the headstream format: refused by name, whatever makes them; other tables are untouched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import headstream as hs

pytestmark = pytest.mark.spark

_ROWS = "SELECT CAST('a' AS BINARY) AS payload"
_MAKERS: dict[str, Callable[[SparkSession, DataFrame, str], object]] = {
    "CREATE TABLE ... USING headstream": lambda spark, rows, url: spark.sql(
        f"CREATE TABLE made USING headstream OPTIONS (url '{url}', topic 'shop/t') AS {_ROWS}"
    ),
    "CREATE TABLE ... USING headstream is": lambda spark, rows, url: spark.sql(
        f"/* ours */ CREATE TABLE made -- a comment\n USING headstream OPTIONS (url '{url}', subscribe 'shop/t')"
    ),
    "saveAsTable('made')": lambda spark, rows, url: (
        rows.write.format("headstream").options(url=url, topic="shop/t").mode("append").saveAsTable("made")
    ),
    'saveAsTable(\'made\') with format("headstream")': lambda spark, rows, url: (
        rows.write.options(url=url, topic="shop/t").saveAsTable("made", format="headstream")
    ),
    'writeTo(...).using("headstream").create()': lambda spark, rows, url: (
        rows.writeTo("made").using("headstream").option("url", url).option("topic", "shop/t").create()
    ),
    'writeTo(...).using("headstream").createOrReplace()': lambda spark, rows, url: (
        rows.writeTo("made").using("headstream").option("url", url).option("topic", "shop/t").createOrReplace()
    ),
    "toTable('made')": lambda spark, rows, url: (
        spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS payload").writeStream.format("headstream")
        .options(url=url, topic="shop/t").toTable("made")
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", _MAKERS)
def test_table_of_a_catalog_is_refused_by_name_when_its_format_is_headstream(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/t")
    with pytest.raises(hs.InvalidOptionError) as caught:
        _MAKERS[what](spark, spark.sql(_ROWS), url)
    assert what in str(caught.value)
    assert "is not supported: a topic cannot be a table in a catalog" in str(caught.value)
    assert ".save(), a stream with" in str(caught.value)
    assert not spark.catalog.tableExists("made")


_SQL: dict[str, str] = {
    "FROM": "SELECT payload FROM headstream.`{url}` LIMIT 1",
    "JOIN": "SELECT * FROM (SELECT 1 AS one) JOIN headstream . `{url}`",
    "INTO": "INSERT INTO `headstream`.`{url}` VALUES (1)",
}


_URLS: list[tuple[str, str]] = [
    (what, url) for what in _SQL for url in ("kafka://user:secret@localhost:1/shop", "headstream://host:1")
]


@pytest.mark.parametrize(("what", "url"), [*_URLS, ("FROM", "/var/lib/shop")])
def test_url_in_a_tables_place_is_refused_with_a_view_as_advice(spark: SparkSession, what: str, url: str) -> None:
    with pytest.raises(hs.InvalidOptionError) as caught:
        spark.sql(_SQL[what].format(url=url))
    assert f"{what} headstream.`...` is not supported" in str(caught.value)
    assert ("createOrReplaceTempView" in str(caught.value)) == url.startswith("kafka")
    assert ("CREATE TEMPORARY VIEW" in str(caught.value)) != url.startswith("kafka")
    assert "secret" not in str(caught.value)


def test_tables_in_a_schema_called_headstream_are_read_and_their_errors_stay_sparks_own(spark: SparkSession) -> None:
    spark.sql("CREATE SCHEMA headstream")
    try:
        spark.sql("CREATE TABLE headstream.`made` USING parquet AS SELECT 1 AS one")
        assert spark.sql("SELECT * FROM headstream.`made`").collect()[0].one == 1
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND") as caught:
            spark.sql("INSERT INTO headstream.`missing` VALUES (1)")
        assert not isinstance(caught.value, hs.InvalidOptionError)
    finally:
        spark.sql("DROP SCHEMA headstream CASCADE")


def test_tables_of_other_formats_are_made_and_their_errors_stay_sparks_own(spark: SparkSession) -> None:
    rows = spark.sql(_ROWS)
    rows.write.format("parquet").saveAsTable("other_one")
    rows.writeTo("other_two").using("parquet").create()
    try:
        assert spark.table("other_one").count() == spark.table("other_two").count() == 1
        with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS") as caught:
            spark.sql(f"CREATE TABLE other_one USING parquet COMMENT 'USING headstream' AS {_ROWS}")
        assert not isinstance(caught.value, hs.InvalidOptionError)
    finally:
        for name in ("other_one", "other_two"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
