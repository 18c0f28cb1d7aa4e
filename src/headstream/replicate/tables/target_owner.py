"""The owner of a target: a file in the table's directory names the pipeline that writes the table. Other pipelines are rejected.

A pipeline cannot access another pipeline's deletions and load positions, so two pipelines would silently corrupt the table.

    <table>/_headstream.json     {"pipeline": "<identity>", "checkpoint": "<directory>"}; ignored by readers of Delta tables

A link creates the file in a directory; a conditional put (if absent, or if unchanged) creates the file in an object store.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.storage.places import Place, StorePlace, resolve_place
from headstream.replicate.storage.store_files import StoreFiles
from headstream.replicate.tables.table_places import has_table

OWNER_FILE: Final = "_headstream.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """A pipeline that writes tables.

    Args:
        take_over: Whether the pipeline takes over tables of other pipelines.
    """

    pipeline: str
    checkpoint: Place
    take_over: bool = False

    def claim(self, path: Place) -> None:
        """Claim a table without an owner for this pipeline. A table that does not exist is not claimed.

        Raises:
            ReplicateError: another pipeline owns the table, or the directory of a new table would be inside another table or
                contain another table. A vacuum would then delete the inner table's files.
        """
        if isinstance(path, StorePlace):
            self._claim_in_store(path)
            return
        try:
            if (path / "_delta_log").is_dir():
                self._claim(path / OWNER_FILE)
            else:
                _check_apart(path, path.parent, [log.parent for log in path.glob("*/_delta_log")])
        except OSError as error:
            raise StorageError(f"the owner of the table cannot be read: {error.strerror}", where=str(path)) from error

    def _claim(self, file: Path) -> None:
        owner = _read(file)
        if self._may_write(owner):
            owner = self._write(file, replace=owner is not None)
        self._check(owner, file.parent)

    def _claim_in_store(self, path: StorePlace) -> None:
        """Claim a table in an object store, with one request if the owner is known."""
        files = StoreFiles(path / OWNER_FILE)
        found = files.read()
        if found is None and not has_table(path):
            _check_apart(path, path.parent, [path / name for name in StoreFiles(path).folders()])
            return
        owner = None if found is None else _parse(found[0])
        if self._may_write(owner):
            # Of two concurrent requests the first wins: the object is read afterwards, also if a response was lost.
            if found is None:
                files.create(self._content())
            else:
                files.replace(self._content(), found[1])
            found = files.read()
            owner = {} if found is None else _parse(found[0])
        self._check(owner, path)

    def _may_write(self, owner: dict[str, Any] | None) -> bool:
        return owner is None or (self.take_over and owner.get("pipeline") != self.pipeline)

    def _check(self, owner: dict[str, Any] | None, path: Place) -> None:
        if owner is None or owner.get("pipeline") != self.pipeline:
            raise ReplicateError(
                f"another pipeline writes to the table, with the checkpoint {(owner or {}).get('checkpoint')}",
                where=str(path),
                advice="Set a separate target for each pipeline. If that checkpoint is lost, run with "
                "--take-over: the record of deletions is also lost, so reload the table",
            )

    def _write(self, file: Path, *, replace: bool) -> dict[str, Any]:
        """Write the owner file and return its content; of two concurrent claims, the first succeeds."""
        mine = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
        try:
            mine.write_bytes(self._content())
            if replace:
                mine.replace(file)
            else:
                os.link(mine, file)
        except FileExistsError:
            pass
        finally:
            mine.unlink(missing_ok=True)
        return _read(file) or {}

    def _content(self) -> bytes:
        return json.dumps({"pipeline": self.pipeline, "checkpoint": str(resolve_place(self.checkpoint))}).encode()


def _check_apart(path: Place, outer: Place, inner: Iterable[Place]) -> None:
    """Reject a new table whose location contains or is inside another table, as with a table named like a schema."""
    for other in [place for place in (outer, *inner) if has_table(place)]:
        raise ReplicateError(
            f"the directory of the table would be {'in' if other == outer else 'around'} the directory of another table, {other}",
            where=str(path),
            advice="Set another target for one of the tables: a vacuum of the outer table would delete the inner table's files",
        )


def _read(file: Path) -> dict[str, Any] | None:
    """Return the content of an owner file; None if it does not exist."""
    try:
        return _parse(file.read_bytes())
    except FileNotFoundError:
        return None


def _parse(content: bytes) -> dict[str, Any]:
    """Return the content of an owner file; empty if it is invalid."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
