"""The files that a Delta table's log names, with their deletion vectors, which deltalake does not return.

    _delta_log/   newest complete checkpoint  +  every later commit N.json   ->   live files, removed files

A checkpoint is one Parquet file, several parts, or (version 2) a file that names sidecars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headstream.errors import StorageError
from headstream.replicate.storage.deletion_vectors import DeletionVector
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles

__all__ = ["LoggedFile", "LoggedFiles", "read_logged_files"]

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-fA-F-]{36})?\.(?:parquet|json)")
_COLUMNS: Final = [
    *("add.path", "add.deletionVector"),
    *("remove.path", "remove.deletionTimestamp", "remove.deletionVector"),
    "sidecar.path",
]


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A data file that a log names.

    Args:
        path: Within the table's directory, or a URI, as the log has it.
        vector: Its deletion vector.
        removed_ms: When it was removed, milliseconds since 1970 UTC; None for a live file.
    """

    path: str
    vector: DeletionVector | None = None
    removed_ms: int | None = None


@dataclass(slots=True)
class LoggedFiles:
    """The data files of a table's newest version, and removed ones that the log has not forgotten.

    A file whose deletion vector is replaced is removed with the old vector and is live with the new one.

    Args:
        live: (Decoded path, deletion vector) -> live file.
        removed: The same of removed files.
    """

    live: dict[tuple[str, DeletionVector | None], LoggedFile] = field(default_factory=dict)
    removed: dict[tuple[str, DeletionVector | None], LoggedFile] = field(default_factory=dict)

    def vector_names(self, since_ms: int) -> set[str]:
        """Return the names of the deletion-vector files, without directories, that versions since a time need.

        Args:
            since_ms: The time, milliseconds since 1970 UTC.

        Raises:
            DecodeError: a descriptor is invalid.
        """
        needed = [*self.live.values(), *(file for file in self.removed.values() if (file.removed_ms or 0) >= since_ms)]
        paths = (file.vector.path for file in needed if file.vector is not None)
        return {path.rpartition("/")[2] for path in paths if path is not None}

    def apply(self, action: dict[str, Any]) -> None:
        """Apply an action of the log; actions that name no data file change nothing."""
        for kind in ("remove", "add"):
            found = action.get(kind)
            if not found or found.get("path") is None:
                continue
            described = found.get("deletionVector")
            vector = DeletionVector.from_action(described) if described and described.get("storageType") else None
            key = unquote(found["path"]), vector
            self.live.pop(key, None)
            self.removed.pop(key, None)
            if kind == "add":
                self.live[key] = LoggedFile(found["path"], vector)
            else:
                self.removed[key] = LoggedFile(found["path"], vector, found.get("deletionTimestamp") or 0)


def read_logged_files(table: Place, version: int) -> LoggedFiles:
    """Return the files that a table's log names.

    Args:
        table: The table's directory or URI.
        version: A version that the log is known to have; the newest one is read.

    Raises:
        StorageError: the log cannot be read, or lacks a commit up to that version.
    """
    log = table / "_delta_log"
    names = StoreFiles(log).names() if isinstance(log, StorePlace) else [file.name for file in log.iterdir()]
    begin, checkpoint = _newest_checkpoint(names)
    found = LoggedFiles()
    for name in checkpoint:
        for action in _checkpoint_actions(log, name):
            found.apply(action)
    commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name)) is not None}
    for number in range(begin + 1, max([version, *commits]) + 1):
        if number not in commits:
            raise StorageError(f"the table's log lacks commit {number}", where=str(table))
        for line in _read(log, commits[number]).splitlines():
            if line.strip():
                found.apply(json.loads(line))
    return found


def _newest_checkpoint(names: list[str]) -> tuple[int, list[str]]:
    """Return the version and the files of the newest complete checkpoint; -1 and none without one."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = _CHECKPOINT.fullmatch(name)
        if match is not None:
            parts.setdefault((int(match[1]), int(match[2] or 1)), []).append(name)
    complete = [(version, found[:count]) for (version, count), found in parts.items() if len(found) >= count]
    return max(complete, default=(-1, []))


def _checkpoint_actions(log: Place, name: str) -> Iterator[dict[str, Any]]:
    content = _read(log, name)
    if name.endswith(".json"):
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
    else:
        actions = pq.ParquetFile(pa.BufferReader(content)).read(columns=_COLUMNS).to_pylist()
    for action in actions:
        sidecar = action.get("sidecar")
        if sidecar and sidecar.get("path") is not None:
            yield from _checkpoint_actions(log, f"_sidecars/{sidecar['path'].rpartition('/')[2]}")
        else:
            yield action


def _read(log: Place, name: str) -> bytes:
    if isinstance(log, Path):
        return (log / name).read_bytes()
    found = StoreFiles(log / name).read()
    if found is None:
        raise StorageError("the file of the table's log has been deleted while it was read", where=str(log / name))
    return found[0]
