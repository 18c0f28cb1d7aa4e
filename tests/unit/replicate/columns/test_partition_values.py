"""Types and values that tables can be partitioned by."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headstream.replicate.columns.partition_values import can_partition_by, find_unusable


@pytest.mark.parametrize(
    "kind", ["TINYINT", "BIGINT", "DECIMAL(20,0)", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"]
)
def test_can_partition_by_types_that_every_engine_writes_alike(kind: str) -> None:
    assert can_partition_by(kind)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "BINARY", "DECIMAL(10,2)", "MAP<STRING,STRING>"])
def test_can_partition_by_refuses_other_types(kind: str) -> None:
    assert not can_partition_by(kind)


def test_find_unusable_names_the_rows_whose_text_is_no_partition() -> None:
    values = pa.array(["a", "", None, "~", "Zürich", "", "__HIVE_DEFAULT_PARTITION__", "a\0b", "x" * 250, "x" * 251])
    found = find_unusable("city", values)
    assert sorted(found) == [1, 3, 5, 6, 7, 9]
    assert "stores it as null" in found[1]
    assert "too long" in found[9]


def test_find_unusable_measures_a_text_as_it_is_in_a_path() -> None:
    assert not find_unusable("city", pa.array(["ü" * 41]))
    assert find_unusable("city", pa.array(["ü" * 42]))
