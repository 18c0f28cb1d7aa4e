"""PartitionEnd: the short way of small sends leaves the same bytes as the long one, and is shut where it would not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.codec.binary import encode_sent
from headstream.errors import DecodeError, HeadstreamError, LimitError
from headstream.log import partition as partitions
from headstream.log.files import OsFiles
from headstream.log.partition import Partition, ReservedError
from headstream.log.partition_end import MAX_SHORT_BYTES
from headstream.model.headers import Headers
from headstream.model.message import Message
from headstream.model.topology import Fsync, TopicOptions
from tests import kernels
from tests.logs import SEED, batch, make_files, open_partition, payloads, read_all

ENDS = kernels.variants("headstream.log.partition_end")
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
def place(segment_bytes: int = 1 << 20) -> Iterator[tuple[Partition, Path]]:
    with tempfile.TemporaryDirectory() as root:
        files, directory = make_files("os", Path(root))
        partition = open_partition(files, directory, segment_bytes=segment_bytes)
        yield partition, Path(directory)
        partition.close()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def append_short(partition: Partition, sent: bytes, time_us: int) -> int:
    """Append by the short way alone, out of the middle of other bytes."""
    return int(partition.end.append(memoryview(b"before" + sent + b"behind"), 6, 6 + len(sent), time_us))


def is_short(partition: Partition, sent: bytes = b"") -> bool:
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
    partition = Partition(directory, files, wide=False, segment_bytes=1 << 20, fsync=Fsync.ALWAYS)
    partition.append(batch(b"1"), 0, SEED)
    assert not is_short(partition)
    partition.close()


def test_whoever_syncs_is_told_of_the_first_append_after_each_sync(end: ModuleType, tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    told: list[int] = []
    partition = Partition(
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
