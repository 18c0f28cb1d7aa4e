"""PySpark classes that the source and the sink need and that versions before 4.2 lack.

4.0, 4.1   no limits of a micro-batch: Spark calls latestOffset() without a start and a limit
4.0        no DataSourceStreamArrowWriter: Spark passes record batches to a DataSourceArrowWriter, also for streams
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
"""Whether micro-batches of this PySpark version can have limits."""

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
        """Placeholder for a class that this PySpark version lacks; Spark does not use it."""

    class SupportsTriggerAvailableNow:
        """Placeholder, like ReadLimit: this PySpark version reads everything up to the end in one micro-batch."""

    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = ReadMinRows = ReadLimit

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """Base class of a stream's writer that receives record batches."""
