"""Makes commits with deletion vectors, which deltalake does not support: deletes rows in files and adds new files, atomically.

    data files, vectors    ->    _delta_log/N+1.json by put-if-absent    ->    new version of the table

If N+1 exists, another writer may have changed the same rows, and Conflict is raised, unless N+1 is this commit, whose response
was lost.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from headstream.core.codec.json_text import dump_json
from headstream.errors import StorageError
from headstream.replicate.storage.deletion_vectors import Positions, write_vectors
from headstream.replicate.storage.delta_log import VECTORS_PROPERTY, DataFile, LogSnapshot, open_parquet
from headstream.replicate.storage.delta_places import Translated, open_table
from headstream.replicate.storage.table_files import create_file
from headstream.version import __version__

_LOGGER: Final = logging.getLogger(__name__)
_CHECKPOINT_INTERVAL: Final = 100
"""Default number of commits per checkpoint, as in deltalake; table properties can override it."""
_LONGEST_AGE_S: Final = 3600
"""Maximum age of a read log for a commit, seconds. An older log is read again, because later commits may have been deleted, and
then a used commit number would seem free."""


class Conflict(Exception):  # noqa: N818
    """Another writer has committed after the snapshot was read. The snapshot has advanced; find the rows again."""


def commit_rows(
    snapshot: LogSnapshot,
    *,
    removed: Mapping[str, Positions],
    added: Iterable[DataFile],
    app_id: str,
    version: int,
    operation: str,
    metrics: Mapping[str, int],
    enable_deletion_vectors: bool = False,
) -> int:
    """Delete rows and add files in one commit that records (app_id, version); return the commit's number.

    Args:
        snapshot: The snapshot in which the rows were found; advances to the commit.
        removed: Path of a live file -> all deleted rows, including previously deleted rows.
        added: New files from write_data_files(); read after the vectors are written.
        enable_deletion_vectors: Whether the commit enables the feature if the table lacks it.

    Raises:
        Conflict: another writer committed first; nothing is committed.
        StorageError: the store cannot be used, or a vector omits rows that are already deleted.
    """
    emptied = [path for path, positions in removed.items() if len(positions) == _count_rows(snapshot, snapshot.files[path])]
    kept = {path: positions for path, positions in removed.items() if path not in emptied}
    for path, positions in removed.items():
        file = snapshot.files[path]
        if len(positions) <= file.deleted or (len(positions) and int(positions[-1]) >= _count_rows(snapshot, file)):
            raise StorageError("a new deletion vector does not extend the deleted rows", where=f"{snapshot.table}/{path}")
    actions: list[dict[str, Any]] = []
    if kept and not snapshot.has_vectors:
        if not enable_deletion_vectors:
            raise StorageError("the table has no deletion vectors", where=str(snapshot.table))
        actions += _enabling(snapshot)
    vectors = write_vectors(snapshot.table, kept)
    for path, vector in vectors.items():
        snapshot.keep_vector(vector, kept[path])
    actions += [_remove(snapshot.files[path], data_change=True) for path in removed]
    actions += [_add(_with_vector(snapshot, snapshot.files[path], vector)) for path, vector in vectors.items()]
    actions += [_add(file) for file in added]
    actions.append({"txn": {"appId": app_id, "version": version, "lastUpdated": _now_ms()}})
    return _commit(snapshot, actions, operation, metrics)


def commit_files(
    snapshot: LogSnapshot, *, removed: Iterable[DataFile], added: Iterable[DataFile], operation: str, metrics: Mapping[str, int]
) -> int:
    """Replace live files with new files that have the same rows, in one commit; return its number and advance the snapshot.

    Raises:
        Conflict: another writer committed first; nothing is committed.
    """
    actions = [_remove(file, data_change=False) for file in removed]
    actions += [_add(DataFile({**file.action, "dataChange": False}, file.vector)) for file in added]
    return _commit(snapshot, actions, operation, metrics)


def drop_vectors(snapshot: LogSnapshot, properties: Collection[str] = ()) -> int:
    """Remove the feature from a table without vectors in one commit, and write a checkpoint; return the commit's number.

    Readers of the newest version then need no older commits. The given properties are removed from the table too.

    Raises:
        Conflict: another writer committed first; nothing is committed.
    """
    assert all(file.vector is None for file in snapshot.files.values())
    lost = {VECTORS_PROPERTY, *properties}
    configuration = {name: value for name, value in snapshot.configuration.items() if name not in lost}
    metadata = {"metaData": {**snapshot.metadata, "configuration": configuration}}
    number = _commit(snapshot, [{"protocol": snapshot.protocol.action_without_vectors}, metadata], "DROP FEATURE", {})
    write_checkpoint(snapshot)
    return number


def _commit(snapshot: LogSnapshot, actions: list[dict[str, Any]], operation: str, metrics: Mapping[str, int]) -> int:
    if time.monotonic() - snapshot.read_at > _LONGEST_AGE_S and snapshot.advance():
        raise Conflict
    number, own = snapshot.version + 1, str(uuid.uuid4())
    information = {
        "timestamp": _now_ms(),
        "operation": operation,
        "operationParameters": {},
        "readVersion": snapshot.version,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        "engineInfo": f"Headstream/{__version__}",
        "txnId": own,
    }
    actions = [{"commitInfo": information}, *actions]
    lines = map(json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode, actions)
    if not _is_created(snapshot, number, "\n".join([*lines, ""]).encode(), own):
        snapshot.advance()
        raise Conflict
    snapshot.apply(number, actions)
    snapshot.read_at = time.monotonic()
    if number % int(snapshot.configuration.get("delta.checkpointInterval", _CHECKPOINT_INTERVAL)) == 0:
        write_checkpoint(snapshot)  # no other code writes a checkpoint after these commits
    return number


def _is_created(snapshot: LogSnapshot, number: int, content: bytes, own: str) -> bool:
    """Create a commit; return False if a commit of another writer has its number."""
    try:
        if create_file(snapshot.table, f"_delta_log/{number:020d}.json", content):
            return True
    except StorageError as error:  # the response can be lost
        try:
            actions = snapshot.read_commit(number)
        except StorageError:
            raise error from None
    else:
        actions = snapshot.read_commit(number)
    return any((action.get("commitInfo") or {}).get("txnId") == own for action in actions)


def write_checkpoint(snapshot: LogSnapshot) -> None:
    """Write a checkpoint, and delete earlier commits that are older than the table's log retention.

    A failure is only logged as a warning, because readers do not need the checkpoint.
    """
    try:
        with Translated(snapshot.table, "the checkpoint cannot be written"):
            table = open_table(snapshot.table)
            if table is not None:
                table.create_checkpoint()
                if snapshot.configuration.get("delta.enableExpiredLogCleanup", "true") == "true":
                    table.cleanup_metadata()
    except StorageError as error:
        _LOGGER.warning("%s", error)


def _enabling(snapshot: LogSnapshot) -> list[dict[str, Any]]:
    """Return the actions that enable deletion vectors for a table."""
    configuration = {**snapshot.configuration, VECTORS_PROPERTY: "true"}
    metadata = {**snapshot.metadata, "configuration": configuration}
    protocol = [] if snapshot.protocol.has_vectors else [{"protocol": snapshot.protocol.action_with_vectors}]
    return [*protocol, {"metaData": metadata}]


def _count_rows(snapshot: LogSnapshot, file: DataFile) -> int:
    return int(open_parquet(snapshot, file).metadata.num_rows) if file.rows is None else file.rows


def _with_vector(snapshot: LogSnapshot, file: DataFile, vector: Any) -> DataFile:
    # Delta requires the number of rows of a file with a vector; all other statistics then include deleted rows.
    text = file.action.get("stats")
    if file.rows is None or file.stats.get("tightBounds") is not False:
        stats = {**file.stats, "numRecords": _count_rows(snapshot, file), "tightBounds": False}
        text = dump_json(stats, separators=(",", ":"))
    return DataFile({**file.action, "stats": text, "dataChange": True}, vector)


def _add(file: DataFile) -> dict[str, Any]:
    vector = {} if file.vector is None else {"deletionVector": file.vector.action}
    return {"add": {**file.action, **vector}}


def _remove(file: DataFile, *, data_change: bool) -> dict[str, Any]:
    vector = {} if file.vector is None else {"deletionVector": file.vector.action}
    action = {
        "path": file.path,
        "deletionTimestamp": _now_ms(),
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": file.partition_values,
        "size": file.size,
        **({"tags": file.action["tags"]} if "tags" in file.action else {}),
        **vector,
    }
    return {"remove": action}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
