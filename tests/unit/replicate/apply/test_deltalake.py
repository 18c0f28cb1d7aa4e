"""Tables whose deletion vectors another engine wrote: what is read, changed and deleted of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headstream.errors import StorageError
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


def spark_written(path: Path) -> Path:
    """Make a table as older versions did by Spark: the partition's value is in the path as it is."""
    engine = open_plain_engine(path)
    engine.create({"id": "BIGINT", "city": "STRING"}, ["city"])
    engine.append(pa.table({"id": [1, 2], "city": ["Zürich", "Zürich"]}), "app", 1)
    (path / "city=Z%C3%BCrich").rename(path / "city=Zürich")
    commit = path / f"_delta_log/{1:020d}.json"
    commit.write_text(commit.read_text("utf-8").replace("Z%25C3%25BCrich", "Zürich"), "utf-8")
    return path


@pytest.mark.parametrize(
    "commit",
    [
        lambda engine: engine.compact(),
        lambda engine: engine.compact(["id"]),
        lambda engine: engine.widen({"id": "DECIMAL(20,0)"}),
        lambda engine: engine.update({"id": "3"}, "id = 1"),
        lambda engine: engine.delete("id = 1"),
    ],
)
def test_engine_refuses_to_replace_files_whose_paths_it_would_spell_otherwise(tmp_path: Path, commit: Any) -> None:
    path = spark_written(tmp_path / "t")
    engine = open_plain_engine(path)
    with pytest.raises(StorageError, match="not ASCII"):
        commit(engine)
    engine.append(pa.table({"id": [3], "city": ["Zürich"]}), "app", 2)
    engine.vacuum(0)
    assert sorted(open_plain_engine(path).read(["id"], "TRUE")["id"].to_pylist()) == [1, 2, 3]


def test_missing_properties_are_those_that_an_older_table_lacks(tmp_path: Path) -> None:
    log = TableLog(spark_written(tmp_path / "t"))
    assert log.missing_properties == {}
    log.table.alter.set_table_properties({"delta.randomizeFilePrefixes": "false"})
    assert TableLog(tmp_path / "t").missing_properties == {"delta.randomizeFilePrefixes": "true"}
    open_plain_engine(tmp_path / "days").create({"id": "BIGINT", "day": "DATE"}, ["day"])
    assert TableLog(tmp_path / "days").missing_properties == {}
