"""Changes of rows by commits of deletion vectors, found by reading every key: the plainest way, for tests."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from headstream.replicate.storage import delta_commit
from headstream.replicate.storage.data_files import write_data_files
from headstream.replicate.storage.deletion_vectors import Positions
from headstream.replicate.storage.delta_commit import Conflict, commit_rows
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot, open_parquet
from headstream.replicate.storage.delta_places import delta_options
from headstream.replicate.storage.places import Place
from headstream.replicate.storage.table_files import create_file
from tests.support.replicate.plain_engine import open_plain_engine


def live_ids(snapshot: LogSnapshot, file: DataFile) -> dict[int, int]:
    """Return id -> position of a file's rows that are not deleted."""
    gone = set(snapshot.deleted_rows([file]).get(file.path, np.empty(0, np.uint32)).tolist())
    ids = open_parquet(snapshot, file).read(["id"])["id"].to_pylist()
    return {number: position for position, number in enumerate(ids) if position not in gone}


def find_rows(snapshot: LogSnapshot, ids: Collection[int]) -> dict[str, Positions]:
    """Return file -> its deleted rows once those with some ids are."""
    found: dict[str, Positions] = {}
    for path, file in snapshot.files.items():
        mine = [position for number, position in live_ids(snapshot, file).items() if number in ids]
        if mine:
            old = snapshot.deleted_rows([file]).get(path, np.empty(0, np.uint32))
            found[path] = np.union1d(old, np.array(mine, np.uint32)).astype(np.uint32)
    return found


def change_rows(snapshot: LogSnapshot, deleted: Collection[int], rows: pa.Table | None, version: int, app_id: str = "app") -> int:
    """Delete rows by their ids and add others, in one commit."""
    return commit_rows(
        snapshot,
        removed=find_rows(snapshot, deleted),
        added=[] if rows is None else write_data_files(snapshot, rows),
        app_id=app_id,
        version=version,
        operation="MERGE",
        metrics={"num_target_rows_deleted": len(deleted)},
        enable_deletion_vectors=True,
    )


def read_ids(snapshot: LogSnapshot) -> list[int]:
    """Return the ids of all rows, by our own reading."""
    return sorted(number for file in snapshot.files.values() for number in live_ids(snapshot, file))


def ids_by_deltalake(table: Place) -> list[int]:
    """Return the ids of all rows, by deltalake's reading of the newest version."""
    opened = DeltaTable(str(table), storage_options=delta_options(table))
    rows = pa.table(QueryBuilder().register("t", opened).execute("SELECT id FROM t").read_all())
    return sorted(rows["id"].to_pylist())


def check_commits(table: Place, rows: int = 12_000) -> None:
    """Check commits at a place: other readers, conflicts with ours and deltalake's, a lost answer, a checkpoint, vacuum."""
    open_plain_engine(table).create({"id": "BIGINT", "city": "STRING"}, ["city"])
    first, second = LogSnapshot.read(table), LogSnapshot.read(table)
    cities = ["Zürich / a", None, "b"]
    change_rows(first, [], pa.table({"id": pa.array(range(rows), pa.int64()), "city": [cities[n % 3] for n in range(rows)]}), 1)
    with pytest.raises(Conflict):
        change_rows(second, [], pa.table({"id": pa.array([1], pa.int64()), "city": ["b"]}), 1, "other")
    change_rows(second, {*range(0, rows, 5)}, pa.table({"id": pa.array([rows], pa.int64()), "city": ["new"]}), 2, "other")
    left = [number for number in range(rows + 1) if number % 5 or number == rows]
    assert ids_by_deltalake(table) == read_ids(second) == left
    assert any(file.vector is not None and file.vector.storage == "u" for file in second.files.values())
    with pytest.raises(Conflict):
        change_rows(first, {1}, None, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_commit, "create_file", _create_twice)
        change_rows(first, {1}, None, 3)
    assert LogSnapshot.read(table).transactions == {"app": 3, "other": 2} == first.transactions
    delta_commit.write_checkpoint(first)
    engine = open_plain_engine(table)
    assert engine.delete("id = 2") == 1
    engine.vacuum(0)
    assert second.advance()
    fresh = LogSnapshot.read(table)
    assert ids_by_deltalake(table) == read_ids(fresh) == read_ids(second) == left[2:]
    assert fresh.files == second.files


def _create_twice(table: Place, path: str, content: bytes) -> bool:
    """Create a file as a store's client does whose first request was answered too late."""
    assert create_file(table, path, content)
    return create_file(table, path, content)
