from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headstream.spark.source import columns, header_columns, options, source

EVERY_TYPE = (
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f DECIMAL(38), g DECIMAL(1,0), h FLOAT, i DOUBLE, j STRING, k BINARY"
)


@pytest.mark.parametrize("headers", ["variant", "array", "map", "binary", "none"])
def test_arrow_schema_is_what_spark_makes_of_its_own(headers: options.HeaderShape) -> None:
    names = tuple(name for name in options.COLUMN_NAMES if headers != "none" or not name.startswith("headers"))
    shape = options.RowShape(names, headers, header_columns.parse_header_columns(EVERY_TYPE))
    expected: pa.Schema = to_arrow_schema(source.spark_schema(shape), timezone="UTC")
    assert columns.arrow_schema(shape).equals(expected, check_metadata=True)
