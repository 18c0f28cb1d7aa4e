"""Objects in S3, Azure and Google Cloud Storage, through obstore, which wraps Rust's object_store (also used by deltalake)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class ObjectClient:
    """The objects of a bucket or container. `uses_versions`: conditions use an object's version (Google), not its ETag."""

    def __init__(self, store: ObjectStore, *, uses_versions: bool = False) -> None:
        self._store = store
        self._condition = "version" if uses_versions else "e_tag"

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Return an object's bytes and tag; see StoreClient."""
        try:
            found = obstore.get(self._store, key)
            return bytes(found.bytes()), str(found.meta[self._condition])  # type: ignore[literal-required]
        except FileNotFoundError:
            return None

    def create(self, key: str, content: bytes) -> bool:
        """Create an object; return False if it exists."""
        try:
            self._put(key, content, "create")
        except AlreadyExistsError:
            return False
        return True

    def replace(self, key: str, content: bytes, tag: str) -> bool:
        """Replace an object if it still has the given tag; return whether it was replaced."""
        try:
            self._put(key, content, {self._condition: tag})
        except PreconditionError:
            return False
        return True

    def write(self, key: str, content: bytes) -> None:
        """Create or overwrite an object."""
        self._put(key, content, "overwrite")

    def remove(self, key: str) -> None:
        """Delete an object if it exists."""
        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:  # Azure and Google raise this error
            return

    def has_any(self, prefix: str) -> bool:
        """Return whether an object exists below a key."""
        return any(len(page) for page in obstore.list(self._store, prefix=prefix, chunk_size=1))

    def names(self, prefix: str, after: str) -> list[str]:
        """Return the names of the objects below a key that follow a given name, in order."""
        root = f"{prefix}/" if prefix else ""
        pages = obstore.list(self._store, prefix=prefix, offset=f"{root}{after}" if after else None, chunk_size=1000)
        names = (str(found["path"]).removeprefix(root) for page in pages for found in page)
        return sorted(name for name in names if name > after)  # some servers ignore the offset

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the next level below a key."""
        found = obstore.list_with_delimiter(self._store, prefix=prefix)["common_prefixes"]
        return [folder.rstrip("/").rpartition("/")[2] for folder in found]

    def _put(self, key: str, content: bytes, mode: Any) -> None:
        obstore.put(self._store, key, content, mode=mode, use_multipart=False)
