"""Column functions that run Python over Arrow arrays: PySpark's arrow_udf, whose type hints have no union of signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headstream.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def has_arrow_functions() -> bool:
    """Return whether this version of PySpark has such functions, unlike 4.0."""
    from pyspark.sql.pandas import functions

    return hasattr(functions, "arrow_udf")


def arrow_function(function: Callable[..., Any], result: DataType | str) -> Callable[..., Column]:
    """Return a function of columns.

    Args:
        function: Takes Arrow arrays and returns one as long; PySpark derives its kind from its hints, `pa.Array`.

    Raises:
        MissingExtraError: this version of PySpark has no such functions.
    """
    from pyspark.sql.pandas import functions

    if not has_arrow_functions():
        raise MissingExtraError("functions over Arrow arrays require Spark 4.1 or newer", advice="Use headerColumns")
    make: Any = functions.arrow_udf
    made: Callable[..., Column] = make(function, result)
    return made


def replace_null_lists(column: Column, kind: str) -> Column:
    """Return a column of lists for an arrow_function(), with empty lists instead of nulls.

    Spark writes a null list in a time that grows with the number of null lists before it in its Arrow batch: a column of
    nulls takes a function three times as long as one of empty lists.
    """
    from pyspark.sql import functions as sf

    return sf.coalesce(column, sf.array().cast(kind))
