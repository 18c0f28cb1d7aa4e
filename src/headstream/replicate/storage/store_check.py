"""Checks at the start that a pipeline's object stores are reachable and writable, and support conditional puts for commits."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from headstream.errors import StorageError
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles

_PROBE: Final = "_headstream_probe"
_RETRY_US: Final = 5_000_000
"""Retry time of the check, microseconds: long enough for a short outage, and short enough to report a wrong endpoint soon."""


def check_stores(places: Iterable[Place], *, read: Place | None = None) -> None:
    """Check object stores: an object can be created, read and deleted, and a second creation is rejected.

    Args:
        places: Locations of any kind; paths are skipped.
        read: A location that is only read; its files are listed.

    Raises:
        StorageError: a store cannot be reached or written to, or ignores conditions, so two writers could commit the same
            version of a table.
        MissingExtraError: a store's client is not installed.
    """
    for place in dict.fromkeys(place for place in places if isinstance(place, StorePlace)):
        access = place.access
        probe = StoreFiles(place / f"{_PROBE}-{uuid.uuid4().hex}", _RETRY_US)
        with _explained(place):
            probe.create(b"headstream")  # False if the response was lost and the retry rejected
            is_conditional = not probe.create(b"again")
            found = probe.read()
            probe.remove()
        if not (is_conditional and found is not None and found[0] == b"headstream"):
            raise StorageError(
                f"the object store ignores {access.condition}: two writers could commit the same version of a table",
                where=str(place),
                advice=f"Use a store with conditional writes ({access.describe()})",
            )
    if isinstance(read, StorePlace):
        with _explained(read):
            StoreFiles(read, _RETRY_US).has_any()


@contextmanager
def _explained(place: StorePlace) -> Iterator[None]:
    """Add the attempted operation and advice to a store's error."""
    try:
        yield
    except StorageError as error:
        access = place.access
        what = f"the object store cannot be used: {error.what} (tried {access.describe()})"
        raise StorageError(what, where=str(place), advice=access.advice) from None
