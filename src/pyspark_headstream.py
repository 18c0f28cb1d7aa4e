"""Lets Spark find `format("headstream")` by itself: it looks for modules named pyspark_* when a session first reads."""

from __future__ import annotations

from headstream.spark.sessions.spark_home import SOURCE_VERSIONS, find_pyspark

find_pyspark(SOURCE_VERSIONS)  # names the version that is needed, where the next import would fail by a missing module of PySpark

from headstream.spark.source.source import HeadstreamDataSource as DefaultSource  # noqa: E402

__all__ = ["DefaultSource"]
