from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headstream.spark.columns import arrow_schema
from headstream.spark.options import COLUMN_NAMES, HeaderShape
from headstream.spark.source import spark_schema


@pytest.mark.parametrize("shape", ["variant", "binary", "none"])
def test_arrow_schema_is_what_spark_makes_of_its_own(shape: HeaderShape) -> None:
    names = tuple(name for name in COLUMN_NAMES if shape != "none" or not name.startswith("headers"))
    expected: pa.Schema = to_arrow_schema(spark_schema(names, shape), timezone="UTC")
    assert arrow_schema(names, shape).equals(expected, check_metadata=True)
