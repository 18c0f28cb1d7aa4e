"""PartitionWriterEnd: the short way of small sends leaves the same bytes as the long one, and is shut where it would not."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.binary import encode_sent
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.producers import Appended, BatchNumber
from headstream.core.model.topology import Fsync, TopicOptions
from headstream.errors import DecodeError, HeadstreamError, LimitError
from headstream.log.partition import partition as partitions
from headstream.log.partition.partition import PartitionWriter, ReservedError
from headstream.log.partition.partition_end import MAX_SHORT_BYTES, NO_NUMBER
from headstream.log.system.files import OsFiles
from tests.support import kernels
from tests.support.log.logs import SEED, batch, make_files, open_partition, payloads, read_all

ENDS = kernels.variants("headstream.log.partition.partition_end")
MESSAGES = st.lists(
    st.builds(
        Message,
        payload=st.binary(min_size=1, max_size=120),
        headers=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 99), max_size=2).map(Headers),
        id=st.integers(1, 2**128 - 1),
    ),
    min_size=1,
    max_size=5,
)


@pytest.fixture(params=ENDS, ids=kernels.name_of)
def end(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module: ModuleType = request.param
    monkeypatch.setattr(partitions, "PartitionEnd", module.PartitionEnd)
    return module


@contextmanager
def place(segment_bytes: int = 1 << 20) -> Iterator[tuple[PartitionWriter, Path]]:
    with tempfile.TemporaryDirectory() as root:
        files, directory = make_files("os", Path(root))
        partition = open_partition(files, directory, segment_bytes=segment_bytes)
        yield partition, Path(directory)
        partition.close()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def append_short(partition: PartitionWriter, sent: bytes, time_us: int) -> int:
    """Append by the short way alone, out of the middle of other bytes."""
    return int(partition.end.append(memoryview(b"before" + sent + b"behind"), 6, 6 + len(sent), time_us))


def is_short(partition: PartitionWriter, sent: bytes = b"") -> bool:
    """Return whether a small send goes the short way now; it is appended then."""
    return append_short(partition, sent or batch(b"short"), 0) >= 0


@settings(max_examples=25, deadline=None)
@given(sends=st.lists(st.tuples(MESSAGES, st.integers(0, 2**50)), max_size=30), segment_bytes=st.sampled_from([4096, 1 << 20]))
def test_short_way_leaves_the_same_files_as_the_long_one(sends: list[tuple[list[Message], int]], segment_bytes: int) -> None:
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for module in [*ENDS, None]:
            if module is not None:
                patch.setattr(partitions, "PartitionEnd", module.PartitionEnd)
            with place(segment_bytes) as (partition, directory):
                offsets = []
                for messages, time_us in sends:
                    if module is None:
                        partition.end.shut()
                    offsets.append(partition.append(encode_sent(messages), time_us, SEED))
                partition.close()
                found.append((offsets, contents(directory)))
    assert all(each == found[-1] for each in found)


@settings(max_examples=25, deadline=None)
@given(
    sends=st.lists(st.tuples(MESSAGES, st.integers(0, 2**50), st.integers(0, 3)), max_size=40),
    segment_bytes=st.sampled_from([4096, 1 << 20]),
)
def test_short_way_leaves_the_same_files_of_numbered_batches_as_the_long_one(
    sends: list[tuple[list[Message], int, int]], segment_bytes: int
) -> None:
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for module in [*ENDS, None]:
            if module is not None:
                patch.setattr(partitions, "PartitionEnd", module.PartitionEnd)
            with place(segment_bytes) as (partition, directory):
                appended, sequences = [], [0, 0, 0, 0]
                for messages, time_us, producer in sends:
                    if module is None:
                        partition.end.shut()
                    number = BatchNumber(producer, 0, sequences[producer]) if producer else None
                    sequences[producer] += len(messages)
                    appended.append(partition.append_numbered(encode_sent(messages), time_us, SEED, number))
                partition.close()
                again = open_partition(OsFiles(), str(directory), segment_bytes=segment_bytes)
                if sends and sends[-1][2]:
                    messages, time_us, producer = sends[-1]
                    number = BatchNumber(producer, 0, sequences[producer] - len(messages))
                    assert again.append_numbered(encode_sent(messages), 0, SEED, number) == replace(appended[-1], is_repeat=True)
                again.close()
                found.append((appended, contents(directory)))
    assert all(each == found[-1] for each in found)


@pytest.mark.parametrize("file", ["producers", "data", "index"])
def test_numbered_batch_whose_write_fails_on_the_short_way_is_not_known_and_can_be_sent_again(
    end: ModuleType, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place() as (partition, directory):
        for sequence in range(2):
            partition.append_numbered(batch(b"%d" % sequence), 0, SEED, BatchNumber(7, 0, sequence))
        files = {"data": partition._data, "index": partition._index, "producers": partition._producers}
        read_only = os.open(directory / f"{0:020d}.log", os.O_RDONLY)
        places = {name: each.direct() for name, each in files.items() if each is not None}
        places[file] = read_only, 1 << 20
        monkeypatch.setattr(partition._producers, "direct", lambda: places["producers"])
        data, index = places["data"], places["index"]
        assert data is not None
        assert index is not None
        partition.end.open(data, index, SEED, wide=False, producers=partition._producers)
        sent = batch(b"2")
        assert partition.end.append_numbered(memoryview(sent), 0, len(sent), 0, 7, 0, 2) is None
        assert partition.end.needs_recovery
        os.close(read_only)
        assert partition.append_numbered(batch(b"other"), 0, SEED, None).offset == 2
        assert partition.append_numbered(sent, 0, SEED, BatchNumber(7, 0, 2)) == Appended(3, 0, 1)
        assert partition.append_numbered(sent, 0, SEED, BatchNumber(7, 0, 2)) == Appended(3, 0, 1, is_repeat=True)
        assert payloads(read_all(OsFiles(), str(directory))) == [b"0", b"1", b"other", b"2"]


def test_numbered_batch_goes_the_short_way_only_as_the_one_that_is_expected(end: ModuleType) -> None:
    with place() as (partition, _):
        sent = batch(b"x")

        def is_taken(producer: int, epoch: int, sequence: int) -> bool:
            return partition.end.append_numbered(memoryview(sent), 0, len(sent), 5, producer, epoch, sequence) is not None

        assert not is_taken(7, 0, 0)
        partition.append(sent, 0, SEED)
        assert not is_taken(7, 0, 0)
        partition.append_numbered(sent, 0, SEED, BatchNumber(7, 0, 0))
        assert not is_taken(7, 0, 0)
        assert not is_taken(7, 1, 0)
        assert not is_taken(7, 0, 2)
        assert not is_taken(8, 0, 1)
        assert is_taken(7, 0, 1)
        assert partition.end.append_numbered(memoryview(sent), 0, len(sent), 5, 7, 0, 2) == (3, 5, 1)
        assert is_taken(*NO_NUMBER)
        partition.forget_producer(7)
        assert not is_taken(7, 0, 3)


def test_ids_that_are_made_on_the_short_way_are_uuids_of_their_time_and_all_different(end: ModuleType) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"long"), 1_700_000_000_000_000, SEED)
        for number in range(50):
            assert append_short(partition, batch(b"a", b"b"), 1_700_000_000_000_000 + number) == 1 + 2 * number
        ids = [message.id for message in read_all(OsFiles(), str(directory))]
    assert len(set(ids)) == len(ids) == 101
    for made in ids:
        spelled = made.to_bytes(16, "little")
        assert int.from_bytes(spelled[:6], "big") == 1_700_000_000_000
        assert spelled[6] >> 4 == 7
        assert spelled[8] >> 6 == 2


def test_time_never_goes_back_on_the_short_way(end: ModuleType) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"long"), 500, SEED)
        assert append_short(partition, batch(b"short"), 400) == 1
        assert [message.timestamp for message in read_all(OsFiles(), str(directory))] == [500, 500]


@pytest.mark.parametrize(
    ("sent", "error"),
    [(batch(b"cut")[:-1], DecodeError), (batch(b""), LimitError), (b"x", DecodeError), (batch(b"x") + b"y", DecodeError)],
)
def test_a_send_that_is_refused_is_refused_by_the_long_way(end: ModuleType, sent: bytes, error: type[HeadstreamError]) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"before"), 0, SEED)
        assert not is_short(partition, sent)
        with pytest.raises(error):
            partition.append(sent, 0, SEED)
        assert partition.append(batch(b"after"), 0, SEED) == 1
        assert payloads(read_all(OsFiles(), str(directory))) == [b"before", b"after"]


def test_short_way_is_shut_before_the_first_append_and_for_what_is_big(end: ModuleType) -> None:
    with place() as (partition, _):
        assert not is_short(partition)
        partition.append(batch(b"long"), 0, SEED)
        assert not is_short(partition, batch(bytes(MAX_SHORT_BYTES)))
        assert is_short(partition)


def test_short_way_is_shut_while_the_partition_is_reserved_and_until_the_next_append(end: ModuleType) -> None:
    with place() as (partition, _):
        partition.append(batch(b"long"), 0, SEED)
        assert partition.reserve() == 1
        assert not is_short(partition)
        with pytest.raises(ReservedError):
            partition.append(batch(b"other"), 0, SEED)
        partition.append(batch(b"reserved"), 0, SEED, is_reserved=True)
        assert not is_short(partition)
        partition.release()
        assert not is_short(partition)
        partition.append(batch(b"long"), 0, SEED)
        assert is_short(partition)


@pytest.mark.parametrize("action", ["sync", "roll", "close"])
def test_short_way_is_shut_after_whatever_else_is_done(end: ModuleType, action: str) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"1"), 0, SEED)
        getattr(partition, action)()
        assert not is_short(partition)
        assert partition.append(batch(b"2"), 0, SEED) == 1
        assert is_short(partition, batch(b"3"))
        assert payloads(read_all(OsFiles(), str(directory))) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("options", [TopicOptions(deduplication_count=10), TopicOptions(compaction_delay_us=1)])
def test_short_way_is_shut_where_a_topic_looks_into_its_messages(end: ModuleType, options: TopicOptions) -> None:
    keyed = encode_sent([Message(payload=b"x", key=b"k", id=7)])
    with place() as (partition, directory):
        partition.append(keyed, 0, SEED)
        partition.append(keyed, 0, SEED, options)
        assert not is_short(partition)
        count = len(read_all(OsFiles(), str(directory)))
        partition.append(keyed, 0, SEED, options)
        assert len(read_all(OsFiles(), str(directory))) == count + (options.deduplication_count is None)


def test_short_way_is_shut_where_each_append_waits_for_the_disk(end: ModuleType, tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    partition = PartitionWriter(directory, files, wide=False, segment_bytes=1 << 20, fsync=Fsync.ALWAYS)
    partition.append(batch(b"1"), 0, SEED)
    assert not is_short(partition)
    partition.close()


def test_whoever_syncs_is_told_of_the_first_append_after_each_sync(end: ModuleType, tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    told: list[int] = []
    partition = PartitionWriter(
        directory, files, wide=False, segment_bytes=1 << 20, fsync=Fsync.INTERVAL, on_dirty=lambda sync: told.append(1)
    )
    for number in range(3):
        for _ in range(4):
            partition.append(batch(b"x"), 0, SEED)
        assert len(told) == number + 1
        assert partition.sync() == 1 + 4 * (number + 1)
    partition.close()


@pytest.mark.parametrize("file", ["data", "index"])
def test_a_write_that_fails_on_the_short_way_leaves_nothing_and_the_next_append_goes_on(end: ModuleType, file: str) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"before"), 0, SEED)
        read_only = os.open(directory / f"{0:020d}.log", os.O_RDONLY)
        assert partition._data is not None
        assert partition._index is not None
        data, index = partition._data.direct(), partition._index.direct()
        assert data is not None
        assert index is not None
        if file == "data":
            data = read_only, data[1]
        else:
            index = read_only, index[1]
        partition.end.open(data, index, SEED, wide=False)
        assert not is_short(partition, batch(b"lost"))
        os.close(read_only)
        assert payloads(read_all(OsFiles(), str(directory))) == [b"before"]
        assert partition.append(batch(b"after"), 0, SEED) == 1
        assert payloads(read_all(OsFiles(), str(directory))) == [b"before", b"after"]


class NotedLock:
    """A lock that notes when one thread is about to acquire it."""

    def __init__(self, lock: threading.Lock, thread: threading.Thread, noted: threading.Event) -> None:
        self._lock, self._thread, self._noted = lock, thread, noted

    def __enter__(self) -> None:
        if threading.current_thread() is self._thread:
            self._noted.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@contextmanager
def other_thread_inside(module: ModuleType, end: Any, act: Callable[[], object]) -> Iterator[None]:
    """Let another thread act in the middle of the short append in the body: after its data, before its index entry.

    The append goes on when the other thread is done, or waits for it.
    """
    write_at, writes, is_past, failures = module.write_at, count(1), threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)
        is_past.set()

    other = threading.Thread(target=run)

    def interrupted(descriptor: int, data: memoryview, size: int, position: int) -> bool:
        if next(writes) == 2:
            other.start()
            assert is_past.wait(60)
        return bool(write_at(descriptor, data, size, position))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "write_at", interrupted)
        patch.setattr(end, "_guard", NotedLock(getattr(end, "_guard", threading.Lock()), other, is_past), raising=False)
        yield
        other.join(60)
    assert not failures
    assert not other.is_alive()


@pytest.fixture
def interpreted_end(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(partitions, "PartitionEnd", ENDS[-1].PartitionEnd)
    return ENDS[-1]


def test_interpreted_short_append_is_one_step_when_another_thread_appends(interpreted_end: ModuleType) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"long"), 0, SEED)
        with other_thread_inside(interpreted_end, partition.end, lambda: append_short(partition, batch(b"other"), 0)):
            assert append_short(partition, batch(b"first"), 0) == 1
        partition.append_numbered(batch(b"0"), 0, SEED, BatchNumber(7, 0, 0))
        sent, found = batch(b"1"), list[object]()

        def repeat() -> None:
            found.append(partition.append_numbered(sent, 0, SEED, BatchNumber(7, 0, 1)))

        with other_thread_inside(interpreted_end, partition.end, repeat):
            assert partition.append_numbered(sent, 0, SEED, BatchNumber(7, 0, 1)) == Appended(4, 0, 1)
        assert found == [Appended(4, 0, 1, is_repeat=True)]
        assert partition.append(batch(b"after"), 0, SEED) == 5
        assert payloads(read_all(OsFiles(), str(directory))) == [b"long", b"first", b"other", b"0", b"1", b"after"]


@pytest.mark.parametrize("action", ["sync", "roll", "close", "reserve"])
def test_interpreted_short_append_is_whole_before_another_thread_does_anything_else(
    interpreted_end: ModuleType, action: str
) -> None:
    with place() as (partition, directory):
        partition.append(batch(b"long"), 0, SEED)
        results: list[object] = []
        with other_thread_inside(interpreted_end, partition.end, lambda: results.append(getattr(partition, action)())):
            assert append_short(partition, batch(b"short"), 0) == 1
        assert results == [{"sync": 3, "reserve": 2}.get(action)], "it includes the append: the last process's sends count as one"
        partition.release()
        assert partition.append(batch(b"after"), 0, SEED) == 2
        assert payloads(read_all(OsFiles(), str(directory))) == [b"long", b"short", b"after"]


def test_interpreted_short_appends_to_two_partitions_are_independent(interpreted_end: ModuleType) -> None:
    with place() as (one, here), place() as (two, there):
        for partition in (one, two):
            partition.append(batch(b"long"), 0, SEED)
        with other_thread_inside(interpreted_end, one.end, lambda: append_short(two, batch(b"other", b"and more"), 0)):
            assert append_short(one, batch(b"first"), 0) == 1
        assert payloads(read_all(OsFiles(), str(here))) == [b"long", b"first"]
        assert payloads(read_all(OsFiles(), str(there))) == [b"long", b"other", b"and more"]
