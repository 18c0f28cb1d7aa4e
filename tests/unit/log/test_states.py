"""MessageStates: states in place, why they are what they are, and what a crash in between leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.batch.stored.scan import masked_crc32c, take_complete
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, StateChange
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import CorruptLogError, InvalidInputError, OffsetOutOfRangeError, StorageError
from headstream.log.administration import create_topic, delete_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import LOG_SUFFIX, base_offsets, segment_path
from headstream.log.states import MessageStates
from headstream.log.system.files import MemoryFiles, OsFiles
from tests.support.crashes import fail_with
from tests.support.log.logs import SEED, batch, open_log, open_log_of, read_all, topic_of


def change(state: int, reason: str = "why", by: str = "me", changed_us: int = 9) -> StateChange:
    return StateChange(-1, state, reason, by, changed_us)


def fill(log: Log, sends: int = 60) -> TopicRecord:
    """Send three messages at a time, over several segments."""
    create_topic(log, NewTopic(TopicName("shop", "orders"), 2, Limits.IGGY), 5)
    topic = topic_of(log)
    for number in range(sends):
        log.append(topic, 1, batch(*(b"%d %d" % (number, part) * 10 for part in range(3))), 100 + number, SEED)
    return topic


def read(log: Log, topic: TopicRecord) -> Sequence[Message]:
    return read_all(log.files, log.partition_directory(topic, 1))


@pytest.fixture(params=["os", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    log = open_log_of(request.param, tmp_path)
    yield log
    log.close()


def test_set_changes_nothing_but_the_state_byte(log: Log) -> None:
    topic = fill(log)
    before = read(log, topic)
    log.states.set(topic, 1, [170, 4, 4, 0, 100], change(20))
    after = read(log, topic)
    assert [message.offset for message in after if message.state != 1] == [0, 4, 100, 170]
    assert [(m.offset, m.payload, m.id, m.timestamp, m.checksum) for m in after] == [
        (m.offset, m.payload, m.id, m.timestamp, m.checksum) for m in before
    ]
    assert all(message.verify() for message in after)


def test_set_leaves_the_checksums_of_the_index_valid(log: Log) -> None:
    topic = fill(log)
    log.states.set(topic, 1, range(0, 180, 7), change(30))
    directory = log.partition_directory(topic, 1)
    bases = base_offsets(log.files.list_names(directory) or [])
    assert len(bases) > 2
    for base in bases:
        path = segment_path(directory, base, ".index")
        index_file, data = log.files.open_read(path), log.files.open_read(segment_path(directory, base, ".log"))
        assert index_file is not None
        assert data is not None
        index = IndexReader(index_file, path, base)
        for number in range(index.count):
            entry = index.entry(number)
            stored = memoryview(bytearray(entry.size_bytes))
            data.read_into(stored, entry.byte_position)
            assert masked_crc32c(stored) == entry.crc32c


def test_changes_says_why_by_whom_and_when(log: Log) -> None:
    topic = fill(log)
    log.states.set(topic, 1, [5, 3], change(20, "cannot be parsed", "billing", 1000))
    log.states.set(topic, 1, [4], change(10))
    assert log.states.changes(topic, 1) == [
        StateChange(3, 20, "cannot be parsed", "billing", 1000),
        StateChange(4, 10, "why", "me", 9),
        StateChange(5, 20, "cannot be parsed", "billing", 1000),
    ]
    assert log.states.changes(topic, 2) == []
    log.states.set(topic, 1, [3, 4], change(1))
    log.states.set(topic, 1, [5], change(30, "enough"))
    assert log.states.changes(topic, 1) == [StateChange(5, 30, "enough", "me", 9)]
    assert [each.offset for each in log.states.changes(topic, 1)] == [5]
    assert [message.offset for message in read(log, topic) if message.state != 1] == [5]


@pytest.mark.parametrize("offsets", [[-1], [180], [0, 1000]])
def test_set_refuses_an_offset_that_is_not_there_and_changes_nothing(log: Log, offsets: list[int]) -> None:
    topic = fill(log)
    with pytest.raises(OffsetOutOfRangeError, match=r"there is no message at offset .*: use 0 to 179"):
        log.states.set(topic, 1, offsets, change(20))
    with pytest.raises(OffsetOutOfRangeError, match="the partition is empty"):
        log.states.set(topic, 2, [0], change(20))
    assert log.states.changes(topic, 1) == []
    assert {message.state for message in read(log, topic)} == {1}


@pytest.mark.parametrize("state", [-1, 0, 256])
def test_set_refuses_what_is_no_state(log: Log, state: int) -> None:
    topic = fill(log, 1)
    with pytest.raises(InvalidInputError, match="must be a number from 1 to 255"):
        log.states.set(topic, 1, [0], change(state))


def test_set_of_nothing_does_nothing(log: Log) -> None:
    topic = fill(log, 1)
    log.states.set(topic, 1, [], change(20))
    assert log.states.changes(topic, 1) == []


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["before the bytes", "after some bytes", "after the bytes"])
def test_a_crash_between_the_steps_is_repaired_when_the_log_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log = open_log(tmp_path, OsFiles())
    topic = fill(log)
    log.states.set(topic, 1, [7, 8], change(10))
    write = MessageStates._write

    def crash(self: MessageStates, changes: Any) -> None:
        done = {"before the bytes": 0, "after some bytes": 1, "after the bytes": len(changes)}[step]
        write(self, changes[:done])
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(MessageStates, "_write", crash)
        with pytest.raises(Crash):
            log.states.set(topic, 1, [2, 150], change(20))
        with pytest.raises(Crash):
            log.states.set(topic, 1, [7, 8], change(1))
    log.close()
    log = open_log(tmp_path, OsFiles())
    assert {message.offset: message.state for message in read(log, topic) if message.state != 1} == {2: 20, 150: 20}
    assert [each.offset for each in log.states.changes(topic, 1)] == [2, 150]
    assert [each.offset for each in log.states.changes(topic, 1)] == [2, 150]
    log.close()


def test_repair_leaves_pending_what_a_damaged_partition_does_not_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, OsFiles())
    topic = fill(log)

    with monkeypatch.context() as patch:
        patch.setattr(MessageStates, "_write", fail_with(StorageError("no")))
        with pytest.raises(StorageError):
            log.states.set(topic, 1, [2], change(20))
        log.close()
        log = open_log(tmp_path, OsFiles())
    assert [each.offset for each in log.states.changes(topic, 1)] == [2]
    assert read(log, topic)[2].state == 1
    log.close()
    log = open_log(tmp_path, OsFiles())
    assert read(log, topic)[2].state == 20
    log.close()


def test_set_refuses_to_write_where_the_index_leads_astray(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = fill(log)
    path = segment_path(log.partition_directory(topic, 1), 0, LOG_SUFFIX)
    monkeypatch.setattr(MessageStates, "_find", lambda *_: [(path, 3)])
    with pytest.raises(CorruptLogError, match="expects offset 2 at byte"):
        log.states.set(topic, 1, [2], change(20))
    assert {message.state for message in read(log, topic)} == {1}


def test_a_reader_sees_what_a_writer_sets(tmp_path: Path) -> None:
    writer = open_log(tmp_path, OsFiles())
    topic = fill(writer)
    reader = Log(str(tmp_path), OsFiles(), is_memory=False, segment_bytes=4096)
    assert reader.snapshot()["shop"].topics["orders"] == topic
    assert [each.offset for each in reader.states.changes(topic, 1)] == []
    writer.states.set(topic, 1, [3, 90], change(20))
    assert [each.offset for each in reader.states.changes(topic, 1)] == [3, 90]
    assert [each.offset for each in reader.states.changes(topic, 1)] == [3, 90]
    writer.states.set(topic, 1, [3], change(1))
    assert [each.offset for each in reader.states.changes(topic, 1)] == [90]
    delete_topic(writer, topic)
    assert reader.states.next_exception(topic, 1) is None
    reader.close()
    writer.close()


def test_set_reads_a_send_about_once_when_it_changes_all_of_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned_bytes = list[int]()

    def take(chunk: memoryview, count: int, span: int) -> tuple[int, int]:
        scanned_bytes.append(len(chunk))
        return take_complete(chunk, count, span)

    monkeypatch.setattr("headstream.log.segments.send_positions.take_complete", take)
    log = Log("memory", MemoryFiles(), is_memory=True, segment_bytes=1 << 30)
    log.start_writing("identity", 1)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY), 5)
    topic = log.snapshot()["shop"].topics["orders"]
    sent = batch(*[b"x" * 1000] * 2000)
    log.append(topic, 1, sent, 100, SEED)
    log.states.set(topic, 1, range(2000), change(10))
    assert [message.state for message in read(log, topic)] == [10] * 2000
    assert sum(scanned_bytes) < 4 * len(sent)  # 128 KiB for each of them were 120 times as much, and more further behind
    log.close()
