"""Where the Delta table of a source table is: one directory each, and none inside another, whatever the names.

    <directory>/<schema>/<table>
    <directory>/%none/<table>      a table without a schema: at <directory>/<table> it would lie around those of a schema named so

    letters, digits, ` -_.~$@+`    as they are
    anything else                  %uXXXX, its UTF-16 units
    . and .. , _delta_log          their first dot, or the underscore, as %uXXXX: the latter is where a Delta table has its log
    more than 255 bytes            the beginning, `%h`, and 32 hex digits of the name's SHA-256

No name is encoded with a `%` that is not followed by `u` or `h`, so none is taken for `%none`. It is not `%XX`, which deltalake
decodes twice, and so finds no table below a directory that has it in its name.
"""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path
from typing import Final

__all__ = ["has_table", "place_table", "table_path"]

_NO_SCHEMA: Final = "%none"
_LOG: Final = "_delta_log"
_MAX_NAME_BYTES: Final = 255
"""What file systems of Linux allow a name to have."""
_DIGEST_CHARACTERS: Final = 32


def table_path(directory: Path, schema: str, table: str) -> Path:
    """Return where a source table's Delta table is made.

    Args:
        directory: The pipeline's tables.
        schema: The source schema; "" where there is none.
        table: The source table.
    """
    return directory / _encode(schema) / _encode(table)


def place_table(directory: Path, schema: str, table: str) -> Path:
    """Return where a source table's Delta table is: where an older Headstream has made it, if it has, else where it is made.

    Args:
        directory: The pipeline's tables.
        schema: The source schema; "" where there is none.
        table: The source table.
    """
    path = table_path(directory, schema, table)
    before = directory / _encode_before(schema) / _encode_before(table)
    if before in (path, directory) or has_table(path):
        return path
    return before if has_table(before) else path


def has_table(path: Path) -> bool:
    """Return whether a directory is that of a Delta table, which has commits in its log.

    Raises:
        OSError: that cannot be read.
    """
    try:
        return any(one.suffix == ".json" for one in (path / _LOG).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # so no older Headstream has made it
            return False
        raise


def _encode(name: str) -> str:
    if not name:
        return _NO_SCHEMA
    if name == _LOG:
        return name.replace("_", "%u005F", 1)
    encoded = _encode_before(name)
    if len(encoded.encode()) <= _MAX_NAME_BYTES:
        return encoded
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{_beginning(encoded, _MAX_NAME_BYTES - len('%h') - len(digest))}%h{digest}"


def _beginning(encoded: str, size_bytes: int) -> str:
    """Return as much of an encoded name as fits, no character and no escape cut through."""
    found, left = [], size_bytes
    for part in re.findall(r"%u[0-9A-F]{4}|.", encoded, re.DOTALL):
        left -= len(part.encode())
        if left < 0:
            break
        found.append(part)
    return "".join(found)


def _encode_before(name: str) -> str:
    """Return how an older Headstream encoded every name, which is how nearly every name is encoded still."""
    if name in (".", ".."):
        return name.replace(".", "%u002E")
    return re.sub(r"[^\w .~$@+-]", lambda found: re.sub("(....)", r"%u\1", found[0].encode("utf-16-be").hex().upper()), name)
