"""Tables whose deletion vectors another engine wrote: what is read, changed and deleted of them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from headstream.replicate.apply.deltalake import TableLog
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.replicate.vector_tables import ROWS, SAMPLES, vector_table

_DAY_US = 86_400_000_000


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize(("replaced_days", "kept"), [(10, 2), (1, 4)])
def test_vacuum_keeps_the_deletion_vectors_that_versions_of_the_kept_time_need(
    tmp_path: Path, sample: str, replaced_days: int, kept: int
) -> None:
    """All files are older than the kept time: two vectors of the present version, two that others replaced."""
    path = vector_table(tmp_path / "t", sample, replaced_days=replaced_days)
    left = path / "left.parquet"
    left.write_bytes(b"of a killed writer")
    os.utime(left, (0, 0))
    open_plain_engine(path).vacuum(7 * _DAY_US)
    assert not left.exists()
    assert len(list(path.rglob("deletion_vector_*.bin"))) == kept
    assert len(list(path.glob("part-*.parquet"))) == 2
    assert sorted(open_plain_engine(path).read(["id"], "TRUE")["id"].to_pylist()) == ROWS


def test_widening_a_table_with_deletion_vectors_keeps_the_rows_that_are_not_deleted(tmp_path: Path) -> None:
    path = vector_table(tmp_path / "t")
    engine = open_plain_engine(path)
    engine.widen({"id": "DECIMAL(20,0)"})
    assert engine.columns == {"id": "DECIMAL(20,0)", "name": "STRING"}
    rows = engine.read(["id", "name"], "TRUE").sort_by("id")
    assert rows["id"].to_pylist() == ROWS
    assert rows["name"].to_pylist() == [f"n{number}" for number in ROWS]


def test_count_rows_is_unknown_if_deletion_vectors_can_hide_rows(tmp_path: Path) -> None:
    assert TableLog(vector_table(tmp_path / "t")).count_rows() is None
    engine = open_plain_engine(tmp_path / "plain")
    engine.create({"id": "BIGINT"})
    engine.append(pa.table({"id": [1, 2]}), "app", 1)
    assert TableLog(tmp_path / "plain").count_rows() == 2
