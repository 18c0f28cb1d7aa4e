"""Files in an object store outside of Delta tables: checkpoints, owner files, schemas, metrics and probes."""

from __future__ import annotations

from functools import lru_cache

from headstream.errors import HeadstreamError, MissingExtraError
from headstream.replicate.storage.places import StorePlace, failure
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import StoreAccess, StoreClient


class StoreFiles:
    """The objects at and below a location; every method raises StorageError if the store cannot be reached.

    Args:
        retry_us: Time for which a request is retried, microseconds; by default the time in the location's settings.

    Raises:
        MissingExtraError: the store's client is not installed.
    """

    def __init__(self, place: StorePlace, retry_us: int | None = None) -> None:
        self._place = place
        self._retry_us = place.storage.retry_us if retry_us is None else retry_us

    def read(self) -> tuple[bytes, str] | None:
        """Return an object's bytes and the tag of its version; None if it does not exist."""
        with _Translated(self._place, "cannot be read"):
            return self._client().read(self._place.key)

    def create(self, content: bytes) -> bool:
        """Create an object; return False if it exists. Of concurrent calls, one succeeds.

        After a lost response, a retried request finds its own object and returns False; callers read the existing object.
        """
        with _Translated(self._place, "cannot be written"):
            return self._client().create(self._place.key, content)

    def replace(self, content: bytes, tag: str) -> bool:
        """Replace an object if its tag is still `tag`; return whether it was replaced."""
        with _Translated(self._place, "cannot be written"):
            return self._client().replace(self._place.key, content, tag)

    def has_any(self) -> bool:
        """Return whether an object exists below the location."""
        with _Translated(self._place, "cannot be listed"):
            return self._client().has_any(self._place.key)

    def names(self, after: str = "") -> list[str]:
        """Return the sorted names of objects below the location that follow `after`; deeper levels contain slashes."""
        with _Translated(self._place, "cannot be listed"):
            return self._client().names(self._place.key, after)

    def write(self, content: bytes) -> None:
        """Create or overwrite an object."""
        with _Translated(self._place, "cannot be written"):
            self._client().write(self._place.key, content)

    def folders(self) -> list[str]:
        """Return the names of the next level below the location that have objects below them."""
        with _Translated(self._place, "cannot be listed"):
            return self._client().folders(self._place.key)

    def remove(self) -> None:
        """Delete an object if it exists."""
        with _Translated(self._place, "cannot be deleted"):
            self._client().remove(self._place.key)

    def _client(self) -> StoreClient:
        access = self._place.access
        return _open(type(access), access.bucket, access.resolved(), self._retry_us)


class _Translated:
    """Converts exceptions of a client to StorageError without credentials."""

    def __init__(self, place: StorePlace, what: str) -> None:
        self._place = place
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ImportError):
            extra = self._place.access.extra
            raise MissingExtraError(
                f"{error.name}, the client for {self._place.access.service}, is not installed",
                where=str(self._place),
                advice=f"Run: pip install 'headstream[{extra}]'",
            ) from None
        if isinstance(error, Exception) and not isinstance(error, HeadstreamError):
            raise failure(self._place, f"the object {self._what}", str(error)) from None


@lru_cache(maxsize=64)
def _open(kind: type[StoreAccess], bucket: str, settings: StorageSettings, retry_us: int) -> StoreClient:
    return kind(bucket, settings).open_client(settings, retry_us)
