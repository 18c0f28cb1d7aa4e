"""Retention: which segments go, in which order, and what a crash in the middle leaves."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import StateChange
from headstream.core.model.topology import Limits, NewTopic, TopicOptions
from headstream.errors import OffsetOutOfRangeError, StorageError
from headstream.log.administration import create_topic, update_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import base_offsets
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.retention import Retention
from tests.support.log.logs import SEED, Clock, batch, open_log, open_log_of, read_all, topic_of

SEND_BYTES = 45 + 1000


@pytest.fixture(params=["os", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    log = open_log_of(request.param, tmp_path)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 2, Limits.IGGY), 5)
    yield log
    log.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fill(log: Log, sends: int, *, partition: int = 1, begin_us: int = 0) -> None:
    """Send messages of 1000 bytes at one a microsecond: three fit a segment."""
    for number in range(sends):
        log.append(topic_of(log), partition, batch(b"x" * 1000), begin_us + number, SEED)


def bases(log: Log, partition: int = 1) -> list[int]:
    return base_offsets(log.files.list_names(log.partition_directory(topic_of(log), partition)) or [])


def retain(log: Log, age_us: int | None = None, size_bytes: int | None = None) -> None:
    update_topic(log, topic_of(log), options=TopicOptions(age_us, size_bytes))


def test_retention_drops_nothing_without_limits(log: Log, clock: Clock) -> None:
    fill(log, 10)
    clock.now_us = 1 << 60
    assert Retention(log, clock).apply() == 0
    assert bases(log) == [0, 3, 6, 9]


def test_closed_segments_go_when_their_newest_message_is_too_old(log: Log, clock: Clock) -> None:
    fill(log, 10)  # the newest messages of the closed segments are of 2, 5 and 8 us
    retain(log, age_us=100)
    retention = Retention(log, clock)
    for clock.now_us, left in ((102, [0, 3, 6, 9]), (103, [3, 6, 9]), (105, [3, 6, 9]), (106, [6, 9]), (10**9, [9])):
        retention.apply()
        assert bases(log) == left
    assert [message.offset for message in read_all(log.files, log.partition_directory(topic_of(log), 1))] == [9]
    fill(log, 1)
    assert [message.offset for message in read_all(log.files, log.partition_directory(topic_of(log), 1))] == [9, 10]


def test_the_oldest_closed_segments_of_all_partitions_go_until_it_fits(log: Log, clock: Clock) -> None:
    fill(log, 7, partition=1, begin_us=100)
    fill(log, 7, partition=2, begin_us=102)
    retain(log, size_bytes=14 * SEND_BYTES)
    retention = Retention(log, clock)
    assert retention.apply() == 0
    for kept, left in ((13, ([3, 6], [0, 3, 6])), (8, ([3, 6], [3, 6])), (5, ([6], [3, 6])), (1, ([6], [6]))):
        retain(log, size_bytes=kept * SEND_BYTES)
        retention.apply()
        assert (bases(log, 1), bases(log, 2)) == left


def test_states_of_dropped_messages_are_forgotten(log: Log, clock: Clock) -> None:
    fill(log, 10)
    log.states.set(topic_of(log), 1, [1, 4, 7], StateChange(-1, 20, "", "", 1))
    retain(log, size_bytes=5 * SEND_BYTES)
    assert Retention(log, clock).apply() == 2
    assert [each.offset for each in log.states.changes(topic_of(log), 1)] == [7]


def test_a_reader_finishes_an_open_segment_and_is_told_of_one_that_is_gone(tmp_path: Path, clock: Clock) -> None:
    log = open_log(tmp_path, OsFiles())
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY), 5)
    fill(log, 10)
    follower = PartitionFollower(log.partition_directory(topic_of(log), 1))
    follower.read_chunk(0, 1, 1)
    retain(log, size_bytes=1)
    assert Retention(log, clock).apply() == 3
    assert follower.read_chunk(1, 3, 10_000)[1] == 3
    with pytest.raises(OffsetOutOfRangeError, match="Continue at 9, the first existing offset"):
        follower.read_chunk(3, 6, 10_000)
    follower.refresh()
    assert (follower.first_offset, follower.end_offset) == (9, 10)
    follower.close()
    log.close()


class Failing(OsFiles):
    """Files that cannot be removed after so many operations on what is dropped."""

    operations_left = 0

    def _count(self, path: str) -> None:
        if self.operations_left == 0:
            raise StorageError("the process ended here", where=path)
        self.operations_left -= 1

    def rename(self, path: str, target: str) -> None:
        if target.endswith(".dropped"):
            self._count(path)
        super().rename(path, target)

    def remove(self, path: str) -> None:
        self._count(path)
        super().remove(path)


@pytest.mark.parametrize(("operations", "left"), [(0, [0, 3, 6, 9]), (1, [3, 6, 9]), (2, [3, 6, 9])])
@pytest.mark.parametrize("by", ["append", "retention"])
def test_a_restart_in_the_middle_of_a_drop_leaves_nothing_half(
    tmp_path: Path, clock: Clock, operations: int, left: list[int], by: str
) -> None:
    files = Failing()
    log = open_log(tmp_path, files)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY), 5)
    fill(log, 10)
    retain(log, size_bytes=9 * SEND_BYTES)
    files.operations_left = operations
    assert Retention(log, clock).apply() == 0
    log.close()
    log = open_log(tmp_path, OsFiles())
    if by == "append":
        retain(log)
        fill(log, 1)
    else:
        retain(log, size_bytes=10 * SEND_BYTES)
        Retention(log, clock).apply()
    assert bases(log) == left
    names = log.files.list_names(log.partition_directory(topic_of(log), 1)) or []
    assert sorted(names) == sorted(f"{base:020d}.{kind}" for base in left for kind in ("index", "log"))
    first = read_all(log.files, log.partition_directory(topic_of(log), 1))[0].offset
    assert first == left[0]
    log.close()


def test_a_topic_that_was_purged_meanwhile_is_left_alone(log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 10)
    retain(log, size_bytes=1)
    look = Retention._list_closed

    def look_and_change(self: Retention, topic: TopicRecord) -> object:
        found = look(self, topic)
        retain(log, age_us=1 << 60)
        return found

    monkeypatch.setattr(Retention, "_list_closed", look_and_change)
    assert Retention(log, clock).apply() == 0
    assert bases(log) == [0, 3, 6, 9]


def test_the_thread_drops_at_once_and_ends_with_the_log(log: Log) -> None:
    others = set(threading.enumerate())
    fill(log, 10)
    log.upkeep.start(lambda: 10**9)
    assert not [thread for thread in set(threading.enumerate()) - others if thread.name == "headstream-retention"]
    retain(log, age_us=1)
    log.upkeep.start(lambda: 10**9)
    threads = [thread for thread in set(threading.enumerate()) - others if thread.name == "headstream-retention"]
    assert len(threads) == 1
    assert log.wait([], lambda _: bases(log) == [9], 60, time.monotonic)
    log.close()
    assert not threads[0].is_alive()


def test_retention_of_a_catalog_of_version_2_is_off(tmp_path: Path) -> None:
    log = open_log(tmp_path, OsFiles())
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY), 5)
    log.close()
    connection = sqlite3.connect(tmp_path / "catalog.sqlite")
    connection.executescript(
        "DROP TABLE states; ALTER TABLE topics DROP COLUMN retention_us; ALTER TABLE topics DROP COLUMN retention_bytes;"
        "ALTER TABLE topics DROP COLUMN compaction_delay_us; ALTER TABLE topics DROP COLUMN deduplication_count;"
        "ALTER TABLE topics DROP COLUMN summary_headers; ALTER TABLE topics DROP COLUMN kafka_headers;"
        "ALTER TABLE topics DROP COLUMN compression; ALTER TABLE topics DROP COLUMN replication; DROP TABLE groups;"
        "ALTER TABLE topics DROP COLUMN deletion_grace_us; ALTER TABLE topics DROP COLUMN legal_hold;"
        "DROP TABLE tokens; DROP TABLE users; DROP TABLE writers; DROP TABLE state_changes;"
        "PRAGMA user_version = 2"
    )
    connection.close()
    reader = Log(str(tmp_path), OsFiles(), is_memory=False, segment_bytes=4096)
    assert topic_of(reader).options == TopicOptions(deletion_grace_us=None)
    assert reader.states.changes(topic_of(reader), 1) == []
    log = open_log(tmp_path, OsFiles())
    retain(log, 5, 6)
    assert topic_of(reader).options == TopicOptions(5, 6)
    reader.close()
    log.close()
