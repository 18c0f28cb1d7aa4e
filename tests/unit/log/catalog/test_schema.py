"""Unit tests of headstream.log.catalog.schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headstream.core.model.topology import Fsync, Limits, TopicOptions
from headstream.errors import LogVersionError
from headstream.log.catalog import accounts
from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.schema import STEPS


def test_catalog_refuses_a_newer_version(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LogVersionError, match="version 99, but this version of Headstream reads"):
        Catalog(path, is_writer=False)


VERSION_1 = """
CREATE TABLE streams (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    created_us INTEGER NOT NULL);
CREATE TABLE topics (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL REFERENCES streams (number) ON DELETE CASCADE,
    id INTEGER NOT NULL, name TEXT NOT NULL, created_us INTEGER NOT NULL, limits TEXT NOT NULL,
    UNIQUE (stream, id), UNIQUE (stream, name));
CREATE TABLE partitions (
    topic INTEGER NOT NULL REFERENCES topics (number) ON DELETE CASCADE, number INTEGER NOT NULL,
    created_us INTEGER NOT NULL, PRIMARY KEY (topic, number)) WITHOUT ROWID;
INSERT INTO streams VALUES (1, 1, 'shop', 5);
INSERT INTO topics VALUES (3, 1, 1, 'orders', 6, 'wide');
INSERT INTO partitions VALUES (3, 1, 6), (3, 2, 6);
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


def make_version_1(tmp_path: Path) -> str:
    path = str(tmp_path / "catalog.sqlite")
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.close()
    return path


def test_catalog_brings_version_1_up(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)
    for _ in range(2):  # the second finds what the first made
        writer = Catalog(path, is_writer=True)
        topic = writer.snapshot()["shop"].topics["orders"]
        assert (topic.number, topic.limits, topic.partitions, topic.fsync) == (3, Limits.WIDE, 2, Fsync.INTERVAL)
        assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() > (1,)
        writer.close()


def test_readers_of_version_1_see_its_topics_before_and_after_a_writer_brings_it_up(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)
    reader = Catalog(path, is_writer=False)
    assert reader.snapshot()["shop"].topics["orders"].fsync is Fsync.INTERVAL
    writer = Catalog(path, is_writer=True)
    with writer.transaction():
        writer.insert_topic(1, "payments", 1, Limits.IGGY, 7, Fsync.ALWAYS)
    assert {name: topic.fsync for name, topic in reader.snapshot()["shop"].topics.items()} == {
        "orders": Fsync.INTERVAL, "payments": Fsync.ALWAYS
    }  # fmt: skip


def test_version_3_is_brought_up_with_options_that_are_off(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        for step in (1, 2):
            connection.executescript(STEPS[step])
    reader = Catalog(path, is_writer=False)
    assert reader.snapshot()["shop"].topics["orders"].options == TopicOptions(deletion_grace_us=None)
    writer = Catalog(path, is_writer=True)
    options = TopicOptions(retention_us=1, compaction_delay_us=0, deduplication_count=3)
    with writer.transaction():
        writer.update_topic(3, options=options)
        writer.insert_topic(1, "payments", 1, Limits.IGGY, 7, options=TopicOptions(retention_bytes=5))
    for catalog in (writer, reader):
        topics = catalog.snapshot()["shop"].topics
        assert (topics["orders"].options, topics["payments"].options) == (options, TopicOptions(retention_bytes=5))
        catalog.close()


def test_version_8_is_brought_up_with_the_removal_that_its_topics_had(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer = Catalog(path, is_writer=True)
    with writer.transaction():
        stream = writer.insert_stream("shop", 1)
        writer.insert_topic(stream, "plain", 1, Limits.IGGY, 2)
        writer.insert_topic(stream, "compacted", 1, Limits.IGGY, 2, options=TopicOptions(compaction_delay_us=9))
    writer.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP INDEX marked_states; ALTER TABLE topics DROP COLUMN deletion_grace_us;"
            "ALTER TABLE topics DROP COLUMN legal_hold; ALTER TABLE topics DROP COLUMN kafka_headers; "
            "ALTER TABLE users DROP COLUMN scram; PRAGMA user_version = 8"
        )
    for is_writer in (False, True, False):
        catalog = Catalog(path, is_writer=is_writer)
        options = {name: topic.options for name, topic in catalog.snapshot()["shop"].topics.items()}
        assert options == {
            "plain": TopicOptions(deletion_grace_us=None),
            "compacted": TopicOptions(compaction_delay_us=9, deletion_grace_us=0),
        }
        catalog.close()


def test_version_9_is_brought_up_with_users_without_verifiers(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer = Catalog(path, is_writer=True)
    accounts.insert_user(writer, "alice", "hash", True, None, 7, b"verifiers")
    writer.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "ALTER TABLE topics DROP COLUMN kafka_headers; ALTER TABLE users DROP COLUMN scram; PRAGMA user_version = 9"
        )
    writer = Catalog(path, is_writer=True)
    assert accounts.list_users(writer) == [accounts.UserRecord(1, "alice", "hash", True, None, 7, scram=None)]
    accounts.update_user(writer, accounts.UserRecord(1, "alice", "hash", True, None, 7, scram=b"new"))
    assert [user.scram for user in accounts.list_users(writer)] == [b"new"]
    writer.close()


def test_version_10_is_brought_up_with_topics_without_a_convention_of_headers(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer = Catalog(path, is_writer=True)
    with writer.transaction():
        number = writer.insert_topic(writer.insert_stream("shop", 1), "orders", 1, Limits.IGGY, 2)
    writer.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("ALTER TABLE topics DROP COLUMN kafka_headers; PRAGMA user_version = 10")
    reader, writer = Catalog(path, is_writer=False), Catalog(path, is_writer=True)
    with writer.transaction():
        writer.update_topic(number, options=TopicOptions(kafka_headers="spring"))
    for catalog in (reader, writer):
        assert catalog.snapshot()["shop"].topics["orders"].options.kafka_headers == "spring"
        catalog.close()


def test_opening_a_newer_version_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(LogVersionError, match="version 99"):
        Catalog(path, is_writer=True)
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (99,)
