"""What tests need of the version of Spark: the source and the sink also run in 4.0 and 4.1, without limits of a micro-batch."""

from __future__ import annotations

from typing import Final

import pytest

from headstream.spark.connection.spark_versions import HAS_LIMITS
from headstream.spark.workers.arrow_functions import has_arrow_functions

needs_spark_4_2: Final = pytest.mark.skipif(
    not HAS_LIMITS, reason="needs limits of a micro-batch or jars, which are for Spark 4.2"
)

needs_functions: Final = pytest.mark.skipif(not has_arrow_functions(), reason="Spark 4.0 has no functions over Arrow arrays")


def limited(offsets: int) -> dict[str, str]:
    """Return the option for micro-batches of so many offsets, or none where Spark has no limits.

    Args:
        offsets: The most offsets of a micro-batch.
    """
    return {"maxOffsetsPerTrigger": str(offsets)} if HAS_LIMITS else {}
