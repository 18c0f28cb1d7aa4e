"""Logged changes of a table whose columns were widened, read back in any order."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headstream.replicate.apply.logged_rows import stacked


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.array([1], pa.int32()), pa.array([2**63 - 1], pa.int64())),
        (pa.array([1.5], pa.float32()), pa.array([1e300], pa.float64())),
    ],
)
@pytest.mark.parametrize("is_wide_first", [True, False])
def test_rows_have_the_widest_type_in_any_order(narrow: pa.Array, wide: pa.Array, is_wide_first: bool) -> None:
    arrays = [wide, narrow] if is_wide_first else [narrow, wide]
    found = stacked([pa.table({"a": array}) for array in arrays])
    assert found.schema.field("a").type == wide.type
    assert found["a"].to_pylist() == [*arrays[0].to_pylist(), *arrays[1].to_pylist()]
