"""The file that marks a checkpoint in a directory as moved to an object store, with the new location.

The file is written before the checkpoint in the store is created, so only one of the two checkpoints is in use at any time. An
interrupted move can be repeated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.storage.places import StorePlace

MOVED_FILE: Final = "moved.json"


def check_not_moved(directory: Path, to: StorePlace | None = None) -> None:
    """Raise ReplicateError if a checkpoint was moved to a location other than `to`; the same move can be repeated."""
    try:
        found = json.loads((directory / MOVED_FILE).read_text())["to"]
    except FileNotFoundError:
        return
    if to is None or found != str(to):
        raise ReplicateError(
            f"this checkpoint has been moved to {found}",
            where=str(directory),
            advice="Use the checkpoint at the new location: two pipelines must not write to the same tables",
        )


def note_moved(directory: Path, to: StorePlace) -> None:
    """Mark a checkpoint as moved to a location."""
    try:
        begun = directory / f".{MOVED_FILE}"
        begun.write_text(json.dumps({"to": str(to)}) + "\n")
        begun.replace(directory / MOVED_FILE)
    except OSError as error:
        raise StorageError(f"the checkpoint cannot be marked as moved: {error.strerror}", where=str(directory)) from error
