"""Logged changes of a table whose columns were widened, read back in any order."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pytest

from headstream.replicate.apply.moved_keys.logged_rows import stacked


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.array([1], pa.int32()), pa.array([2**63 - 1], pa.int64())),
        (pa.array([1.5], pa.float32()), pa.array([1e300], pa.float64())),
        (pa.array([1], pa.int32()), pa.array([1e300], pa.float64())),
        (pa.array([date(2024, 2, 29)]), pa.array([datetime(2024, 2, 29, 0, 0, 1)], pa.timestamp("us"))),
    ],
)
@pytest.mark.parametrize("is_wide_first", [True, False])
def test_rows_have_the_widest_type_in_any_order(narrow: pa.Array, wide: pa.Array, is_wide_first: bool) -> None:
    arrays = [wide, narrow] if is_wide_first else [narrow, wide]
    found = stacked([pa.table({"a": array}) for array in arrays])
    assert found.schema.field("a").type == wide.type
    assert found["a"].to_pylist() == [value for array in arrays for value in array.cast(wide.type).to_pylist()]
