"""Column functions that run Python over Arrow arrays: PySpark's arrow_udf, whose types know no union of signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

__all__ = ["arrow_function"]


def arrow_function(function: Callable[..., Any], result: DataType | str) -> Callable[..., Column]:
    """Return a function of columns.

    Args:
        function: Takes Arrow arrays and returns one as long; its hints say `pa.Array`, which is how PySpark knows its kind.
        result: What it returns, as Spark's type or its DDL.
    """
    from pyspark.sql.pandas import functions

    make: Any = functions.arrow_udf
    made: Callable[..., Column] = make(function, result)
    return made
