"""A declarative pipeline that reads a log: a table of orders with typed headers. docs/spark.md describes how to run it."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.materialized_view
def orders() -> DataFrame:
    """Orders, one row per message."""
    reader = (
        spark.read.format("headstream").option("url", "file:///tmp/headstream-pipeline/log").option("subscribe", "shop/orders")
    )
    return reader.load().selectExpr("partition", "offset", "CAST(payload AS STRING) AS text", "headers:attempt::int AS attempt")
