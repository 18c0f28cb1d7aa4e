"""Opens a pipeline's checkpoint: a directory, or one in an object store, with a working copy in a temporary directory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headstream.errors import StorageError
from headstream.replicate.checkpoint.driver_lock import DriverLock
from headstream.replicate.checkpoint.keeper import Keeper, LocalKeeper, StoreKeeper
from headstream.replicate.checkpoint.moved import MOVED_FILE, check_not_moved, note_moved
from headstream.replicate.parked.own_log import recover_log
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_check import check_stores

__all__ = ["open_keeper"]


def open_keeper(config: ReplicateConfig, clock_us: Callable[[], int]) -> tuple[Keeper, ReplicateConfig]:
    """Open the checkpoint of a pipeline; return what keeps it, and the settings with the directory of its state.

    Args:
        config: The pipeline's settings.
        clock_us: The time, microseconds since 1970 UTC.

    Raises:
        ReplicateError: the checkpoint has been moved; or one is to be moved to a place that has one, or while a run has it.
        StorageError: the store cannot be read or written.
    """
    place = config.checkpoint
    if not isinstance(place, StorePlace):
        check_not_moved(place)
        return LocalKeeper(place), config
    check_stores([place])
    directory = Path(tempfile.mkdtemp(prefix="headstream-checkpoint-"))
    keeper = StoreKeeper(place, directory, clock_us)
    weakref.finalize(keeper, shutil.rmtree, directory, True)  # at the end of the process, if close() was not called
    try:
        if config.checkpoint_from is None:
            keeper.open(repair=recover_log)
        else:
            _move(config.checkpoint_from, keeper)
    except BaseException:
        keeper.close()
        raise
    return keeper, replace(config, local_copy=directory)


def _move(first: Path, keeper: StoreKeeper) -> None:
    """Begin a checkpoint in an object store with one in a directory, which no run has meanwhile."""
    if not (first / "ledger.sqlite").is_file():
        raise StorageError(
            "there is no pipeline's checkpoint", where=str(first), advice="Name the directory that a pipeline used"
        )

    def prepare(copy: Path) -> None:
        (copy / MOVED_FILE).unlink(missing_ok=True)
        recover_log(copy)
        note_moved(first, keeper.place)

    lock = DriverLock(first)
    lock.acquire()
    try:
        check_not_moved(first, keeper.place)
        keeper.open(first, repair=prepare)
    finally:
        lock.release()
