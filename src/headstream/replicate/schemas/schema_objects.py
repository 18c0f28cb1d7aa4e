"""A schema store in an object store: one object per schema, with a local copy per process.

<store>/<schema id, percent-encoded>.json     created once (StoreFiles.create), and never changed
<store>/.zone                                 the schema store's unique name
"""

from __future__ import annotations

import atexit
import functools
import math
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

from headstream.errors import StorageError
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles

_MARK_NAME: Final = ".zone"
_LIST_EVERY_S: Final = 5.0
"""Maximum age of a store's object list, seconds. An id that is requested for the first time is looked up immediately."""


@functools.cache
def copy_directory(mark: str) -> Path:
    """Return a directory for this process's copy of a schema store, which is deleted when the process ends."""
    directory = Path(tempfile.mkdtemp(prefix=f"headstream-zone-{mark[:8]}-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class SchemaObjects:
    """The objects of a schema store, and their local copy."""

    def __init__(self, place: StorePlace, directory: Path) -> None:
        self.place = place
        self._directory = directory
        self._listed_s: float | None = None
        self._asked: set[str] = set()

    def create(self, name: str, content: bytes) -> bool:
        """Store a schema; return False if the name exists."""
        is_new = StoreFiles(self.place / name).create(content)
        self._fetch(name)
        return is_new

    def look_up(self, name: str) -> None:
        """Copy a schema that is missing locally, if the store has it."""
        if name in self._asked:
            self.refresh()
        else:
            self._asked.add(name)
            self._fetch(name)

    def refresh(self) -> None:
        """Copy the schemas that are missing locally, at most every five seconds. The first call also stores local schemas."""
        if self._listed_s is not None and time.monotonic() < self._listed_s + _LIST_EVERY_S:
            return
        found = {name for name in StoreFiles(self.place).names() if "/" not in name and not name.startswith(".")}
        copied = {path.name for path in self._directory.glob("[!.]*.json")}
        for name in found - copied:
            self._fetch(name)
        if self._listed_s is None:  # the schema store may have been a directory until now
            for name in copied - found:
                StoreFiles(self.place / name).create((self._directory / name).read_bytes())
        self._listed_s = time.monotonic()

    def expire(self) -> None:
        """Make the next refresh() list the store, regardless of the time of the last refresh."""
        if self._listed_s is not None:
            self._listed_s = -math.inf

    def mark(self) -> str:
        """Return the schema store's unique name, created at the first call."""
        files = StoreFiles(self.place / _MARK_NAME)
        found = files.read()
        if found is None:
            files.create(uuid.uuid4().hex.encode())
            found = files.read()
        if found is None:
            raise StorageError("the schema store cannot be written", where=str(self.place))
        return found[0].decode()

    def _fetch(self, name: str) -> None:
        found = StoreFiles(self.place / name).read()
        if found is None:
            return
        temporary = self._directory / f".{name}.{os.getpid()}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(found[0])
            temporary.replace(self._directory / name)
        except OSError as error:
            raise StorageError(f"cannot write to the copy of the schema store: {error.strerror}", where=str(temporary)) from error
