"""Folding: which files are written again, in which steps, and that no row changes."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headstream.errors import StorageError
from headstream.replicate.engines import folding
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.engine import VectorState
from headstream.replicate.engines.folding import Folded, fold, must_fold
from headstream.replicate.storage import delta_commit
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot
from headstream.replicate.storage.table_files import create_file
from tests.support.replicate.plain_engine import NoMappedTables, open_plain_engine
from tests.support.replicate.row_changes import change_rows, ids_by_deltalake, read_ids

CITIES = ["Zurich", None, ""]


def rows_of(ids: range) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "city": [CITIES[number % 3] for number in ids]})


def make_table(path: Path, files: int, rows: int, *, partitioned: bool = False) -> LogSnapshot:
    for number in range(files):
        own = rows_of(range(number * rows, (number + 1) * rows))
        write_deltalake(path, own, mode="append", partition_by=["city"] if partitioned else None)
    return LogSnapshot.read(path)


def test_fold_writes_heavy_files_again_and_leaves_large_ones_with_few_deleted_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "target_size", lambda _: 10)  # each file is large
    snapshot = make_table(tmp_path / "t", 3, 1000)
    change_rows(snapshot, {*range(200), *range(1000, 1199), 2500}, None, 1)
    kept = [path for path, file in snapshot.files.items() if file.deleted in (1, 199)]
    done = fold(snapshot)
    assert done == Folded(1, 1, 1, 200)
    assert set(kept) < set(snapshot.files)
    assert fold(snapshot) == Folded(), "nothing is left to be folded"
    assert ids_by_deltalake(tmp_path / "t") == read_ids(LogSnapshot.read(tmp_path / "t"))
    assert DeltaTable(tmp_path / "t").history(1)[0]["operation"] == "OPTIMIZE"
    assert all(not action["add"]["dataChange"] for action in snapshot.read_commit(snapshot.version) if "add" in action)


@pytest.mark.parametrize(
    ("sizes", "together"), [([5, 5], 2), ([3, 4, 5], 3), ([1, 1, 5], 2), ([1, 3], 0), ([7], 0), ([1, 1, 1, 6, 100], 4)]
)
def test_small_files_are_put_together_with_those_of_similar_size(sizes: list[int], together: int) -> None:
    """So a row is written again only as its file grows by half."""

    files = [DataFile({"path": str(number), "size": size}) for number, size in enumerate(sizes)]
    assert len(folding._similar(files)) == together


def test_fold_keeps_every_row_in_its_partition_in_steps_of_bounded_size(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t", 4, 300, partitioned=True)
    left = set(range(1200))
    rng = random.Random(1)
    for version in range(1, 5):
        gone = set(rng.sample(sorted(left), 80))
        new = range(1200 + version * 30, 1200 + version * 30 + 30)
        change_rows(snapshot, gone, rows_of(new), version)
        left = left - gone | {*new}
    most = max(file.size for file in snapshot.files.values())
    before = len(snapshot.files)
    one = fold(snapshot, steps=1, step_bytes=3 * most)
    assert one.commits == 1
    assert len(snapshot.files) < before
    assert any(file.deleted for file in snapshot.files.values()), "the step was bounded"
    fold(snapshot, step_bytes=3 * most)
    assert len(snapshot.files) <= 6
    assert ids_by_deltalake(tmp_path / "t") == read_ids(LogSnapshot.read(tmp_path / "t")) == sorted(left)
    rows = open_plain_engine(tmp_path / "t").read(["id", "city"], "TRUE")
    assert all(
        city == CITIES[number % 3] for number, city in zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True)
    )


def test_fold_removes_a_row_that_another_writer_deleted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = make_table(tmp_path / "t", 3, 100)
    change_rows(snapshot, {*range(50)}, None, 1)
    deleted: list[Any] = []

    def overtaken(table: Path, path: str, content: bytes) -> bool:
        if not deleted:
            deleted.append(DeltaTable(table).delete("id = 150"))
        return create_file(table, path, content)

    monkeypatch.setattr(delta_commit, "create_file", overtaken)
    assert fold(snapshot).commits == 1
    expected = [number for number in range(50, 300) if number != 150]
    assert ids_by_deltalake(tmp_path / "t") == read_ids(snapshot) == expected


def test_fold_ends_with_an_error_if_other_writers_come_first_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = make_table(tmp_path / "t", 3, 10)
    change_rows(snapshot, {1}, None, 1)

    def overtaken(table: Path, path: str, content: bytes) -> bool:
        write_deltalake(table, rows_of(range(1000, 1001)), mode="append")
        return create_file(table, path, content)

    monkeypatch.setattr(delta_commit, "create_file", overtaken)
    with pytest.raises(StorageError, match="5 attempts to merge files"):
        fold(snapshot)
    assert ids_by_deltalake(tmp_path / "t") == [0, *range(2, 30), *[1000] * 5]


def test_engine_folds_without_waiting_once_deleted_rows_are_half_as_many_as_the_others(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t", 3, 10)
    change_rows(snapshot, {number for number in range(30) if number % 3 == 0}, None, 1)
    assert not open_plain_engine(tmp_path / "t").fold()
    change_rows(snapshot, {1}, None, 2)
    engine = open_plain_engine(tmp_path / "t")
    assert engine.fold()
    assert not engine.fold()
    assert ids_by_deltalake(tmp_path / "t") == [number for number in range(2, 30) if number % 3]


def test_engine_folds_without_waiting_once_very_many_files_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_plain_engine(tmp_path / "t")
    snapshot = make_table(tmp_path / "t", 6, 10)
    monkeypatch.setattr(folding, "_MOST_FILES", 6)
    engine = open_plain_engine(tmp_path / "t")
    assert not engine.fold(), "without the feature"
    change_rows(snapshot, {1, 11, 21, 31, 41, 51}, None, 1)
    assert must_fold(snapshot)
    engine = open_plain_engine(tmp_path / "t")
    assert engine.fold()
    assert not engine.fold()
    assert len(LogSnapshot.read(tmp_path / "t").files) == 1
    assert engine.delete("id = 2") == 1, "the engine knows its own commit"
    assert ids_by_deltalake(tmp_path / "t") == [number for number in range(60) if number % 10 != 1 and number != 2]


def test_compaction_of_a_table_with_vectors_leaves_no_heavy_file(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t", 2, 1000)
    change_rows(snapshot, {*range(0, 2000, 3)}, None, 1)
    open_plain_engine(tmp_path / "t").compact()
    snapshot.advance()
    assert not any(file.deleted for file in snapshot.files.values())
    assert ids_by_deltalake(tmp_path / "t") == read_ids(snapshot) == [number for number in range(2000) if number % 3]


def test_vectors_tells_what_reading_a_table_has_to_skip_and_when_it_was_folded(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t", 3, 1000)
    change_rows(snapshot, {*range(0, 2000, 4)}, None, 1)
    engine = DeltaLakeEngine(tmp_path / "t", NoMappedTables(), "deletion-vectors")
    before_us = time.time_ns() // 1_000_000 * 1000
    assert not engine.fold()  # reads the log
    assert engine.vectors == VectorState("deletion-vectors", 2, 500, 0, None)
    engine.compact()
    found = engine.vectors
    assert found is not None
    assert (found.files, found.deleted) == (0, 0)
    assert found.folded_us is not None
    assert found.folded_us >= before_us
    assert open_plain_engine(tmp_path / "t", "deltalake").vectors is None
