"""Log: made at the first write, shared in a process, closed for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from headstream.core.codec.binary import decode_polled
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import ClosedError, StorageError
from headstream.log.administration import create_topic, delete_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.opening import close_log, open_directory, open_memory
from headstream.log.segments.follower import PartitionFollower
from headstream.log.staged.commits import StagedCommits
from headstream.log.system.files import OsFiles
from tests.support.log.logs import SEED, batch, payloads


def make_topic(log: Log, partitions: int = 1, name: str = "orders") -> TopicRecord:
    log.start_writing("identity", 1)
    create_topic(log, NewTopic(TopicName("shop", name), partitions, Limits.IGGY), 2)
    return log.snapshot()["shop"].topics[name]


def read(log: Log, topic: TopicRecord, number: int = 1) -> list[Message]:
    with log.reading(topic, number) as follower:
        follower.refresh()
        return [message for chunk in follower.read(follower.first_offset) for message in decode_polled(chunk)]


def test_the_first_write_makes_the_log(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path / "deep" / "log"))
    topic = make_topic(log, 2)
    log.append(topic, 2, batch(b"hello"), 3, SEED)
    assert log.identity == "identity"
    assert sorted(str(p.relative_to(log.root)) for p in Path(log.root).rglob("*") if p.is_file()) == [
        "catalog.sqlite", "catalog.sqlite-shm", "catalog.sqlite-wal", "headstream.json", "headstream.lock",
        f"streams/1/1/2/{0:020d}.index", f"streams/1/1/2/{0:020d}.log",
    ]  # fmt: skip
    assert log.partition_directory(topic, 2) == f"{log.root}/streams/1/1/2"
    with PartitionFollower(log.partition_directory(topic, 2)) as follower:
        assert payloads(decode_polled(next(follower.read(0)))) == [b"hello"]
    close_log(log)


def test_a_log_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    for number in range(3):
        log = open_directory(str(tmp_path))
        log.start_writing(f"identity {number}", number)
        topic = make_topic(log) if number == 0 else log.snapshot()["shop"].topics["orders"]
        assert log.append(topic, 1, batch(b"%d" % number), 3, SEED).offset == number
        assert log.identity == "identity 0"
        assert payloads(read(log, topic)) == [b"%d" % n for n in range(number + 1)]
        close_log(log)


def test_a_log_holds_few_files_however_many_partitions_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.log.log._MAX_OPEN", 128)
    log = open_directory(str(tmp_path))
    topic = make_topic(log, 400)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for round_ in range(2):
        for number in range(1, 401):
            assert log.append(topic, number, batch(b"%d" % number), 1, SEED).offset == round_
            assert len(read(log, topic, number)) == round_ + 1
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 128 * 4
    close_log(log)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_wait_wakes_at_an_append(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    looks: list[float] = []

    def is_there(directories: Collection[str]) -> bool:
        looks.append(time.monotonic())
        return len(read(log, topic)) > 0

    def wait() -> None:
        if log.wait([log.partition_directory(topic, 1)], is_there, 30, time.monotonic):
            woken.append(time.monotonic())

    woken: list[float] = []
    thread = threading.Thread(target=wait)
    thread.start()
    while not looks:
        thread.join(0.001)
    appended = time.monotonic()
    log.append(topic, 1, batch(b"x"), 1, SEED)
    thread.join()
    assert woken[0] - appended < 0.9  # a writer's waiting looks by itself once a second
    assert len(looks) <= 3
    close_log(log)


def test_wait_ends_after_its_time_by_the_clock_it_is_given(tmp_path: Path) -> None:
    log = open_memory()
    times = iter([0.0, 0.0, 100.0])
    assert not log.wait([], lambda _: False, 50.0, lambda: next(times))
    close_log(log)


def test_wait_ends_when_the_log_is_closed() -> None:
    log = open_memory()
    make_topic(log)
    errors: list[Exception] = []
    waiting = threading.Event()

    def wait() -> None:
        def is_there(directories: Collection[str]) -> bool:
            waiting.set()
            return False

        try:
            log.wait(["somewhere"], is_there, 30, time.monotonic)
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    close_log(log)
    thread.join(60)
    assert len(errors) == 1


def test_wait_is_told_of_what_another_log_of_the_directory_appends(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    directory = log.partition_directory(topic, 1)
    other = Log(str(tmp_path), OsFiles(), is_memory=False, segment_bytes=1 << 20)  # as in another process
    looks: list[int] = []

    def is_there(directories: Collection[str]) -> bool:
        looks.append(len(read(other, other.snapshot()["shop"].topics["orders"])))
        if len(looks) == 1:
            threading.Thread(target=log.append, args=(topic, 1, batch(b"x"), 1, SEED)).start()
        return looks[-1] > 0

    assert other.wait([directory], is_there, 30, time.monotonic)
    assert looks[0] == 0
    assert looks[-1] == 1
    assert len(looks) <= 4  # when the index was made, when it got its head, and its entry: nobody looked in between
    other.close()
    close_log(log)


def test_wait_ends_when_the_partition_is_dropped(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    log.append(topic, 1, batch(b"x"), 1, SEED)
    looked = threading.Event()
    notified: list[Collection[str]] = []

    def is_there(directories: Collection[str]) -> bool:
        looked.set()
        notified.append(set(directories))
        return len(notified) > 1

    directory = log.partition_directory(topic, 1)
    thread = threading.Thread(target=log.wait, args=([directory], is_there, 30, time.monotonic))
    thread.start()
    assert looked.wait(60)
    delete_topic(log, topic)
    thread.join(60)
    assert notified == [{directory}, {directory}]
    close_log(log)


def test_a_log_holds_few_files_however_many_topics_consumers_commit_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.log.log._MAX_OPEN_OFFSETS", 10)
    log = open_directory(str(tmp_path))
    topics = [make_topic(log, name=f"t{number}") for number in range(30)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    for round_ in range(2):
        for topic in topics:
            log.offsets(topic).commit(OffsetOwner.group("g"), 1, round_, 5)
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 10
    assert [log.offsets(topic).committed(OffsetOwner.group("g"), 1) for topic in topics] == [1] * 30
    delete_topic(log, topics[-1])
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 9
    close_log(log)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_threads_that_read_go_on_when_the_process_becomes_the_writer(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    close_log(log)
    log = open_directory(str(tmp_path))
    log.snapshot()
    states = log.states  # a thread has them when another one begins to write
    assert states.next_exception(topic, 1) is None
    log.start_writing("another", 2)
    assert states.next_exception(topic, 1) is None
    close_log(log)
    with pytest.raises(ClosedError, match="the log is closed"):
        states.next_exception(topic, 1)


def test_a_log_is_read_on_when_it_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    log.append(topic, 1, batch(b"hello"), 3, SEED)
    close_log(log)
    log = open_directory(str(tmp_path))
    assert payloads(read(log, log.snapshot()["shop"].topics["orders"])) == [b"hello"]
    with monkeypatch.context() as patched:
        patched.setattr(StagedCommits, "resume", lambda commits: (_ for _ in ()).throw(StorageError("no space")))
        with pytest.raises(StorageError):
            log.start_writing("identity", 2)
    assert not log.is_writer
    other = Log(str(tmp_path), OsFiles(), is_memory=False, segment_bytes=1 << 20)
    make_topic(other, name="bills")  # as another process does, which can become the writer now
    assert sorted(log.snapshot()["shop"].topics) == ["bills", "orders"]
    assert log.states.next_exception(topic, 1) is None
    other.close()
    log.start_writing("identity", 3)
    assert log.append(topic, 1, batch(b"again"), 4, SEED).offset == 1
    close_log(log)
