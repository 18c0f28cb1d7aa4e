"""Places: a path of this machine, or a URI of an object store. Both have `/`, `.parent`, `.name` and str().

    s3://bucket/key   s3a://bucket/key (the same)     supported
    abfss://, gs://, hdfs://                          recognized, and rejected as not yet supported
    file:///path, path                                a path

A URI contains the settings of its store, so that any code with a place can read and write there. The settings are
neither printed nor compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from headstream.errors import InvalidOptionError, StorageError
from headstream.model.local_paths import find_path_problem, parse_local_path
from headstream.replicate.storage.storage_settings import StorageSettings

__all__ = ["Place", "StorePlace", "bind", "failure", "find_place_problem", "parse_place", "resolve_place", "shown_cause"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_S3: Final = ("s3", "s3a")
_NOT_YET: Final = {
    "abfss": "Azure's storage",
    "gs": "Google's storage",
    "hdfs": "HDFS",
}
"""Stores whose URIs are recognized, but which are untested."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True, slots=True, repr=False)
class StorePlace:
    """A place in an object store.

    Args:
        bucket: Its bucket.
        key: The key or its prefix, without slashes at its ends; "" for the whole bucket.
        storage: The settings of the store.
    """

    bucket: str
    key: str = ""
    storage: StorageSettings = field(default_factory=StorageSettings, compare=False)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}" if self.key else f"s3://{self.bucket}"

    def __repr__(self) -> str:
        return f"StorePlace({str(self)!r})"

    def __truediv__(self, name: str) -> StorePlace:
        return replace(self, key=f"{self.key}/{name}" if self.key else name)

    @property
    def name(self) -> str:
        """The last part of the key; "" for a bucket."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> StorePlace:
        """The place that contains it; a bucket's parent is itself."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def delta_options(self) -> dict[str, str]:
        """deltalake's `storage_options`."""
        return self.storage.delta_options()

    @property
    def hadoop_uri(self) -> str:
        """The URI as Hadoop's file systems name it."""
        return f"s3a{str(self)[2:]}"


Place: TypeAlias = Path | StorePlace
"""A path, or a URI of an object store."""


def parse_place(text: str, *, is_table: bool = True) -> Place:
    """Return the place that a path or a URI names.

    Args:
        text: As given by a user.
        is_table: Whether it is for Delta tables, so that a catalog's table name can be meant.

    Raises:
        InvalidOptionError: its scheme is unsupported, the URI is invalid, or it is a catalog's table name.
    """
    found = _SCHEME.match(text)
    if found is None or found[1].lower() not in (*_S3, *_NOT_YET):
        return Path(parse_local_path(text, is_table=is_table))
    scheme = found[1].lower()
    if scheme in _NOT_YET:
        raise InvalidOptionError(
            f"{scheme}:// is not supported here yet: no version has been tested on {_NOT_YET[scheme]}",
            advice="Use s3://, or a local path where the storage can be mounted",
        )
    parts = urlsplit(text)
    if "@" in parts.netloc or ":" in parts.netloc:  # not repeated in the error: it can be a password
        raise InvalidOptionError(
            f"the {scheme}:// URI has more than a bucket before its path",
            advice="Write s3://bucket/path; credentials and the endpoint are in [storage] or in the environment (AWS_...)",
        )
    if parts.query or parts.fragment or not _BUCKET.fullmatch(parts.netloc):
        raise InvalidOptionError(f"the {scheme}:// URI is not s3://bucket/path", advice="Write it as in s3://lake/cdc/tables")
    key = parts.path.strip("/")
    if any(part in ("", ".", "..") for part in key.split("/")) and key:
        raise InvalidOptionError(f"{text!r} has an empty part, a . or a .. in its path", advice="Name the key itself")
    return StorePlace(parts.netloc, key)


def find_place_problem(place: object, *, served: bool, is_table: bool) -> tuple[str, str] | None:
    """Return a place's problem and the advice; None if it can be used.

    Args:
        place: A path or a StorePlace.
        served: Whether this setting's place can be in an object store.
        is_table: Whether it is for Delta tables, so that a catalog's table name can be meant.
    """
    if not isinstance(place, StorePlace):
        if served and isinstance(place, Path) and place.parts[:1] in (("s3:",), ("s3a:",)):  # one slash: pathlib has merged two
            return f"{str(place)!r} is a URI as a path", "Give parse_place() of headstream.replicate.storage.places its text"
        return find_path_problem(str(place), is_table=is_table)
    if served:
        return None
    return (
        f"{str(place)!r}: this setting is a path of this machine; object stores are not supported for it yet",
        "Use a local path; tables, change_tables, dead_letter_table and checkpoint can be s3://",
    )


def resolve_place(place: Place) -> Place:
    """Return a path as an absolute one without links, and a URI unchanged."""
    return place.resolve() if isinstance(place, Path) else place


def failure(place: Place, what: str, reason: str) -> StorageError:
    """Return the error for a place that a client could not read or write, without the credentials of its store.

    Args:
        place: The place.
        what: The failed operation.
        reason: The client's error.
    """
    shown = place.storage.redact(reason) if isinstance(place, StorePlace) else reason
    return StorageError(f"{what}: {shown}", where=str(place))


def shown_cause(place: Place, error: Exception) -> Exception | None:
    """Return the cause to raise a failure() with: none for a store, since the client's text may contain credentials."""
    return None if isinstance(place, StorePlace) else error


def bind(place: Place, storage: StorageSettings) -> Place:
    """Return a place with the settings of its store; a path as it is."""
    return replace(place, storage=storage) if isinstance(place, StorePlace) else place
