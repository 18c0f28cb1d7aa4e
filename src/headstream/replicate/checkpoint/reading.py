"""Reads a checkpoint in an object store, also while its pipeline runs: into a directory that can be brought up again."""

from __future__ import annotations

from pathlib import Path

from headstream.errors import StorageError
from headstream.replicate.checkpoint.store_objects import CheckpointObjects
from headstream.replicate.storage.places import StorePlace

__all__ = ["CheckpointReader"]


class CheckpointReader:
    """A reader; it takes nothing over and writes nothing to the store.

    Args:
        place: The checkpoint.
        directory: The directory for its files.
        only: The files and directories wanted.
    """

    def __init__(self, place: StorePlace, directory: Path, only: tuple[str, ...] = ()) -> None:
        self._objects = CheckpointObjects(place)
        self._directory = directory
        self._only = only
        self._number = 0

    def refresh(self) -> None:
        """Bring the directory to the newest commit.

        Raises:
            StorageError: there is no checkpoint, or the store cannot be read.
            CorruptLogError: an object is missing or damaged.
        """
        is_first = not self._number
        for record in self._objects.read_all() if is_first else self._objects.read_after(self._number):
            self._objects.apply(record, self._directory, self._only)
            self._number = record.number
        if not self._number:
            raise StorageError(
                "there is no checkpoint",
                where=str(self._objects.place),
                advice="Is this the checkpoint of a pipeline that has run? Endpoint and keys are read from AWS_... variables",
            )
