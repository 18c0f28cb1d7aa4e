"""Finds the files and file parts in a checkpoint's working copy that changed since the last record.

    *.sqlite                    read through SQLite, including the write-ahead log, and compared page by page
    log/streams/…  .log .index  append-only: earlier bytes are not read again
    all other files             stored completely; only files below log/ change in place

Checking an unchanged directory of a table's deletions costs one stat, regardless of the number of files. Locks, temporary files,
and key indexes (which can be rebuilt) are excluded.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import xxhash

from headstream.errors import StorageError
from headstream.replicate.checkpoint.records import FileChange

_PAGE_BYTES: Final = 4096
_READ_BYTES: Final = 4 << 20
_SETTLED_NS: Final = 2_000_000_000
"""A path that changed less than this time (nanoseconds) before a check is read again: its next change can have the same mtime."""
_DATABASE: Final = ".sqlite"
_LEFT_OUT: Final = (".lock", ".tmp", ".keys", ".sqlite-wal", ".sqlite-shm", ".sqlite-journal")
_APPENDED: Final = (".log", ".index")
_LIVE: Final = "log"
"""The directory whose files change in place."""
_SPARK: Final = "spark"
"""The directory to which Spark's own thread writes; a file is written once."""
_ZONE_MARK: Final = ".zone"

_Stamp = tuple[int, ...]


@dataclass(slots=True)
class _Known:
    """A file at the last record: its size, a stamp that changes with the file, and the page digests of a database."""

    size: int
    stamp: _Stamp | None
    digest: bytes = b""
    pages: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """The files that changed since the last record (WorkingFiles.data() returns their bytes), and the paths of removed files."""

    files: list[FileChange] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    known: dict[str, _Known] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files or self.removed)


class WorkingFiles:
    """The files of one directory."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._known: dict[str, _Known] = {}
        self._listed: dict[str, tuple[int, list[str], list[str]]] = {}

    def find_changes(self, below: Sequence[str] = ("",)) -> Changes:
        """Return the changes since the last accept() at the given paths of the checkpoint; "" is the whole checkpoint."""
        changes = Changes()
        began_ns = time.time_ns()
        seen: set[str] = set()
        try:
            for place in below:
                for path, found in self._files(place, began_ns):
                    seen.add(path)
                    self._compare(path, found, began_ns, changes)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"the checkpoint's working copy cannot be read: {error}", where=str(self._root)) from error
        within = [place.rstrip("/") for place in below]
        changes.removed = sorted(
            path
            for path in self._known
            if path not in seen and any(not place or path == place or path.startswith(f"{place}/") for place in within)
        )
        return changes

    def data(self, changes: Changes, change: FileChange) -> Iterator[bytes | memoryview]:
        """Iterate over the bytes of a change's pieces."""
        if change.path in changes.contents:
            for at, length in change.pieces:
                yield memoryview(changes.contents[change.path])[at : at + length]
            return
        if not change.pieces:
            return
        try:
            file = (self._root / change.path).open("rb")
        except OSError as error:  # Spark can delete its oldest files at any time
            reason = f"the checkpoint's working copy cannot be read: {error.strerror}"
            raise StorageError(reason, where=str(self._root / change.path)) from error
        with file:
            for at, length in change.pieces:
                file.seek(at)
                while length:
                    part = file.read(min(length, _READ_BYTES))
                    if not part:
                        raise StorageError(
                            "a file of the checkpoint's working copy was truncated", where=str(self._root / change.path)
                        )
                    length -= len(part)
                    yield part

    def accept(self, changes: Changes) -> None:
        """Mark changes as stored in a record."""
        self._known |= changes.known
        for path in changes.removed:
            self._known.pop(path, None)

    def everything(self) -> Changes | None:
        """Return all files as in the last record, for a snapshot, each as one piece; None if a file has changed."""
        if any(change.path.split("/")[0] != _SPARK for change in self.find_changes().files):
            return None
        changes = Changes()
        for path, known in sorted(self._known.items()):
            if path.endswith(_DATABASE):
                content = _serialize(self._root / path)
                if _digests(content) != known.pages:
                    return None
                changes.contents[path] = content
            elif not (self._root / path).exists():  # Spark can delete its oldest files at any time
                continue
            changes.files.append(FileChange(path, known.size, [(0, known.size)] if known.size else []))
        return changes

    def _files(self, place: str, began_ns: int) -> Iterator[tuple[str, os.stat_result | None]]:
        """Iterate over files and their stat(), which is None in directories that have not changed."""
        try:
            found = (self._root / place).stat() if place else self._root.stat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode):
            yield place, found
            return
        is_live = place.split("/")[0] in ("", _LIVE)
        listed = self._listed.get(place)
        if listed is None or is_live or listed[0] != found.st_mtime_ns:
            names, folders = _list(self._root / place)
            # Not cached while a file can still be added within the same tick of the directory's clock.
            is_settled = found.st_mtime_ns < began_ns - _SETTLED_NS
            self._listed.pop(place, None)
            if is_settled and not is_live:
                self._listed[place] = found.st_mtime_ns, names, folders
            stats = True
        else:
            (_, names, folders), stats = listed, False
        for name in names:
            path = f"{place}/{name}" if place else name
            if not _is_kept(name):
                continue
            if not stats and path in self._known:
                yield path, None
                continue
            try:
                yield path, (self._root / path).stat()
            except FileNotFoundError:  # renamed or deleted by Spark in the meantime
                continue
        if is_live and place and not names and not folders:  # a partition without messages is an empty directory
            yield f"{place}/", found
        for name in folders:
            yield from self._files(f"{place}/{name}" if place else name, began_ns)

    def _compare(self, path: str, found: os.stat_result | None, began_ns: int, changes: Changes) -> None:
        known = self._known.get(path)
        if found is None:
            return
        if path.endswith("/"):
            changes.known[path] = _Known(0, (0,))
            if known is None:
                changes.files.append(FileChange(path, 0, []))
            return
        stamp: _Stamp = (found.st_size, found.st_mtime_ns, found.st_ino)
        newest_ns = found.st_mtime_ns
        if path.endswith(_DATABASE):
            with_log = self._stat_log(path)
            stamp, newest_ns = (*stamp, *with_log), max(newest_ns, *with_log)
        if known is not None and known.stamp == stamp:
            return
        kept = stamp if newest_ns < began_ns - _SETTLED_NS else None
        if path.endswith(_DATABASE):
            self._compare_database(path, known, kept, changes)
        elif path.endswith(_APPENDED) and path.startswith(f"{_LIVE}/"):
            changes.known[path] = _Known(found.st_size, kept)
            begin = 0 if known is None or known.size > found.st_size else known.size
            if known is None or known.size != found.st_size:
                pieces = [(begin, found.st_size - begin)] if found.st_size > begin else []
                changes.files.append(FileChange(path, found.st_size, pieces))
        elif found.st_size > _READ_BYTES:  # a file of deletions, which never changes
            changes.known[path] = _Known(found.st_size, kept or stamp)
            changes.files.append(FileChange(path, found.st_size, [(0, found.st_size)]))
        else:
            try:
                content = (self._root / path).read_bytes()
            except FileNotFoundError:
                return
            digest = xxhash.xxh3_128_digest(content)
            changes.known[path] = _Known(len(content), kept, digest)
            if known is None or known.digest != digest or known.size != len(content):
                changes.files.append(FileChange(path, len(content), [(0, len(content))] if content else []))
                changes.contents[path] = content

    def _stat_log(self, path: str) -> tuple[int, int]:
        try:
            found = (self._root / f"{path}-wal").stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_size, found.st_mtime_ns

    def _compare_database(self, path: str, known: _Known | None, stamp: _Stamp | None, changes: Changes) -> None:
        content = _serialize(self._root / path)
        pages = _digests(content)
        before = [] if known is None else known.pages
        changes.known[path] = _Known(len(content), stamp, pages=pages)
        pieces: list[tuple[int, int]] = []
        for number, digest in enumerate(pages):
            if number < len(before) and before[number] == digest:
                continue
            at = number * _PAGE_BYTES
            length = min(_PAGE_BYTES, len(content) - at)
            if pieces and sum(pieces[-1]) == at:
                pieces[-1] = pieces[-1][0], pieces[-1][1] + length
            else:
                pieces.append((at, length))
        if pieces or known is None or known.size != len(content):
            changes.files.append(FileChange(path, len(content), pieces))
            changes.contents[path] = content


def _list(directory: Path) -> tuple[list[str], list[str]]:
    """Return the names of a directory's files and subdirectories."""
    names: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
    except FileNotFoundError:
        pass
    return sorted(names), sorted(folders)


def _is_kept(name: str) -> bool:
    if name.startswith("."):  # temporary files of Spark and of the schema store, and Hadoop's checksums, which are not needed
        return name == _ZONE_MARK
    return not name.endswith(_LEFT_OUT)


def _digests(content: bytes) -> list[bytes]:
    view = memoryview(content)
    return [xxhash.xxh3_128_digest(view[at : at + _PAGE_BYTES]) for at in range(0, len(content), _PAGE_BYTES)]


def _serialize(path: Path) -> bytes:
    """Return a consistent copy of a database's bytes, including the write-ahead log."""
    place = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(place, isolation_level=None, uri=True, timeout=30)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        return connection.serialize()
