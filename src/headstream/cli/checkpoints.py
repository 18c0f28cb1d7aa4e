"""A pipeline's checkpoint for commands that read it: a directory as it is, or a copy of one in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headstream.replicate.storage.places import Place

__all__ = ["read_checkpoint"]

_READ: Final = ("ledger.sqlite", "zone")


@contextmanager
def read_checkpoint(checkpoint: Place) -> Iterator[Callable[[], Path]]:
    """Yield a function that returns a directory with the newest ledger and schema zone of a checkpoint.

    Args:
        checkpoint: Its place.
    """
    if isinstance(checkpoint, Path):
        yield lambda: checkpoint
        return
    from headstream.replicate.checkpoint.reading import CheckpointReader

    with TemporaryDirectory(prefix="headstream-") as directory:
        reader = CheckpointReader(checkpoint, Path(directory), _READ)

        def read() -> Path:
            reader.refresh()
            return Path(directory)

        yield read
