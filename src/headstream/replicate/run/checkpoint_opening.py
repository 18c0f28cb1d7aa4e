"""Opens a pipeline's checkpoint: a directory, or one in an object store, with a working copy in a temporary directory."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.checkpoint.keeper import Keeper, LocalKeeper, StoreKeeper
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_check import check_stores

__all__ = ["open_keeper"]

_MOVED: Final = "moved.json"
"""A file of a directory's checkpoint that has been moved into an object store: it says where to."""


def open_keeper(config: ReplicateConfig, clock_us: Callable[[], int]) -> tuple[Keeper, ReplicateConfig]:
    """Open the checkpoint of a pipeline; return what keeps it, and the settings with the directory of its state.

    Args:
        config: The pipeline's settings.
        clock_us: The time, microseconds since 1970 UTC.

    Raises:
        ReplicateError: the checkpoint has been moved; or one is to be moved to a place that has one.
        StorageError: the store cannot be read or written.
    """
    place = config.checkpoint
    if not isinstance(place, StorePlace):
        _check_not_moved(place)
        return LocalKeeper(place), config
    first = config.checkpoint_from
    if first is not None:
        if not (first / "ledger.sqlite").is_file():
            raise StorageError(
                "there is no pipeline's checkpoint", where=str(first), advice="Name the directory that a pipeline used"
            )
        _check_not_moved(first)
    check_stores([place])
    directory = Path(tempfile.mkdtemp(prefix="headstream-checkpoint-"))
    keeper = StoreKeeper(place, directory, clock_us)
    weakref.finalize(keeper, shutil.rmtree, directory, True)  # at the end of the process, if close() was not called
    try:
        keeper.open(first)
        if first is not None:
            (first / _MOVED).write_text(json.dumps({"to": str(place)}) + "\n")
    except BaseException:
        keeper.close()
        raise
    return keeper, replace(config, local_copy=directory)


def _check_not_moved(directory: Path) -> None:
    try:
        to = json.loads((directory / _MOVED).read_text())["to"]
    except FileNotFoundError:
        return
    raise ReplicateError(
        f"this checkpoint has been moved to {to}",
        where=str(directory),
        advice="Run with that checkpoint; its tables must not be written from here too",
    )
