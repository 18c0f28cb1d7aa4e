"""The objects of a checkpoint in an object store.

    commits/0000000012      a record of the changes since commit 11; created only if the object does not exist
    snapshots/0000000012    a record of all files after commit 12
    parts/<record>/…        chunks of large records
    drivers/0000000013      shows that commit 13 takes over the checkpoint
    requests/…              requests from other machines, see remote_requests.py

The process that creates commit 13 has the checkpoint. If two processes try to create it, the store refuses one, which then stops.
A process takes over a checkpoint with an empty commit. This commit is never deleted, so the previous process always finds
that its next number exists. After taking over, a process looks for a snapshot with the number of its commit or a higher number.
Such a snapshot shows that the process has read an old state and recreated a deleted commit; the process then starts again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from headstream.errors import CorruptLogError, StorageError
from headstream.replicate.checkpoint.records import Record, read_record
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles

_NAME: Final = re.compile(r"\d{10}")
_KEPT_SNAPSHOTS: Final = 2
"""Number of snapshots to keep: the newest, and the previous one for readers that have begun to read it."""


class SupersededError(StorageError):
    """An object was deleted after it was listed or read; a newer snapshot has its content."""


class CheckpointObjects:
    """The objects at one location. Every method raises StorageError if the store cannot be reached."""

    def __init__(self, place: StorePlace) -> None:
        self.place = place

    def exists(self) -> bool:
        """Return whether a checkpoint exists."""
        return bool(self._names("snapshots") or self._names("commits"))

    def newest_snapshot(self) -> int:
        """Return the number of the newest snapshot, or 0 if there is none. Commits up to this number may have been deleted."""
        return max(self._names("snapshots"), default=0)

    def read_all(self) -> Iterator[Record]:
        """Iterate over the newest snapshot, if any, and the commits after it.

        Raises:
            SupersededError: the pipeline has deleted a commit in the meantime; call read_all() to find a newer snapshot.
        """
        snapshot = self.newest_snapshot()
        if snapshot:
            yield self._read("snapshots", snapshot)
        yield from self.read_after(snapshot)

    def read_after(self, number: int) -> Iterator[Record]:
        """Iterate over the commits after a number; raises the errors of read_all()."""
        for found in self._names("commits", number):
            if found != number + 1:
                place = self._place_of("commits", number + 1)
                raise self._missing("a commit of the checkpoint is missing", place, number + 1)
            number = found
            yield self._read("commits", found)

    def find_commit(self, number: int) -> Record | None:
        """Return a commit; None if it does not exist."""
        place = self._place_of("commits", number)
        found = StoreFiles(place).read()
        return None if found is None else read_record(found[0], str(place))

    def create_commit(self, number: int, raw: bytes) -> Record | None:
        """Store a commit. Return None if this or an earlier call stored it; otherwise the other commit with its number."""
        place = self._place_of("commits", number)
        if StoreFiles(place).create(raw):
            return None
        found = self.find_commit(number)  # a response can be lost, and its request repeated
        if found is None:  # S3 rejects a request while another request for the object, such as a first attempt, is unfinished
            raise StorageError("the store rejected a checkpoint commit although no other commit exists", where=str(place))
        return None if found.raw == raw else found

    def write_snapshot(self, number: int, raw: bytes) -> None:
        """Store a snapshot."""
        StoreFiles(self._place_of("snapshots", number)).write(raw)

    def write_chunk(self, record: str, place: int, chunk: bytes) -> None:
        """Store a chunk of a large record."""
        StoreFiles(self.place / "parts" / record / f"{place:06d}").write(chunk)

    def note_take_over(self, number: int) -> None:
        """Record that a commit takes over the checkpoint, so prune() never deletes it."""
        StoreFiles(self._place_of("drivers", number)).write(b"")

    def withdraw(self, number: int) -> None:
        """Delete a take-over commit that came too late, and its record of note_take_over()."""
        StoreFiles(self._place_of("commits", number)).remove()
        StoreFiles(self._place_of("drivers", number)).remove()

    def prune(self) -> None:
        """Delete objects that no reader needs. Keep the newest two snapshots, later commits, and take-over commits."""
        snapshots = self._names("snapshots")
        if len(snapshots) < _KEPT_SNAPSHOTS:
            return
        oldest = snapshots[-_KEPT_SNAPSHOTS]
        kept = set(self._names("drivers"))
        obsolete = [self._place_of("snapshots", number) for number in snapshots if number < oldest]
        commits = [number for number in self._names("commits") if number <= oldest and number not in kept]
        obsolete += [self._place_of("commits", number) for number in commits]
        parts = self.place / "parts"
        for name in StoreFiles(parts).names():
            kind, number, _ = name.split("-", 2)
            if int(number) < oldest + (kind == "commits"):
                obsolete.append(parts / name)
        for place in obsolete:
            StoreFiles(place).remove()

    def apply(self, record: Record, directory: Path, only: tuple[str, ...] = ()) -> None:
        """Apply a record to a directory in the state before the record; with `only`, change only these files and directories."""
        body = record.body(lambda place: self._chunk(record, place))
        chunk = memoryview(b"")
        try:
            for path in record.removed:
                if not path.endswith("/"):  # otherwise a directory that is no longer empty
                    (directory / path).unlink(missing_ok=True)
            for change in record.files:
                if change.path.endswith("/"):
                    (directory / change.path).mkdir(parents=True, exist_ok=True)
                    continue
                is_wanted = not only or any(change.path == name or change.path.startswith(f"{name}/") for name in only)
                target = directory / change.path
                if is_wanted:
                    target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("r+b" if target.exists() else "w+b") if is_wanted else nullcontext() as file:
                    for at, length in change.pieces:
                        while length:
                            chunk = chunk or next(body)
                            part, chunk = chunk[:length], chunk[length:]
                            if file is not None:
                                file.seek(at)
                                file.write(part)
                            at, length = at + len(part), length - len(part)
                    if file is not None:
                        file.truncate(change.size)
        except OSError as error:
            raise StorageError(f"the checkpoint's working copy cannot be written: {error}", where=str(directory)) from error

    def _chunk(self, record: Record, place: int) -> bytes:
        where = self.place / "parts" / record_name(record.kind, record.number, record.driver) / f"{place:06d}"
        found = StoreFiles(where).read()
        if found is None:
            in_snapshot = record.number + (record.kind == "snapshots")
            raise self._missing("a part of the checkpoint is missing", where, in_snapshot)
        return found[0]

    def _missing(self, what: str, place: StorePlace, in_snapshot: int) -> SupersededError | CorruptLogError:
        """Return the error for a missing object: SupersededError if a snapshot has this or a higher number."""
        if self.newest_snapshot() >= in_snapshot:
            return SupersededError("the checkpoint changed while it was read", where=str(place), advice="Retry")
        return CorruptLogError(what, where=str(place), advice="Restore all objects of the checkpoint from one backup")

    def _read(self, kind: str, number: int) -> Record:
        place = self._place_of(kind, number)
        found = StoreFiles(place).read()
        if found is None:  # deleted since it was listed
            raise self._missing("an object of the checkpoint is missing", place, number + (kind == "snapshots"))
        return read_record(found[0], str(place))

    def _names(self, kind: str, after: int = 0) -> list[int]:
        names = StoreFiles(self.place / kind).names(f"{after:010d}" if after else "")
        return [int(name) for name in names if _NAME.fullmatch(name)]

    def _place_of(self, kind: str, number: int) -> StorePlace:
        return self.place / kind / f"{number:010d}"


def record_name(kind: str, number: int, driver: str) -> str:
    """Return the name of the folder with a record's chunks."""
    return f"{kind}-{number:010d}-{driver}"
