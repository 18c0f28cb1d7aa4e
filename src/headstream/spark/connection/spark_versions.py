"""Features that PySpark's versions lack for the source and the sink; 4.2 has all of them.

4.0, 4.1   have no limits of a micro-batch: Spark calls latestOffset() for the end only, without a start and a limit
4.0        has no DataSourceStreamArrowWriter; it hands record batches to each DataSourceArrowWriter, also if it writes a stream
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource

__all__ = [
    "HAS_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

HAS_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether this version's micro-batches can have limits."""

if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """Placeholder for the class that this version lacks; Spark does not use it."""

    class SupportsTriggerAvailableNow:
        """As ReadLimit: this version reads everything up to the end in one micro-batch."""

    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = ReadMinRows = ReadLimit

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """A stream's writer that gets record batches."""
