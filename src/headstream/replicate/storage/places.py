"""Locations: a local path or a URI of an object store. Both have `/`, `.parent`, `.name` and str().

    s3://bucket/key   s3a://bucket/key
    abfss://container@account.dfs.core.windows.net/key
    gs://bucket/key
    hdfs://host:port/key
    file:///path, path                                a path

A StorePlace contains the settings of its store, so code needs nothing else to access the location. The settings are neither
printed nor compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias, overload
from urllib.parse import urlsplit

from headstream.core.model.local_paths import find_path_problem, parse_local_path
from headstream.errors import InvalidOptionError, StorageError
from headstream.replicate.storage.azure import AzureAccess
from headstream.replicate.storage.google import GoogleAccess
from headstream.replicate.storage.hdfs import HdfsAccess
from headstream.replicate.storage.s3 import S3Access
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import StoreAccess

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ALIASES: Final = {"s3a": "s3"}
_KINDS: Final[dict[str, type[StoreAccess]]] = {"s3": S3Access, "abfss": AzureAccess, "gs": GoogleAccess, "hdfs": HdfsAccess}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_BUCKETS: Final = {
    "s3": _NAME,
    "abfss": re.compile(r"[$a-z0-9][a-z0-9-]{2,62}@[a-z0-9]{3,24}\.[a-z0-9.-]+"),
    "gs": _NAME,
    "hdfs": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}(:\d{1,5})?"),
}
_FORMS: Final = {
    "s3": "s3://bucket/path",
    "abfss": "abfss://container@account.dfs.core.windows.net/path",
    "gs": "gs://bucket/path",
    "hdfs": "hdfs://host:port/path",
}


@dataclass(frozen=True, slots=True, repr=False)
class StorePlace:
    """A location in an object store.

    Args:
        bucket: The bucket as in the URI; for Azure, container and account; for HDFS, the NameNode.
        key: The key or key prefix, without leading and trailing slashes; "" for the entire bucket.
        scheme: `s3`, `abfss`, `gs` or `hdfs`.
    """

    bucket: str
    key: str = ""
    storage: StorageSettings = field(default_factory=StorageSettings, compare=False)
    scheme: str = "s3"

    def __str__(self) -> str:
        root = f"{self.scheme}://{self.bucket}"
        return f"{root}/{self.key}" if self.key else root

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
        """The parent location; the parent of a bucket is the bucket."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def access(self) -> StoreAccess:
        """Endpoint and credentials for the clients of the store."""
        return _KINDS[self.scheme](self.bucket, self.storage)

    @property
    def delta_options(self) -> dict[str, str]:
        """deltalake's `storage_options`."""
        return self.access.delta_options()

    @property
    def hadoop_uri(self) -> str:
        """The URI in Hadoop's format."""
        return f"{self.access.hadoop_root}/{self.key}"


Place: TypeAlias = Path | StorePlace
"""A path, or a URI of an object store."""


def parse_place(text: str, *, is_table: bool = True) -> Place:
    """Return the location of a path or URI.

    Args:
        is_table: Whether the location is for Delta tables; then a catalog's table name is rejected too.

    Raises:
        InvalidOptionError: the scheme is not supported, the URI is invalid, or the string is a table name of a catalog.
    """
    found = _SCHEME.match(text)
    scheme = "" if found is None else found[1].lower()
    scheme = _ALIASES.get(scheme, scheme)
    if scheme not in _KINDS:
        return Path(parse_local_path(text, is_table=is_table))
    parts, form = urlsplit(text), _FORMS[scheme]
    bucket = parts.netloc
    is_valid = _BUCKETS[scheme].fullmatch(bucket) is not None
    if scheme != "abfss" and not is_valid and ("@" in bucket or ":" in bucket):  # can be a password, so omitted
        raise InvalidOptionError(
            f"the {scheme}:// URI must have only a {form.split('/')[2]} before its path",
            advice=f"Write {form}; set credentials and the endpoint in [storage] or in the environment",
        )
    if parts.query or parts.fragment or not is_valid:
        raise InvalidOptionError(f"the {scheme}:// URI is invalid", advice=f"Write {form}")
    key = parts.path.strip("/")
    if any(part in ("", ".", "..") for part in key.split("/")) and key:
        raise InvalidOptionError(f"{text!r} must not have an empty part, . or .. in the path", advice="Specify the full key")
    return StorePlace(bucket, key, scheme=scheme)


def find_place_problem(place: object, *, served: bool, is_table: bool) -> tuple[str, str] | None:
    """Return the problem of a location, with advice; None if the location is valid.

    Args:
        served: Whether the setting's location can be in an object store.
        is_table: Whether the location is for Delta tables; then a catalog's table name is rejected too.
    """
    if not isinstance(place, StorePlace):
        schemes = [f"{scheme}:" for scheme in (*_KINDS, *_ALIASES)]
        if served and isinstance(place, Path) and place.parts and place.parts[0] in schemes:  # one slash: pathlib has merged two
            return (f"{str(place)!r} is a URI in a Path object", "Pass a string, or the result of parse_place()")
        return find_path_problem(str(place), is_table=is_table)
    if served:
        return None
    return f"{str(place)!r}: this setting must be a local path", "Set a local directory"


def resolve_place(place: Place) -> Place:
    """Return a path as an absolute path without links, and a URI unchanged."""
    return place.resolve() if isinstance(place, Path) else place


def failure(place: Place, what: str, reason: str) -> StorageError:
    """Return the error for a location that a client could not read or write, without the store's credentials."""
    shown = place.access.redact(reason) if isinstance(place, StorePlace) else reason
    return StorageError(f"{what}: {shown}", where=str(place))


def shown_cause(place: Place, error: Exception) -> Exception | None:
    """Return the cause for a failure(); None for a store, since the client's message can contain credentials."""
    return None if isinstance(place, StorePlace) else error


@overload
def bind(place: StorePlace, storage: StorageSettings) -> StorePlace: ...
@overload
def bind(place: Place, storage: StorageSettings) -> Place: ...
def bind(place: Place, storage: StorageSettings) -> Place:
    """Return a location with the settings of its store, and a path unchanged."""
    return replace(place, storage=storage) if isinstance(place, StorePlace) else place
