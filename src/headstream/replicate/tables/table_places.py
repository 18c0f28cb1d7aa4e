"""The directory or URI of each source table's Delta table, which is unique and never nested, for any names.

    <directory>/<schema>/<table>
    <directory>/%none/<table>      a table without a schema, since <directory>/<table> could be the directory of a schema

    letters, digits, ` -_.~$@+`    unchanged; in HDFS only ASCII letters and no space, since deltalake does not find other names
    other characters               %uXXXX, UTF-16 units
    . and .. , _delta_log          the first dot or the underscore as %uXXXX; _delta_log is the log of a Delta table
    more than 255 bytes            prefix, `%h`, and 32 hex digits of the name's SHA-256

In an encoded name, `%` is always followed by `u` or `h`, so no name equals `%none`. The form `%XX` is avoided, because deltalake
decodes it twice and then does not find the table.
"""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path
from typing import Final, overload

from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles

_NO_SCHEMA: Final = "%none"
_LOG: Final = "_delta_log"
_MAX_NAME_BYTES: Final = 255
"""Maximum length of a file name on Linux file systems."""
_DIGEST_CHARACTERS: Final = 32


@overload
def table_path(directory: Path, schema: str, table: str) -> Path: ...
@overload
def table_path(directory: StorePlace, schema: str, table: str) -> StorePlace: ...
@overload
def table_path(directory: Place, schema: str, table: str) -> Place: ...
def table_path(directory: Place, schema: str, table: str) -> Place:
    """Return the directory or URI for a source table's new Delta table; the schema can be ""."""
    plain = isinstance(directory, StorePlace) and directory.scheme == "hdfs"
    return directory / _encode(schema, plain=plain) / _encode(table, plain=plain)


@overload
def place_table(directory: Path, schema: str, table: str) -> Path: ...
@overload
def place_table(directory: Place, schema: str, table: str) -> Place: ...
def place_table(directory: Place, schema: str, table: str) -> Place:
    """Return the location of a source table's Delta table, as in older versions if such a table exists."""
    if isinstance(directory, StorePlace):  # older versions of Headstream did not write to stores
        return table_path(directory, schema, table)
    path = table_path(directory, schema, table)
    before = directory / _encode_before(schema) / _encode_before(table)
    if before in (path, directory) or has_table(path):
        return path
    return before if has_table(before) else path


def has_table(path: Place) -> bool:
    """Return whether a Delta table with commits in its log exists.

    Raises:
        OSError: the directory cannot be read.
        StorageError: the store cannot be read.
    """
    if isinstance(path, StorePlace):
        return StoreFiles(path / _LOG).has_any()
    try:
        return any(one.suffix == ".json" for one in (path / _LOG).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # so no older version of Headstream created the table
            return False
        raise


def _encode(name: str, *, plain: bool) -> str:
    if not name:
        return _NO_SCHEMA
    if name == _LOG:
        return name.replace("_", "%u005F", 1)
    encoded = _encode_before(name)
    if plain:
        encoded = re.sub("[^!-~]", _escape, encoded)
    if len(encoded.encode()) <= _MAX_NAME_BYTES:
        return encoded
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{_beginning(encoded, _MAX_NAME_BYTES - len('%h') - len(digest))}%h{digest}"


def _beginning(encoded: str, size_bytes: int) -> str:
    """Return the longest prefix of an encoded name that fits `size_bytes`, without dividing a character or escape."""
    found, left = [], size_bytes
    for part in re.findall(r"%u[0-9A-F]{4}|.", encoded, re.DOTALL):
        left -= len(part.encode())
        if left < 0:
            break
        found.append(part)
    return "".join(found)


def _encode_before(name: str) -> str:
    """Return the encoding of older Headstream versions, which equals the current encoding for nearly all names."""
    if name in (".", ".."):
        return name.replace(".", "%u002E")
    return re.sub(r"[^\w .~$@+-]", _escape, name)


def _escape(found: re.Match[str]) -> str:
    return re.sub("(....)", r"%u\1", found[0].encode("utf-16-be").hex().upper())
