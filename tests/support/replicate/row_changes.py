"""Changes of rows by commits of deletion vectors, found by reading every key: the plainest way, for tests."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from headstream.replicate.storage.deletion_vectors import Positions
from headstream.replicate.storage.delta_commit import commit_rows, write_data_files
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot, open_parquet
from headstream.replicate.storage.delta_places import delta_options
from headstream.replicate.storage.places import Place


def live_ids(snapshot: LogSnapshot, file: DataFile) -> dict[int, int]:
    """Return id -> position of a file's rows that are not deleted."""
    gone = set(snapshot.deleted_rows([file]).get(file.path, np.empty(0, np.uint32)).tolist())
    ids = open_parquet(snapshot, file).read(["id"])["id"].to_pylist()
    return {number: position for position, number in enumerate(ids) if position not in gone}


def find_rows(snapshot: LogSnapshot, ids: Collection[int]) -> dict[str, Positions]:
    """Return file -> its deleted rows once those with some ids are."""
    found = {}
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
