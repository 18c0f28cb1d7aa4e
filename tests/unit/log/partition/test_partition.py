"""PartitionWriter: append and roll, and what is refused."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import DecodeError, InvalidInputError, LimitError, StorageError
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.layout import IndexEntry, decode_entry
from headstream.log.system.files import Files, OsFiles
from tests.support.log.logs import SEED, FaultyFiles, batch, make_files, open_partition, payloads, read_all
from tests.support.messages.batches import header, sent
from tests.support.waiting import run_together


def test_append_returns_the_first_offset_and_stamps_the_messages(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    assert partition.append(batch(b"a", b"b"), 100, SEED) == 0
    assert partition.append(batch(b"c"), 200, SEED[::-1]) == 2
    assert partition.end_offset == 3
    messages = read_all(files, directory)
    assert [(m.offset, m.payload, m.timestamp, m.state) for m in messages] == [
        (0, b"a", 100, 1), (1, b"b", 100, 1), (2, b"c", 200, 1)
    ]  # fmt: skip
    assert all(message.verify() for message in messages)
    assert len({message.id for message in messages} - {0}) == 3


def test_append_writes_the_messages_and_nothing_else(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory)
    partition.append(batch(b"first"), 7, SEED)
    partition.append(batch(b"second", b"third"), 8, SEED)
    names = sorted(path.name for path in Path(directory).iterdir())
    assert names == ["00000000000000000000.index", "00000000000000000000.log"]
    index = (Path(directory) / names[0]).read_bytes()
    assert len(index) == 32 + 2 * 32
    sizes = [45 + 5, 45 + 6 + 45 + 5]
    assert (Path(directory) / names[1]).stat().st_size == sum(sizes)
    first, second = decode_entry(index[32:64], 0), decode_entry(index[64:96], 0)
    assert isinstance(first, IndexEntry)
    assert isinstance(second, IndexEntry)
    assert first[:5] == (0, sizes[0], 0, 1, 7)
    assert second[:5] == (sizes[0], sizes[1], 1, 2, 8)


def test_append_rolls_before_a_send_that_does_not_fit(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory, segment_bytes=200)
    for number in range(4):
        partition.append(batch(b"%d" % number * 40), number, SEED)  # 85 bytes stored: two fit
    partition.append(batch(b"x" * 1000), 9, SEED)  # bigger than a segment: one of its own
    partition.append(batch(b"y"), 9, SEED)
    logs = {path.name: path.stat().st_size for path in Path(directory).glob("*.log")}
    assert logs == {f"{0:020d}.log": 170, f"{2:020d}.log": 170, f"{4:020d}.log": 1045, f"{5:020d}.log": 46}
    assert payloads(read_all(files, directory)) == [*(b"%d" % n * 40 for n in range(4)), b"x" * 1000, b"y"]


def test_timestamps_never_decrease_though_the_clock_goes_back(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=1)
    for time in (100, 50, 120):
        partition.append(batch(b"x"), time, SEED)
    assert [message.timestamp for message in read_all(files, directory)] == [100, 100, 120]
    open_partition(files, directory).append(batch(b"x"), 5, SEED)
    assert read_all(files, directory)[-1].timestamp == 120


@pytest.mark.parametrize(
    ("sent_bytes", "error", "text"),
    [
        (batch(b"ok") + sent(b"x", header("too-big", 1, b"v" * 256)), LimitError, "too-big"),
        (batch(b"ok") + sent(b""), LimitError, "payload"),
        (batch(b"ok")[:-1], DecodeError, "cut short"),
        (b"", InvalidInputError, "contains no message"),
        (bytes(MAX_BATCH_BYTES + 1), LimitError, f"the batch has {MAX_BATCH_BYTES + 1} bytes"),
    ],
)
def test_append_writes_nothing_of_a_batch_it_refuses(
    place: tuple[Files, str], sent_bytes: bytes, error: type[Exception], text: str
) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    partition.append(batch(b"before"), 0, SEED)
    with pytest.raises(error, match=text):
        partition.append(sent_bytes, 0, SEED)
    assert partition.append(batch(b"after"), 0, SEED) == 1
    assert payloads(read_all(files, directory)) == [b"before", b"after"]


def test_wide_topics_take_what_iggy_topics_refuse(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory, wide=True)
    partition.append(sent(b"", header("big", 1, b"v" * 300)), 0, SEED)
    assert read_all(files, directory)[0].headers["big"] == b"v" * 300


@pytest.mark.parametrize("failing", [".log", ".index"])
@pytest.mark.parametrize("rolls", [False, True])
def test_append_that_fails_leaves_no_trace(failing: str, rolls: bool) -> None:
    files = FaultyFiles()
    files.make_directory("partition")
    partition = open_partition(files, "partition", segment_bytes=1 if rolls else 1 << 20)
    partition.append(batch(b"before"), 0, SEED)
    files.failing = failing
    for _ in range(2):
        with pytest.raises(StorageError, match=r"No space left on device .*Free space"):
            partition.append(batch(b"lost", b"lost"), 0, SEED)
        assert payloads(read_all(files, "partition")) == [b"before"]
    files.failing = None
    assert partition.append(batch(b"after"), 0, SEED) == 1
    assert payloads(read_all(files, "partition")) == [b"before", b"after"]
    assert open_partition(files, "partition").end_offset == 2


def test_append_keeps_what_is_on_disk_when_it_is_interrupted_after_its_index_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory)
    partition.append(batch(b"before"), 0, SEED)
    partition.end.shut()  # the short way is one step, which nothing interrupts
    index = partition._index
    assert index is not None
    write_at = type(index).write_at

    def interrupt(self: object, data: bytes, position: int) -> None:
        write_at(self, data, position)  # type: ignore[arg-type]
        if self is index:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(index), "write_at", interrupt)
        with pytest.raises(KeyboardInterrupt):
            partition.append(batch(b"interrupted"), 0, SEED)
    assert partition.append(batch(b"after"), 0, SEED) == 2
    assert payloads(read_all(files, directory)) == [b"before", b"interrupted", b"after"]


def test_append_opens_its_files_again_after_close(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    partition.append(batch(b"1"), 0, SEED)
    partition.close()
    assert partition.append(batch(b"2"), 0, SEED) == 1
    assert payloads(read_all(files, directory)) == [b"1", b"2"]


def test_append_by_many_threads_gives_every_message_its_own_offset(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=2000)
    firsts: list[tuple[int, bytes]] = []

    def append(thread: int) -> None:
        for number in range(40):
            payload = b"%d-%d" % (thread, number)
            firsts.append((partition.append(batch(payload, payload), 0, SEED), payload))

    run_together(*(partial(append, number) for number in range(4)))
    messages = read_all(files, directory)
    assert [message.offset for message in messages] == list(range(320))
    assert all(messages[first].payload == payload == messages[first + 1].payload for first, payload in firsts)


def test_partition_goes_on_where_it_ended(place: tuple[Files, str]) -> None:
    files, directory = place
    for number in range(5):
        partition: PartitionWriter = open_partition(files, directory, segment_bytes=120)
        assert partition.append(batch(b"%d" % number, b"."), 0, SEED) == 2 * number
        partition.close()
    assert len(read_all(files, directory)) == 10


def test_a_closed_partition_and_a_full_segment_keep_no_room_ahead(tmp_path: Path) -> None:
    files = OsFiles()
    partition = PartitionWriter(str(tmp_path), files, wide=False, segment_bytes=4 << 20)
    for _ in range(6):
        partition.append(batch(*[os.urandom(1 << 10)] * 1000), 1, SEED)
    first, second = sorted(tmp_path.glob("*.log"))
    assert first.stat().st_blocks * 512 - first.stat().st_size < 4096
    partition.close()
    assert second.stat().st_blocks * 512 - second.stat().st_size < 4096
