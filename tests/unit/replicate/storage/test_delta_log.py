"""What the log of a table with deletion vectors names: tables that Spark wrote, with a checkpoint of either version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headstream.errors import StorageError
from headstream.replicate.storage.delta_log import LogSnapshot
from tests.support.replicate.vector_tables import SAMPLES, vector_table

LIVE = {
    "vectors": {"da1c88dd-e80f-4a8c-9562-b319755dec16", "828ccbd4-4f37-4cd4-a16f-155623eaf796"},
    "vectors-checkpoint-2": {"4312ebd4-5a5b-42e6-adf0-0d5a5a724242", "bb25da34-1949-47d4-b304-beb66259be82"},
}


def read(table: Path) -> LogSnapshot:
    return LogSnapshot.read(table, with_removed=True)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("until", [None, 4])
def test_read_finds_vectors_of_checkpoint_and_later_commits(tmp_path: Path, sample: str, until: int | None) -> None:
    """Without the commits that the checkpoint replaces, as a log is after its cleanup; or with all of them."""
    table = vector_table(tmp_path / "t", sample)
    for version in range(until or 0):
        (table / f"_delta_log/{version:020d}.json").unlink()
    files = read(table)
    assert sorted(file.deleted for file in files.files.values() if file.vector) == [2, 2]
    assert files.vector_names(1 << 62) == {f"deletion_vector_{name}.bin" for name in LIVE[sample]}
    assert len(files.vector_names(0)) == 4


@pytest.mark.parametrize("sample", SAMPLES)
def test_read_reads_all_commits_if_a_checkpoint_is_incomplete(tmp_path: Path, sample: str) -> None:
    table = vector_table(tmp_path / "t", sample)
    expected = read(table).vector_names(0)
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.*")
    checkpoint.rename(checkpoint.with_name(f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet"))
    assert read(table).vector_names(0) == expected


def test_read_reads_the_parts_of_a_checkpoint(tmp_path: Path) -> None:
    table = vector_table(tmp_path / "t")
    log = table / "_delta_log"
    whole = log / f"{4:020d}.checkpoint.parquet"
    expected = read(table).vector_names(0)
    shutil.copy(whole, log / f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet")
    whole.rename(log / f"{4:020d}.checkpoint.{2:010d}.{2:010d}.parquet")
    for version in range(5):
        (log / f"{version:020d}.json").unlink()
    assert read(table).vector_names(0) == expected


def test_advance_reads_another_table_that_was_made_in_the_directory(tmp_path: Path) -> None:
    table = vector_table(tmp_path / "t", "vectors")
    log = LogSnapshot.read(table)
    assert not log.advance()
    shutil.rmtree(table)
    write_deltalake(table, pa.table({"id": [1]}))
    assert log.advance()
    assert (log.version, len(log.files), log.metadata["id"]) == (0, 1, LogSnapshot.read(table).metadata["id"])


@pytest.mark.parametrize("version", [6, 7])
def test_read_refuses_a_log_that_lacks_a_commit(tmp_path: Path, version: int) -> None:
    table = vector_table(tmp_path / "t")
    (table / f"_delta_log/{version:020d}.json").unlink()
    with pytest.raises(StorageError, match=f"has no commit {version}"):
        LogSnapshot.read(table, at_least=7)


def test_read_knows_a_file_by_its_path_however_it_is_escaped(tmp_path: Path) -> None:
    log = tmp_path / "t/_delta_log"
    log.mkdir(parents=True)
    vector = {"storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    metadata = {"schemaString": "{}", "partitionColumns": []}
    actions = [
        {"add": {"path": "city=Zürich/a.parquet", "deletionVector": vector}},
        {"remove": {"path": "city=Z%C3%BCrich/a.parquet", "deletionVector": vector, "deletionTimestamp": 5}},
    ]
    for version, action in enumerate([{"metaData": metadata}, *actions]):
        (log / f"{version:020d}.json").write_text(json.dumps(action) + "\n", "utf-8")
    files = read(tmp_path / "t")
    assert not files.files
    assert (len(files.vector_names(5)), len(files.vector_names(6))) == (1, 0)
