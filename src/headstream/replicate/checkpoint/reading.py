"""Reads a checkpoint in an object store into a directory, also while its pipeline is running."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from headstream.errors import StorageError
from headstream.replicate.checkpoint.records import Record
from headstream.replicate.checkpoint.store_objects import CheckpointObjects, SupersededError
from headstream.replicate.storage.places import StorePlace


class CheckpointReader:
    """Reads selected files into a directory, without taking over the checkpoint and without writing to the store."""

    def __init__(self, place: StorePlace, directory: Path, only: tuple[str, ...] = ()) -> None:
        self._objects = CheckpointObjects(place)
        self._directory = directory
        self._only = only
        self._number = 0

    def refresh(self) -> None:
        """Update the directory to the newest commit."""
        for _ in self.follow():
            pass
        if not self._number:
            raise StorageError(
                "there is no checkpoint",
                where=str(self._objects.place),
                advice="Check that this is the checkpoint of a pipeline that has run, and that endpoint and credentials are set "
                "in [storage] of the file given by --config, or in the environment",
            )

    def follow(self) -> Iterator[Record]:
        """Update the directory to the newest commit, yielding each record after it was applied.

        If the pipeline has deleted commits since the last call, the newest snapshot is read first.
        """
        while True:
            try:
                for record in self._objects.read_after(self._number) if self._number else self._objects.read_all():
                    self._objects.apply(record, self._directory, self._only)
                    self._number = record.number
                    yield record
            except SupersededError:
                self._clear()
            else:
                return

    def _clear(self) -> None:
        self._number = 0
        try:
            for path in self._directory.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError as error:
            raise StorageError(f"the copy of the checkpoint cannot be deleted: {error}", where=str(self._directory)) from error
