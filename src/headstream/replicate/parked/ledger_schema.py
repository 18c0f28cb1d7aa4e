"""The ledger's tables, and the migrations from older versions.

    1    pipeline, parcels, failing, requests
    2    parcels.transaction_key, open_transactions, closed_transactions     earlier: none
    3    parcels.logged_from_us, parcels.logged_until_us     earlier: unknown, so messages waiting for a schema can be of any time
         (in table_memory.py, the starts of loads have a different format)

Each step migrates from the previous version to its own version; a new ledger runs all steps. A writer first migrates an older
ledger. The version also increases when older versions of Headstream can no longer read the state of tables (table_memory.py),
since the ledger is the first database that is opened.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from headstream.errors import LogVersionError, StorageError

STEPS: Final = (
    (
        "CREATE TABLE pipeline (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE parcels ("
        "id INTEGER PRIMARY KEY, state TEXT NOT NULL, cause TEXT NOT NULL, schema_id TEXT, table_schema TEXT, table_name TEXT, "
        "reason TEXT, log_topic TEXT NOT NULL, from_offset INTEGER NOT NULL, until_offset INTEGER NOT NULL, "
        "size_bytes INTEGER NOT NULL, since_us INTEGER NOT NULL, batch INTEGER, release INTEGER)",
        "CREATE INDEX parcels_by_state ON parcels (state, schema_id)",
        "CREATE TABLE failing ("
        "table_schema TEXT NOT NULL, table_name TEXT NOT NULL, failures INTEGER NOT NULL, since_us INTEGER NOT NULL, "
        "next_us INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (table_schema, table_name)) WITHOUT ROWID",
        "CREATE TABLE requests (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, arguments TEXT NOT NULL, "
        "asked_us INTEGER NOT NULL, done_us INTEGER, result TEXT)",
    ),
    (
        "ALTER TABLE parcels ADD COLUMN transaction_key TEXT",
        "CREATE TABLE open_transactions ("
        "key TEXT PRIMARY KEY, last_event INTEGER, events TEXT NOT NULL, since_us INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE TABLE closed_transactions (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE)",
        "CREATE INDEX parcels_by_transaction ON parcels (transaction_key) WHERE transaction_key IS NOT NULL",
    ),
    (
        "ALTER TABLE parcels ADD COLUMN logged_from_us INTEGER",
        "ALTER TABLE parcels ADD COLUMN logged_until_us INTEGER",
    ),
)
"""The statements that migrate to version 1, 2, ..."""
_VERSION: Final = len(STEPS)
_LOCKED_S: Final = 30.0


def write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a ledger to a write-ahead log, outside a transaction, with retries in case of a concurrent switch."""
    until_s = time.monotonic() + _LOCKED_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until_s:
                raise
            time.sleep(0.01)


def bring_up(connection: sqlite3.Connection, where: str) -> None:
    """Create the tables, or migrate the tables of an older version.

    Raises:
        LogVersionError: a newer version of Headstream created the ledger.
        StorageError: the file is not a known ledger.
    """
    connection.execute("BEGIN IMMEDIATE")  # two processes can migrate at the same time: the second finds the current version
    try:
        for step in STEPS[_version(connection, where) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check_version(connection: sqlite3.Connection, where: str) -> None:
    """Raise LogVersionError for a ledger that cannot be read without migration, and StorageError if it is not a known ledger."""
    version = _version(connection, where)
    if version == 0:
        raise StorageError(
            "the pipeline's ledger is empty", where=where, advice="Check that this is the checkpoint of a pipeline that has run"
        )
    if version < _VERSION:
        raise LogVersionError(
            f"the pipeline's ledger has version {version}, but this version of Headstream reads {_VERSION}",
            where=where,
            advice="Run the pipeline with this version, which migrates the ledger, or inspect the ledger with the old version",
        )


def _version(connection: sqlite3.Connection, where: str) -> int:
    """Return the ledger's version, 0 if there are no tables; a version newer than the current version is rejected."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > _VERSION:
        raise LogVersionError(
            f"the pipeline's ledger has version {version}, but this version of Headstream reads {_VERSION}",
            where=where,
            advice="Use the Headstream version that wrote the ledger, or a newer version",
        )
    return version or _unnumbered(connection, where)


def _unnumbered(connection: sqlite3.Connection, where: str) -> int:
    """Return the version of a ledger without a version number."""
    if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
        return 0
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('parcels')")}
    if not columns:
        raise StorageError(
            "the file is not a ledger of a pipeline, or its version is too old to be migrated",
            where=where,
            advice="Run the pipeline with a new checkpoint and new tables, from the start of the source",
        )
    if "logged_from_us" in columns:
        return 3
    return 2 if "transaction_key" in columns else 1
