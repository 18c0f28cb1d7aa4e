"""The mark of a checkpoint in a directory that has been moved into an object store: a file with the new place.

It is written before the checkpoint in the store is begun, so that both are never used; a move that ended between can be repeated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.storage.places import StorePlace

MOVED_FILE: Final = "moved.json"


def check_not_moved(directory: Path, to: StorePlace | None = None) -> None:
    """Raise ReplicateError if a checkpoint has been moved, except to `to`: an attempt of the same move can be repeated."""
    try:
        found = json.loads((directory / MOVED_FILE).read_text())["to"]
    except FileNotFoundError:
        return
    if to is None or found != str(to):
        raise ReplicateError(
            f"this checkpoint has been moved to {found}",
            where=str(directory),
            advice="Run with that checkpoint: two pipelines must not write the same tables",
        )


def note_moved(directory: Path, to: StorePlace) -> None:
    """Write the mark of a move to a place."""
    try:
        begun = directory / f".{MOVED_FILE}"
        begun.write_text(json.dumps({"to": str(to)}) + "\n")
        begun.replace(directory / MOVED_FILE)
    except OSError as error:
        raise StorageError(f"the checkpoint cannot be marked as moved: {error.strerror}", where=str(directory)) from error
