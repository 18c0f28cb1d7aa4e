"""Lets Spark find `format("headstream")` by itself: it looks for modules named pyspark_* when a session first reads."""

from __future__ import annotations

from headstream.spark.source.source import HeadstreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
