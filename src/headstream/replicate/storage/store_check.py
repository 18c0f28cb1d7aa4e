"""The check of a pipeline's object stores at its start: reachable, writable, and with conditional puts, which commits need."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from headstream.errors import StorageError
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles

__all__ = ["check_stores"]

_PROBE: Final = "_headstream_probe"
_RETRY_US: Final = 5_000_000
"""Retries of the check, microseconds: enough for a brief outage, short enough to report a wrong endpoint soon."""


def check_stores(places: Iterable[Place]) -> None:
    """Check each place in an object store: an object is created, a second creation is rejected, it is read and deleted.

    Args:
        places: Of any kind; paths are skipped.

    Raises:
        StorageError: a store cannot be reached or written, or it ignores `If-None-Match`, so that two writers could
            commit the same version of a table.
        MissingExtraError: obstore is not installed.
    """
    for place in dict.fromkeys(place for place in places if isinstance(place, StorePlace)):
        probe = StoreFiles(place / f"{_PROBE}-{uuid.uuid4().hex}", _RETRY_US)
        try:
            probe.create(b"headstream")  # False if the response was lost and the retry rejected
            is_conditional = not probe.create(b"again")
            found = probe.read()
            probe.remove()
        except StorageError as error:
            raise StorageError(
                f"the object store cannot be used: {error.what} (tried {place.storage.describe()})",
                where=str(place),
                advice="Check that the bucket exists and that these credentials may list, read, write and delete there. Set "
                "endpoint, region and keys in [storage] of the configuration file, or AWS_ENDPOINT_URL, AWS_REGION, "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ) from None
        if not (is_conditional and found is not None and found[0] == b"headstream"):
            raise StorageError(
                "the object store ignores If-None-Match: two writers could commit the same version of a table",
                where=str(place),
                advice=f"Use a store with conditional writes ({place.storage.describe()})",
            )
