"""Column functions that run Python code on Arrow arrays, by PySpark's arrow_udf."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headstream.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def has_arrow_functions() -> bool:
    """Return whether this version of PySpark supports functions over Arrow arrays; 4.0 does not."""
    from pyspark.sql.pandas import functions

    return hasattr(functions, "arrow_udf")


def arrow_function(function: Callable[..., Any], result: DataType | str) -> Callable[..., Column]:
    """Return a function of columns.

    Args:
        function: Takes Arrow arrays and returns an array of the same length; its type hints must be `pa.Array`.

    Raises:
        MissingExtraError: this version of PySpark does not support functions over Arrow arrays.
    """
    from pyspark.sql.pandas import functions

    if not has_arrow_functions():
        raise MissingExtraError("functions over Arrow arrays require Spark 4.1 or newer", advice="Use headerColumns")
    make: Any = functions.arrow_udf
    made: Callable[..., Column] = make(function, result)
    return made


def replace_null_lists(column: Column, kind: str) -> Column:
    """Return a column of lists for an arrow_function(), with empty lists instead of nulls.

    The time that Spark needs to write a null list grows with the number of earlier null lists in the Arrow batch. With a column
    of nulls, a function takes three times as long as with empty lists.
    """
    from pyspark.sql import functions as sf

    return sf.coalesce(column, sf.array().cast(kind))
