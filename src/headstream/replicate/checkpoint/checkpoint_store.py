"""Stores for a pipeline's checkpoint: a directory, or commits to an object store, which outlive the machine.

In an object store the checkpoint is a log of records (store_objects.py). The run has a working copy in a local directory, with
the same files as a checkpoint in a directory: ledger, own log, schemas, deletions and Spark's offsets. Data that a table's commit
relies on is in the store before the commit:

    save()      before a unit is merged: the whole working copy
    publish()   before a table's commit: the table's deletions and rejected changes

Thus, a run on another machine resumes where the killed run stopped.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from headstream.errors import CorruptLogError, ReplicateError, StorageError
from headstream.replicate.checkpoint.driver_lock import DriverLock
from headstream.replicate.checkpoint.moved import check_not_moved
from headstream.replicate.checkpoint.reading import CheckpointReader
from headstream.replicate.checkpoint.records import Record, RecordWriter
from headstream.replicate.checkpoint.store_objects import CheckpointObjects, record_name
from headstream.replicate.checkpoint.working_files import Changes, WorkingFiles
from headstream.replicate.storage.places import StorePlace

_LOGGER: Final = logging.getLogger("headstream.replicate")
_SNAPSHOT_EVERY: Final = 100
"""Maximum number of commits after a snapshot."""
_SNAPSHOT_BYTES: Final = 8 << 20
"""A snapshot is written when the commits since the last snapshot exceed both this number of bytes and its size."""
ATTEMPTS: Final = 10
_WAIT_S: Final = 1.0


class CheckpointStore(Protocol):
    """Stores a checkpoint's working copy in the object store."""

    def begin(self) -> None:
        """Begin a run; raise ReplicateError if another process uses the checkpoint or has moved it to an object store."""

    def save(self, *, attempts: int = ATTEMPTS) -> None:
        """Store all changes durably.

        Args:
            attempts: Number of attempts if the store fails; each attempt lasts up to the storage setting `retry`.

        Raises:
            ReplicateError: another process has taken over the checkpoint.
        """

    def publish(self, below: Sequence[str]) -> None:
        """Store the changes at the given paths of the checkpoint before a table's commit relies on them; thread-safe.

        Raises:
            ReplicateError: another process has taken over the checkpoint.
        """

    def check(self) -> None:
        """Raise ReplicateError if an earlier call found that another process has the checkpoint; sends no request."""

    def close(self) -> None:
        """Release the checkpoint."""


class LocalCheckpointStore:
    """The store of a checkpoint in a directory, whose files are already durable; without a directory, nothing is locked."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._lock = None if directory is None else DriverLock(directory)

    def begin(self) -> None:
        """Lock the directory until close()."""
        if self._lock is not None and self._directory is not None:
            self._lock.acquire()
            check_not_moved(self._directory)  # since the pipeline was created

    def save(self, *, attempts: int = 1) -> None:
        """Do nothing: the files are already durable."""

    def publish(self, below: Sequence[str]) -> None:
        """Do nothing: the files are already durable."""

    def check(self) -> None:
        """Do nothing: the directory is locked."""

    def close(self) -> None:
        """Release the directory's lock."""
        if self._lock is not None:
            self._lock.release()


class ObjectCheckpointStore:
    """The store of a checkpoint in an object store, with a working copy in an initially empty directory."""

    def __init__(self, place: StorePlace, directory: Path, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self.place = place
        self.directory = directory
        self.driver = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._objects = CheckpointObjects(place)
        self._files = WorkingFiles(directory)
        self._clock_us = clock_us
        self._lock = threading.RLock()
        self._number = 0
        self._pending: tuple[bytes, Changes] | None = None
        self._lost: str | None = None
        self._snapshot_bytes = 0
        self._attempts = 0
        self._bytes_since = 0
        self._commits_since = 0

    def open(self, first: Path | None = None, *, repair: Callable[[Path], None] = lambda directory: None) -> None:
        """Fetch the checkpoint into the working copy, and take over the checkpoint from any other process.

        Args:
            first: A checkpoint in a directory, from which the checkpoint in the store is created.
            repair: Repairs the working copy before the first append, after a process was killed. The repairs are stored in the
                object store too.

        Raises:
            ReplicateError: `first` is given, and the store has a checkpoint.
        """
        while not self._fetch_and_take_over(first, repair):
            if first is not None:
                raise ReplicateError("another process has already begun a checkpoint at this location", where=str(self.place))
            shutil.rmtree(self.directory)
            self.directory.mkdir()

    def _fetch_and_take_over(self, first: Path | None, repair: Callable[[Path], None]) -> bool:
        for record in CheckpointReader(self.place, self.directory).follow():
            self._number = record.number
            if record.kind == "snapshots":
                self._snapshot_bytes, self._bytes_since, self._commits_since = record.stored_bytes, 0, 0
            else:
                self._bytes_since += record.stored_bytes
                self._commits_since += 1
        if first is None:
            self._files.accept(self._files.find_changes())
        elif self._number:
            raise ReplicateError(
                "a checkpoint already exists at this location, so no other checkpoint can be moved to it",
                where=str(self.place),
                advice="Run without --checkpoint-from, or set another --checkpoint",
            )
        else:
            shutil.copytree(first, self.directory, dirs_exist_ok=True)
        repair(self.directory)
        return self._take_over()

    def _take_over(self) -> bool:
        """Write the commit that takes over the checkpoint; return False if another process was faster."""
        self._objects.note_take_over(self._number + 1)
        changes = self._files.find_changes()
        raw = self._encode("commits", self._number + 1, changes)
        if self._objects.create_commit(self._number + 1, raw) is not None:
            return False
        if self._objects.newest_snapshot() > self._number:  # another process has written this commit and later deleted it
            self._objects.withdraw(self._number + 1)
            return False
        self._accept(raw, changes)
        return True

    def begin(self) -> None:
        """Do nothing: open() has taken over the checkpoint."""

    def save(self, *, attempts: int = ATTEMPTS) -> None:
        """Store all changes durably."""
        with self._lock:
            for attempt in range(1, attempts + 1):
                try:
                    self._commit(("",))
                    self._make_snapshot()
                except CorruptLogError:
                    raise
                except StorageError as error:
                    if attempt == attempts:
                        raise
                    _LOGGER.warning("the checkpoint cannot be written (attempt %d of %d): %s", attempt, attempts, error)
                    time.sleep(_WAIT_S)
                else:
                    return

    def publish(self, below: Sequence[str]) -> None:
        """Store the changes in the given files and directories, and check that this process still has the checkpoint."""
        with self._lock:
            self._commit(below, check=True)

    def check(self) -> None:
        """Raise ReplicateError if an earlier call found that another process has the checkpoint; sends no request."""
        if self._lost is not None:
            raise self._refusal()

    def close(self) -> None:
        """Delete the working copy."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _commit(self, below: Sequence[str], *, check: bool = False) -> None:
        self.check()
        if self._pending is not None:  # its response was lost: the next commit depends on whether it exists
            self._create(*self._pending)
        changes = self._files.find_changes(below)
        if not changes:
            if check and (other := self._objects.find_commit(self._number + 1)) is not None:
                self._lose(other)
            return
        self._create(self._encode("commits", self._number + 1, changes), changes)

    def _create(self, raw: bytes, changes: Changes) -> None:
        self._pending = raw, changes
        if (other := self._objects.create_commit(self._number + 1, raw)) is not None:
            self._lose(other)
        self._accept(raw, changes)

    def _accept(self, raw: bytes, changes: Changes) -> None:
        self._pending = None
        self._number += 1
        self._files.accept(changes)
        self._bytes_since += len(raw)
        self._commits_since += 1

    def _encode(self, kind: str, number: int, changes: Changes) -> bytes:
        """Store the chunks of a record and return the record. Each attempt uses a new name, since older chunks can exist."""
        self._attempts += 1
        driver = f"{self.driver}.{self._attempts}"
        name = record_name(kind, number, driver)

        def store_chunk(place: int, chunk: bytes) -> None:
            self._objects.write_chunk(name, place, chunk)
            self._bytes_since += len(chunk)

        writer = RecordWriter(kind, store_chunk)
        for change in changes.files:
            writer.add(change, self._files.data(changes, change))
        return writer.finish(number, driver, self._clock_us(), changes.removed)

    def _make_snapshot(self) -> None:
        """Write a snapshot if there are many commits since the last snapshot, or if these are larger than the snapshot."""
        is_due = self._commits_since >= _SNAPSHOT_EVERY or self._bytes_since > max(self._snapshot_bytes, _SNAPSHOT_BYTES)
        if not is_due:
            return
        everything = self._files.everything()
        if everything is None:  # a file has changed since the commit
            return
        raw = self._encode("snapshots", self._number, everything)
        self._objects.write_snapshot(self._number, raw)
        self._snapshot_bytes, self._bytes_since, self._commits_since = len(raw), 0, 0
        self._objects.prune()

    def _lose(self, other: Record) -> None:
        self._lost = other.driver
        raise self._refusal()

    def _refusal(self) -> ReplicateError:
        return ReplicateError(
            f"another process has taken over the checkpoint: {self._lost}",
            where=str(self.place),
            advice="Run one process per checkpoint; this process stopped without further changes",
        )
