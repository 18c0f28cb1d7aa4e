"""Makes `format("headstream")` known to Spark, which imports the modules named pyspark_* when a session first reads."""

from __future__ import annotations

from headstream.spark.sessions.spark_home import SOURCE_VERSIONS, find_pyspark

find_pyspark(SOURCE_VERSIONS)  # its error names the required version; the next import would report a missing module

from headstream.spark.source.source import HeadstreamDataSource as DefaultSource  # noqa: E402

__all__ = ["DefaultSource"]
