"""Files in an object store outside of Delta tables: owner files and probes.

The client is obstore, a wrapper of Rust's object_store, which deltalake uses too: both have the same settings and retries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headstream.errors import MissingExtraError
from headstream.replicate.storage.places import StorePlace, failure
from headstream.replicate.storage.storage_settings import StorageSettings

if TYPE_CHECKING:
    from obstore.store import S3Store

__all__ = ["StoreFiles"]


class StoreFiles:
    """The objects at and below a place; every method raises StorageError where the store cannot be reached.

    Args:
        place: The place.
        retry_us: How long a request is retried, microseconds; by default as the place's settings have it.

    Raises:
        MissingExtraError: obstore is not installed.
    """

    def __init__(self, place: StorePlace, retry_us: int | None = None) -> None:
        self._place = place
        self._retry_us = retry_us

    def read(self) -> tuple[bytes, str] | None:
        """Return an object's bytes and the ETag of this version; None if there is none."""
        import obstore

        with _Translated(self._place, "cannot be read"):
            try:
                found = obstore.get(self._store(), self._place.key)
                return bytes(found.bytes()), str(found.meta["e_tag"])
            except FileNotFoundError:
                return None

    def create(self, content: bytes) -> bool:
        """Create an object; return False if it exists. Of concurrent calls, one succeeds.

        A request that is retried after a lost response finds its own object: callers read the existing one.
        """
        from obstore.exceptions import AlreadyExistsError

        try:
            self._put(content, "create")
        except AlreadyExistsError:
            return False
        return True

    def replace(self, content: bytes, tag: str) -> bool:
        """Replace an object if its ETag is still `tag`; return whether it was."""
        from obstore.exceptions import PreconditionError

        try:
            self._put(content, {"e_tag": tag})
        except PreconditionError:
            return False
        return True

    def has_any(self) -> bool:
        """Return whether there is an object below the place."""
        import obstore

        with _Translated(self._place, "cannot be listed"):
            pages = obstore.list(self._store(), prefix=self._place.key, chunk_size=1)
            return any(len(page) for page in pages)

    def names(self, after: str = "") -> list[str]:
        """Return the names of the objects below the place, in order; those of deeper levels with their slashes.

        Args:
            after: Only names that come after this one.
        """
        import obstore

        prefix = f"{self._place.key}/" if self._place.key else ""
        offset = f"{prefix}{after}" if after else None
        with _Translated(self._place, "cannot be listed"):
            pages = obstore.list(self._store(), prefix=self._place.key, offset=offset, chunk_size=1000)
            return sorted(str(found["path"]).removeprefix(prefix) for page in pages for found in page)

    def write(self, content: bytes) -> None:
        """Create or overwrite an object."""
        self._put(content, "overwrite")

    def folders(self) -> list[str]:
        """Return the names of the next level below the place that have objects below them."""
        import obstore

        with _Translated(self._place, "cannot be listed"):
            found = obstore.list_with_delimiter(self._store(), prefix=self._place.key)["common_prefixes"]
        return [prefix.rstrip("/").rpartition("/")[2] for prefix in found]

    def remove(self) -> None:
        """Delete an object; nothing if there is none."""
        import obstore

        with _Translated(self._place, "cannot be deleted"):
            obstore.delete(self._store(), self._place.key)

    def _put(self, content: bytes, mode: Any) -> None:
        import obstore

        with _Translated(self._place, "cannot be written"):
            obstore.put(self._store(), self._place.key, content, mode=mode, use_multipart=False)

    def _store(self) -> S3Store:
        return _open(self._place.bucket, self._place.storage.resolved(), self._retry_us)


class _Translated:
    """Converts obstore's exceptions into a StorageError without credentials, except those of failed conditions."""

    def __init__(self, place: StorePlace, what: str) -> None:
        self._place = place
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ImportError):
            raise MissingExtraError(
                "obstore, the client of object stores, is not installed",
                where=str(self._place),
                advice="Run: pip install 'headstream[s3]'",
            ) from None
        if not isinstance(error, Exception):
            return
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if not isinstance(error, (AlreadyExistsError, PreconditionError)):
            raise failure(self._place, f"the object {self._what}", str(error)) from None


@lru_cache(maxsize=64)
def _open(bucket: str, storage: StorageSettings, retry_us: int | None) -> S3Store:
    from obstore.store import S3Store

    return S3Store(bucket, **storage.store_options(retry_us))
