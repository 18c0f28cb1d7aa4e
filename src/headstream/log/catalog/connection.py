"""Opens the catalog's database and translates its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from headstream.errors import ClosedError, CorruptLogError, DiskFullError, StorageError
from headstream.log.system.access import open_private

_BUSY_SECONDS: Final = 10.0


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Convert SQLite errors raised in the body to errors of the log."""
    try:
        yield
    except sqlite3.OperationalError as error:
        kind = DiskFullError if error.sqlite_errorcode == sqlite3.SQLITE_FULL else StorageError
        raise kind(
            f"the catalog cannot be used: {error}",
            where=where,
            advice="Check that this user can read and write the file and its directory, and that the disk has free space",
        ) from error
    except sqlite3.ProgrammingError as error:  # another thread has closed the connection
        raise ClosedError("the log is closed", where=where, advice="Connect again") from error
    except sqlite3.DatabaseError as error:
        raise CorruptLogError(
            f"the catalog is damaged: {error}", where=where, advice="Restore the file from a copy; the messages are unaffected"
        ) from error


def connect(path: str | None, *, is_writer: bool) -> sqlite3.Connection:
    """Return a connection for use by one thread at a time; a path of None opens a database in memory."""
    if path is None:
        return _open(":memory:", uri=False)
    if is_writer:
        with suppress(OSError):  # SQLite raises a clearer error; its other files get the mode of this file
            os.close(open_private(path))
        return _open(path, uri=False)
    address = f"file:{quote(path)}?mode=ro"
    connection = _open(address, uri=True)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise
        # Read-only, SQLite needs shared memory files, which require a writable directory. Without a write-ahead log
        # there is no writer, and the file can be read as immutable.
        if Path(f"{path}-wal").exists():
            raise
        return _open(f"{address}&immutable=1", uri=True)
    return connection


def _open(address: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(address, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri)
