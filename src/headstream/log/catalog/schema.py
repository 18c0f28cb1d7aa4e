"""The catalog's tables, and the steps that migrate older versions.

    1    streams, topics, partitions
    2    topics.fsync                                               before: `interval`
    3    topics.retention_us, topics.retention_bytes, states        before: none
    4    topics.compaction_delay_us, topics.deduplication_count     before: none
    5    commits                                                    before: none
    6    topics.compression, topics.replication, groups             before: 1, 1, none
         users, tokens, revoked                                     before: none
    7    writers, users.generation, states.change, state_changes    before: none, 0, NULL, none
    8    topics.summary_headers                                     before: none
    9    topics.deletion_grace_us, topics.legal_hold, marked_states before: see _GRACE_BEFORE, 0, none
    10   users.scram                                                before: NULL
    11   topics.kafka_headers                                       before: none

A writer migrates an older database when it opens the database; until then, readers use the value under `before` for missing
columns. A reader queries the version before each read, because a writer can migrate the database between two reads.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = 11
_STATES: Final = """
CREATE TABLE IF NOT EXISTS states (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, state INTEGER NOT NULL,
    reason TEXT NOT NULL, author TEXT NOT NULL, changed_us INTEGER NOT NULL, is_pending INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, offset),
    FOREIGN KEY (topic, partition) REFERENCES partitions (topic, number) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pending_states ON states (topic, partition, offset) WHERE is_pending;
"""
_COMMITS: Final = """
CREATE TABLE IF NOT EXISTS commits (
    writer TEXT PRIMARY KEY, epoch INTEGER NOT NULL, state TEXT NOT NULL, manifest BLOB NOT NULL, places TEXT NOT NULL,
    reason TEXT NOT NULL, changed_us INTEGER NOT NULL) WITHOUT ROWID;
"""
_GROUPS: Final = """
CREATE TABLE IF NOT EXISTS groups (
    topic INTEGER NOT NULL REFERENCES topics (number) ON DELETE CASCADE, id INTEGER NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (topic, id), UNIQUE (topic, name)) WITHOUT ROWID;
"""
_ACCOUNTS: Final = """
CREATE TABLE IF NOT EXISTS users (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL, is_active INTEGER NOT NULL,
    permissions BLOB, created_us INTEGER NOT NULL{more});
CREATE TABLE IF NOT EXISTS tokens (
    user INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE, name TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,
    expires_us INTEGER, PRIMARY KEY (user, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revoked (id TEXT PRIMARY KEY, expires_us INTEGER NOT NULL) WITHOUT ROWID;
"""
_GENERATION: Final = "generation INTEGER NOT NULL DEFAULT 0"
_SCRAM: Final = "scram BLOB"
_WRITERS: Final = """
CREATE TABLE IF NOT EXISTS writers (name TEXT PRIMARY KEY, owner INTEGER NOT NULL, claimed_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS writers_of_owner ON writers (owner);
"""
_STATE_CHANGES: Final = """
ALTER TABLE states ADD COLUMN change INTEGER;
CREATE INDEX IF NOT EXISTS states_of_change ON states (change) WHERE change IS NOT NULL;
CREATE TABLE IF NOT EXISTS state_changes (number INTEGER PRIMARY KEY AUTOINCREMENT, reason TEXT NOT NULL, author TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS unused_state_change AFTER DELETE ON states
    WHEN OLD.change IS NOT NULL AND NOT EXISTS (SELECT 1 FROM states WHERE change = OLD.change)
    BEGIN DELETE FROM state_changes WHERE number = OLD.change; END;
"""
"""Reason and author of a change are stored once while a message refers to them; older rows store them inline."""
_MARKED_STATES: Final = """
CREATE INDEX IF NOT EXISTS marked_states ON states (topic, partition, changed_us, offset) WHERE state = 30;
"""
"""Messages marked for deletion (model.message.MessageState), by the time of the mark."""
_GRACE_BEFORE: Final = "CASE WHEN compaction_delay_us IS NULL THEN NULL ELSE 0 END"
"""Before version 9, only a compaction removed marked messages, immediately; older topics keep this behaviour."""
SCHEMA: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS streams (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    created_us INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS topics (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL REFERENCES streams (number) ON DELETE CASCADE,
    id INTEGER NOT NULL, name TEXT NOT NULL, created_us INTEGER NOT NULL, limits TEXT NOT NULL,
    fsync TEXT NOT NULL DEFAULT 'interval', retention_us INTEGER, retention_bytes INTEGER,
    compaction_delay_us INTEGER, deduplication_count INTEGER, summary_headers TEXT,
    deletion_grace_us INTEGER, legal_hold INTEGER NOT NULL DEFAULT 0, kafka_headers TEXT,
    compression INTEGER NOT NULL DEFAULT 1, replication INTEGER NOT NULL DEFAULT 1,
    UNIQUE (stream, id), UNIQUE (stream, name));
CREATE TABLE IF NOT EXISTS partitions (
    topic INTEGER NOT NULL REFERENCES topics (number) ON DELETE CASCADE, number INTEGER NOT NULL,
    created_us INTEGER NOT NULL, PRIMARY KEY (topic, number)) WITHOUT ROWID;
{_STATES}
{_STATE_CHANGES}
{_MARKED_STATES}
{_COMMITS}
{_GROUPS}
{_ACCOUNTS.format(more=f", {_GENERATION}, {_SCRAM}")}
{_WRITERS}
PRAGMA user_version = {VERSION};
COMMIT;
"""
"""The current tables."""

STEPS: Final = {
    1: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN fsync TEXT NOT NULL DEFAULT 'interval'; PRAGMA user_version = 2; COMMIT;",
    2: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN retention_us INTEGER; "
    f"ALTER TABLE topics ADD COLUMN retention_bytes INTEGER; {_STATES} PRAGMA user_version = 3; COMMIT;",
    3: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN compaction_delay_us INTEGER; "
    "ALTER TABLE topics ADD COLUMN deduplication_count INTEGER; PRAGMA user_version = 4; COMMIT;",
    4: f"BEGIN IMMEDIATE; {_COMMITS} PRAGMA user_version = 5; COMMIT;",
    5: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN compression INTEGER NOT NULL DEFAULT 1; "
    f"ALTER TABLE topics ADD COLUMN replication INTEGER NOT NULL DEFAULT 1; {_GROUPS} {_ACCOUNTS.format(more='')} "
    "PRAGMA user_version = 6; COMMIT;",
    6: f"BEGIN IMMEDIATE; {_WRITERS} ALTER TABLE users ADD COLUMN {_GENERATION}; {_STATE_CHANGES} "
    "PRAGMA user_version = 7; COMMIT;",
    7: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN summary_headers TEXT; PRAGMA user_version = 8; COMMIT;",
    8: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN deletion_grace_us INTEGER; "
    "ALTER TABLE topics ADD COLUMN legal_hold INTEGER NOT NULL DEFAULT 0; "
    f"UPDATE topics SET deletion_grace_us = {_GRACE_BEFORE}; {_MARKED_STATES} PRAGMA user_version = 9; COMMIT;",
    9: f"BEGIN IMMEDIATE; ALTER TABLE users ADD COLUMN {_SCRAM}; PRAGMA user_version = 10; COMMIT;",
    10: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN kafka_headers TEXT; PRAGMA user_version = 11; COMMIT;",
}
"""SQL scripts that migrate each older version to the next."""


def topic_columns(version: int) -> str:
    """Return the topic columns after `limits` for a query of a database of this version."""
    fsync = "fsync" if version > 1 else "'interval'"
    options = [
        "retention_us, retention_bytes" if version > 2 else "NULL, NULL",
        "compaction_delay_us, deduplication_count" if version > 3 else "NULL, NULL",
        "summary_headers" if version > 7 else "NULL",
        "deletion_grace_us, legal_hold" if version > 8 else f"{_GRACE_BEFORE if version > 3 else 'NULL'}, 0",
        "kafka_headers" if version > 10 else "NULL",
    ]
    return f"{fsync}, {'compression, replication' if version > 5 else '1, 1'}, {', '.join(options)}"
