"""Partitioned tables by deltalake alone: values that paths spell badly, with compaction, widening, vacuum and both SCD types."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.replicate.partition_histories import VALUES, PartitionHistory
from tests.support.replicate.plain_engine import open_plain_engine


def run(directory: Path, seed: int, steps: int, *, scd_type: int, partition_by: tuple[str, ...], city_is_key: bool) -> None:
    path = directory / "t"
    history = PartitionHistory(
        directory, seed, lambda: open_plain_engine(path), scd_type=scd_type, partition_by=partition_by, city_is_key=city_is_key
    )
    history.run(steps)
    history.compare_by_pyarrow()


@pytest.mark.parametrize("scd_type", [1, 2])
def test_partitioned_rows_equal_the_model_whatever_their_values(tmp_path: Path, scd_type: int) -> None:
    run(tmp_path, 1, 6, scd_type=scd_type, partition_by=tuple(VALUES), city_is_key=scd_type == 2)


@pytest.mark.soak
@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("city_is_key", [False, True])
@pytest.mark.parametrize("column", [*VALUES, None])
def test_partitioned_rows_equal_the_model_in_long_histories(
    tmp_path: Path, scd_type: int, city_is_key: bool, column: str | None
) -> None:
    partition_by = tuple(VALUES) if column is None else (column,)
    run(tmp_path, 2, 40, scd_type=scd_type, partition_by=partition_by, city_is_key=city_is_key)
