"""Catalog: what is in it, for one writer and any number of readers."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, TopicOptions
from headstream.errors import CorruptLogError, DiskFullError, LogVersionError, StorageError
from headstream.log.catalog.catalog import Catalog, GroupRecord, TopicLabels
from headstream.log.catalog.schema import STEPS
from headstream.log.catalog.state_records import put_states


@pytest.fixture(params=["file", "memory"])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "catalog.sqlite") if request.param == "file" else None, is_writer=True)


def add(catalog: Catalog, stream: str, *topics: str) -> None:
    with catalog.transaction():
        known = catalog_numbers(catalog).get(stream)
        number = catalog.insert_stream(stream, 5) if known is None else known
        for topic in topics:
            catalog.insert_topic(number, topic, 2, Limits.WIDE, 6)


def catalog_numbers(catalog: Catalog) -> dict[str, int]:
    return {name: record.number for name, record in catalog.snapshot().items()}


def test_snapshot_has_streams_and_topics(writer: Catalog) -> None:
    assert writer.snapshot() == {}
    add(writer, "shop", "orders", "carts")
    stream = writer.snapshot()["shop"]
    assert (stream.name, stream.id, stream.number, stream.created_us, list(stream.topics)) == (
        "shop",
        1,
        1,
        5,
        ["orders", "carts"],
    )
    topic = stream.topics["carts"]
    assert (str(topic.name), topic.id, topic.number, topic.stream_number) == ("shop/carts", 2, 2, 1)
    assert (topic.created_us, topic.limits, topic.partitions) == (6, Limits.WIDE, 2)


def test_ids_are_the_smallest_that_are_free_and_numbers_are_never_given_again(writer: Catalog) -> None:
    add(writer, "a", "x", "y", "z")
    add(writer, "b", "x")
    with writer.transaction():
        writer.delete_topic(writer.snapshot()["a"].topics["x"].number)
    add(writer, "a", "new")
    assert {t.name.topic: (t.id, t.number) for t in writer.snapshot()["a"].topics.values()} == {
        "y": (2, 2), "z": (3, 3), "new": (1, 5)
    }  # fmt: skip
    with writer.transaction():
        writer.delete_stream(writer.snapshot()["b"].number)
    add(writer, "c", "x")
    record = writer.snapshot()["c"]
    assert (record.id, record.number, record.topics["x"].id, record.topics["x"].number) == (2, 3, 1, 6)


def test_transaction_takes_all_back_when_its_body_fails(writer: Catalog) -> None:
    add(writer, "a", "x")
    before = writer.snapshot()

    def change_and_fail() -> None:
        with writer.transaction():
            writer.insert_stream("b", 1)
            writer.delete_topic(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change_and_fail()
    assert writer.snapshot() == before


def test_readers_see_what_the_writer_does(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer = Catalog(path, is_writer=True)
    reader = Catalog(path, is_writer=False)
    assert reader.snapshot() == {}
    add(writer, "a", "x")
    assert reader.snapshot() == writer.snapshot()
    seen = reader.snapshot()
    assert reader.snapshot() is seen  # nothing was read again, for nothing has changed
    with writer.transaction():
        writer.delete_topic(1)
    assert list(reader.snapshot()["a"].topics) == []
    writer.close()
    assert list(reader.snapshot()) == ["a"]
    reader.close()


def test_catalog_of_a_directory_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    writer = Catalog(str(path), is_writer=True)
    add(writer, "a", "x")
    writer.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["catalog.sqlite"]
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    child = os.fork() if os.getuid() == 0 else 0  # root may write anywhere: look as somebody else
    if child == 0 and os.getuid() == 0:
        code = 1
        try:
            for directory in list(tmp_path.parents)[:3]:
                directory.chmod(0o755)
            os.setuid(65534)
            code = 0 if list(Catalog(str(path), is_writer=False).snapshot()["a"].topics) == ["x"] else 2
        finally:
            os._exit(code)
    if child:
        assert os.waitpid(child, 0)[1] == 0
    else:
        assert list(Catalog(str(path), is_writer=False).snapshot()["a"].topics) == ["x"]
    tmp_path.chmod(0o755)


@pytest.mark.parametrize("is_writer", [False, True])
def test_catalog_refuses_a_file_that_is_no_database(tmp_path: Path, is_writer: bool) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(CorruptLogError, match="the catalog is damaged: file is not a database"):
        Catalog(str(tmp_path / "catalog.sqlite"), is_writer=is_writer)


def test_catalog_refuses_a_truncated_database(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    writer = Catalog(str(path), is_writer=True)
    for number in range(50):
        add(writer, f"s{number}", *(f"t{n}" for n in range(20)))
    writer.close()
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(CorruptLogError, match="the catalog is damaged"), closing(Catalog(str(path), is_writer=False)) as reader:
        reader.snapshot()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list open files")
@pytest.mark.parametrize("is_writer", [True, False])
def test_catalog_that_is_refused_leaves_no_file_open(tmp_path: Path, is_writer: bool) -> None:
    newer, other = tmp_path / "newer.sqlite", tmp_path / "other.sqlite"
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    other.write_bytes(b"not a database at all" * 500)
    refused = []
    for path, error in ((newer, LogVersionError), (other, CorruptLogError)):
        with pytest.raises(error) as raised:
            Catalog(str(path), is_writer=is_writer)
        refused.append(raised)  # whose traceback keeps the catalog from being collected
    left = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert [name for name in left if name.startswith(str(tmp_path))] == []


def test_catalog_refuses_a_newer_version(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LogVersionError, match="version 99, this Headstream reads"):
        Catalog(path, is_writer=False)


def test_catalog_translates_a_directory_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open database file"):
        Catalog(str(tmp_path / "none" / "catalog.sqlite"), is_writer=True)


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
            "ALTER TABLE topics DROP COLUMN legal_hold; PRAGMA user_version = 8"
        )
    for is_writer in (False, True, False):
        catalog = Catalog(path, is_writer=is_writer)
        options = {name: topic.options for name, topic in catalog.snapshot()["shop"].topics.items()}
        assert options == {
            "plain": TopicOptions(deletion_grace_us=None),
            "compacted": TopicOptions(compaction_delay_us=9, deletion_grace_us=0),
        }
        catalog.close()


def test_opening_a_newer_version_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(LogVersionError, match="version 99"):
        Catalog(path, is_writer=True)
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (99,)


def test_a_full_disk_is_told_from_other_refusals(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path / "catalog.sqlite"), is_writer=True)
    catalog._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(DiskFullError, match="database or disk is full"), catalog.transaction():
        catalog.insert_stream("stream" * 10000, 5)
    assert catalog.snapshot() == {}


def test_snapshot_after_a_change_that_names_its_topics_is_what_is_there(writer: Catalog, tmp_path: Path) -> None:
    add(writer, "shop", "a", "b", "c")
    add(writer, "depot", "x")
    shop = writer.snapshot()["shop"]
    with writer.transaction([shop.topics["b"].number]):
        writer.delete_topic(shop.topics["b"].number)
    touched = [shop.topics["c"].number]
    with writer.transaction(touched):
        touched.append(writer.insert_topic(shop.number, "d", 3, Limits.IGGY, 9))  # takes the id of b
        writer.delete_partitions(shop.topics["c"].number, 2)
    with writer.transaction([]):
        put_states(writer, shop.topics["a"].number, 1, [])
    renewed = writer.snapshot()
    assert list(renewed["shop"].topics) == ["a", "d", "c"]
    assert renewed["shop"].topics["a"] is shop.topics["a"]
    assert [topic.partitions for topic in renewed["shop"].topics.values()] == [2, 3, 1]
    assert list(shop.topics) == ["a", "b", "c"]  # whoever holds an older one keeps it
    with writer.transaction():
        pass
    again = writer.snapshot()
    assert again == renewed
    assert [list(stream.topics) for stream in again.values()] == [["a", "d", "c"], ["x"]]


def test_snapshot_is_as_it_was_when_a_change_that_names_its_topics_fails(writer: Catalog) -> None:
    add(writer, "shop", "a")
    before = writer.snapshot()

    def fail() -> None:
        touched: list[int] = []
        with writer.transaction(touched):
            touched.append(writer.insert_topic(before["shop"].number, "b", 1, Limits.IGGY, 9))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert writer.snapshot() == before


def test_groups_are_in_the_snapshot_and_outlive_a_purge(writer: Catalog) -> None:
    add(writer, "shop", "a", "b")
    topic = writer.snapshot()["shop"].topics["a"]
    with writer.transaction([topic.number]):
        assert [writer.insert_group(topic.number, *group) for group in (("x", 2), ("y",), ("z",))] == [2, 1, 3]
    with writer.transaction([topic.number]):
        writer.delete_group(topic.number, 2)
    groups = GroupRecord(1, "y"), GroupRecord(3, "z")
    assert [topic.groups for topic in writer.snapshot()["shop"].topics.values()] == [groups, ()]
    with writer.transaction():
        writer.renumber_topic(topic.number, 9)
    assert writer.snapshot()["shop"].topics["a"].groups == groups
    with writer.transaction():
        writer.delete_stream(topic.stream_number)
    assert writer.select("SELECT * FROM groups", since=6) == []


def test_streams_and_topics_get_the_ids_that_are_asked_for(writer: Catalog) -> None:
    with writer.transaction():
        shop = writer.insert_stream("shop", 5, 7)
        writer.insert_stream("depot", 5)
        writer.insert_topic(shop, "a", 0, Limits.IGGY, 6, id_=9, labels=TopicLabels(2, 3))
        writer.insert_topic(shop, "b", 1, Limits.IGGY, 6)
    streams = writer.snapshot()
    assert {name: stream.id for name, stream in streams.items()} == {"depot": 1, "shop": 7}
    assert {name: (topic.id, topic.partitions, topic.labels) for name, topic in streams["shop"].topics.items()} == {
        "b": (1, 1, TopicLabels(1, 1)), "a": (9, 0, TopicLabels(2, 3))
    }  # fmt: skip


def test_a_change_of_a_topic_leaves_what_it_does_not_name(writer: Catalog) -> None:
    add(writer, "shop", "a", "b")
    a, b = writer.snapshot()["shop"].topics.values()
    options = TopicOptions(retention_us=5)
    for changes in ({"name": "c"}, {"options": options}, {"labels": TopicLabels(2, 1)}, {}):
        with writer.transaction([a.number]):
            writer.update_topic(a.number, **changes)
    expected = replace(a, name=TopicName("shop", "c"), options=options, labels=TopicLabels(2, 1))
    assert writer.snapshot()["shop"].topics == {"c": expected, "b": b}
    with writer.transaction():
        writer.rename_stream(a.stream_number, "depot")
    assert [str(topic.name) for topic in writer.snapshot()["depot"].topics.values()] == ["depot/c", "depot/b"]
    with writer.transaction():
        pass
    assert list(writer.snapshot()) == ["depot"]


def test_look_finds_what_is_committed_when_a_transaction_is_under_way(tmp_path: Path) -> None:
    writer = Catalog(str(tmp_path / "catalog.sqlite"), is_writer=True)
    add(writer, "shop", "orders")
    with ThreadPoolExecutor(1) as other, writer.transaction():
        writer.insert_stream("mad", 6)
        found = other.submit(writer.look, "SELECT name FROM streams", since=1).result(10)  # before the transaction ends
        assert found == [("shop",)]
    assert writer.look("SELECT name FROM streams ORDER BY name", since=1) == [("mad",), ("shop",)]
    with pytest.raises(StorageError):
        writer.look("DELETE FROM streams", since=1)
    writer.close()
