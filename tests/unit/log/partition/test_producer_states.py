"""ProducerStates: a batch that comes again is known, through restarts, failed writes and kills between any two steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.core.model.producers import SEQUENCES, Appended, BatchNumber, is_owned_by, next_sequence, producer_id_of
from headstream.core.model.topology import Fsync, TopicOptions
from headstream.errors import DiskFullError, InvalidInputError, ProducerFencedError, ProducersLimitError, SequenceError
from headstream.log.partition import producer_states
from headstream.log.partition.partition import PartitionWriter
from headstream.log.partition.producer_states import MAX_PRODUCERS, PROTECTED_US
from headstream.log.segments.layout import PRODUCERS_NAME
from headstream.log.system.files import MemoryFiles, OsFiles
from tests.support.messages.batches import sent

SEED = bytes(range(16))
NOW = 1_700_000_000_000_000


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("p")
    return files


def opened(files: Any, directory: str = "p", **options: Any) -> PartitionWriter:
    return PartitionWriter(directory, files, wide=False, segment_bytes=1 << 20, **options)


def append(partition: PartitionWriter, number: tuple[int, int, int], *payloads: bytes, now_us: int = NOW) -> Appended:
    batch = b"".join(map(sent, payloads or (b"x",)))
    return partition.append_numbered(batch, now_us, SEED, BatchNumber(*number))


@pytest.mark.parametrize("fsync", list(Fsync))
def test_a_batch_that_comes_again_is_where_it_was_also_after_a_restart(files: MemoryFiles, fsync: Fsync) -> None:
    partition = opened(files, fsync=fsync)
    assert append(partition, (7, 0, 0), b"a", b"b") == Appended(0, NOW, 2)
    assert append(partition, (9, 0, 0), b"c", now_us=NOW + 5) == Appended(2, NOW + 5, 1)
    assert append(partition, (7, 0, 2), b"d") == Appended(3, NOW + 5, 1)
    for _ in range(2):
        assert append(partition, (7, 0, 0), b"a", b"b") == Appended(0, NOW, 2, is_repeat=True)
        assert append(partition, (9, 0, 0), b"c") == Appended(2, NOW + 5, 1, is_repeat=True)
        assert append(partition, (7, 0, 2), b"d") == Appended(3, NOW + 5, 1, is_repeat=True)
        assert partition.end_offset == 4
        partition.close()
        partition = opened(files)
    assert append(partition, (7, 0, 3), b"e").offset == 4


def test_the_newest_five_batches_are_known_and_older_ones_are_refused(files: MemoryFiles) -> None:
    partition = opened(files)
    for sequence in range(20):
        append(partition, (7, 0, sequence))
    for again in (partition, opened(files)):
        assert [append(again, (7, 0, sequence)).offset for sequence in range(15, 20)] == [15, 16, 17, 18, 19]
        with pytest.raises(SequenceError, match="begins with sequence 14, but 20 is expected"):
            append(again, (7, 0, 14))
        with pytest.raises(SequenceError, match="begins with sequence 21, but 20 is expected"):
            append(again, (7, 0, 21))
    assert opened(files).end_offset == 20


def test_the_same_sequence_with_another_count_is_no_repeat(files: MemoryFiles) -> None:
    partition = opened(files)
    append(partition, (7, 0, 0), b"a", b"b")
    with pytest.raises(SequenceError):
        append(partition, (7, 0, 0), b"a")


def test_a_new_epoch_begins_at_zero_and_fences_the_one_before(files: MemoryFiles) -> None:
    partition = opened(files)
    append(partition, (7, 0, 0))
    with pytest.raises(SequenceError, match="0 is expected"):
        append(partition, (7, 1, 1))
    assert append(partition, (7, 1, 0)).offset == 1
    for again in (partition, opened(files)):
        with pytest.raises(ProducerFencedError, match="is in epoch 1, but the batch has epoch 0"):
            append(again, (7, 0, 1))
        assert append(again, (7, 1, 0)) == Appended(1, NOW, 1, is_repeat=True)


def test_an_unknown_producer_may_begin_anywhere_and_sequences_go_round(files: MemoryFiles) -> None:
    partition = opened(files)
    assert append(partition, (7, 3, SEQUENCES - 2), b"a", b"b", b"c").offset == 0
    assert append(partition, (7, 3, 1), b"d").offset == 3
    assert next_sequence(SEQUENCES - 2, 3) == 1


@pytest.mark.parametrize("number", [(0, 0, 0), (1 << 63, 0, 0), (7, 1 << 15, 0), (7, 0, 1 << 31)])
def test_numbers_out_of_range_are_refused(files: MemoryFiles, number: tuple[int, int, int]) -> None:
    with pytest.raises(SequenceError, match="is not a valid batch number"):
        append(opened(files), number)


def test_a_batch_that_is_refused_leaves_its_number_free(files: MemoryFiles) -> None:
    partition = opened(files)
    append(partition, (7, 0, 0))
    with pytest.raises(InvalidInputError):
        append(partition, (7, 0, 1), b"")
    assert append(partition, (7, 0, 1), b"y").offset == 1


class Stopping(OsFiles):
    """Writes so many times, and no more: a process that is killed, or a disk that is full."""

    def __init__(self) -> None:
        self.writes_left = 1 << 30

    def open_write(self, path: str) -> Any:
        file, files = super().open_write(path), self

        class Counted:
            def write_at(self, data: Any, position: int) -> None:
                if not files.writes_left:
                    raise DiskFullError("no slot")
                files.writes_left -= 1
                file.write_at(data, position)

            def direct(self) -> None:
                return None

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        return Counted()


@pytest.fixture
def stopping(tmp_path: Path) -> tuple[Stopping, str]:
    return Stopping(), str(tmp_path)


@pytest.mark.parametrize("restart", [True, False], ids=["killed", "failed"])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_batch_that_did_not_end_is_not_known_and_what_takes_its_place_is_kept(
    stopping: tuple[Stopping, str], steps: int, restart: bool
) -> None:
    files, directory = stopping
    partition = opened(files, directory)
    append(partition, (7, 0, 0), b"a")
    files.writes_left = steps
    with pytest.raises(DiskFullError):
        append(partition, (7, 0, 1), b"b")
    files.writes_left = 1 << 30
    if restart:
        partition = opened(files, directory)
    assert partition.append(sent(b"another's"), NOW, SEED) == 1
    assert append(partition, (7, 0, 0), b"a") == Appended(0, NOW, 1, is_repeat=True)
    assert append(partition, (7, 0, 1), b"b") == Appended(2, NOW, 1)
    assert append(opened(files, directory), (7, 0, 1), b"b").is_repeat


def test_a_batch_whose_answer_alone_was_lost_is_known(stopping: tuple[Stopping, str]) -> None:
    files, directory = stopping
    partition = opened(files, directory)
    append(partition, (7, 0, 0), b"a")
    files.writes_left = 3
    append(partition, (7, 0, 1), b"b")
    files.writes_left = 1 << 30
    assert append(opened(files, directory), (7, 0, 1), b"b") == Appended(1, NOW, 1, is_repeat=True)


def test_a_producer_goes_on_behind_what_a_power_cut_has_taken(tmp_path: Path) -> None:
    files, directory = OsFiles(), str(tmp_path)
    partition = opened(files, directory)
    for sequence in range(3):
        append(partition, (7, 0, sequence), b"%d" % sequence)
    partition.close()
    index = next(tmp_path.glob("*.index"))
    index.write_bytes(index.read_bytes()[:-32])  # the last entry was not on the disk
    partition = opened(files, directory)
    assert partition.end_offset == 2
    assert append(partition, (7, 0, 3)).offset == 2


def test_torn_and_foreign_records_are_passed_over(files: MemoryFiles) -> None:
    partition = opened(files)
    for sequence in range(3):
        append(partition, (7, 0, sequence))
    partition.close()
    file = files.open_write(f"p/{PRODUCERS_NAME}")
    file.write_at(b"\xff", 64 + 64 * 3 + 5)  # the record of turn 3
    file.write_at(b"\xee" * 100, file.size_bytes())
    again = opened(files)
    assert append(again, (7, 0, 1)).is_repeat
    assert append(again, (7, 0, 2)).offset == 3


def test_what_a_topic_drops_by_its_ids_is_told(files: MemoryFiles) -> None:
    partition = opened(files)
    options = TopicOptions(deduplication_count=100)
    batch = sent(b"a", message_id=5)
    for number, expected in [((7, 0, 0), Appended(0, NOW, 1)), ((7, 0, 1), Appended(1, NOW, 0))]:
        for is_repeat in (False, True):
            found = partition.append_numbered(batch, NOW, SEED, BatchNumber(*number), options)
            assert found == Appended(expected.offset, NOW, expected.count, is_repeat)
    assert partition.end_offset == 1
    found = opened(files).append_numbered(batch, NOW, SEED, BatchNumber(7, 0, 1), options)
    assert found == Appended(1, NOW, 0, is_repeat=True)


def test_the_producer_silent_for_longest_makes_room_once_it_can_repeat_nothing(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_PRODUCERS > 1000
    monkeypatch.setattr(producer_states, "MAX_PRODUCERS", 3)
    partition = opened(files)
    for producer in (1, 2, 3):
        append(partition, (producer, 0, 5), now_us=NOW + producer)
    with pytest.raises(ProducersLimitError, match="limit of 3 producers that send to this partition within 66 minutes"):
        append(partition, (4, 0, 0), now_us=NOW + PROTECTED_US)
    append(partition, (1, 0, 6), now_us=NOW + PROTECTED_US)
    append(partition, (4, 0, 0), now_us=NOW + PROTECTED_US + 3)  # in place of 2
    for again in (partition, opened(files)):
        assert append(again, (1, 0, 6)).is_repeat
        assert append(again, (3, 0, 5)).is_repeat
        assert append(again, (4, 0, 0)).is_repeat
    assert not append(partition, (2, 0, 9), now_us=NOW + 3 * PROTECTED_US).is_repeat
    assert files.open_write(f"p/{PRODUCERS_NAME}").size_bytes() <= 64 + 3 * 6 * 64


def test_a_producer_that_is_done_is_forgotten(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_states, "MAX_PRODUCERS", 1)
    partition = opened(files)
    for producer in range(1, 10):
        append(partition, (producer, 0, 0))
        partition.forget_producer(producer)
        partition.forget_producer(producer)
    assert not append(opened(files), (9, 0, 0)).is_repeat


def test_ids_belong_to_users() -> None:
    producer = producer_id_of((1 << 43) - 1, 5)
    assert is_owned_by(producer, 5)
    assert not is_owned_by(producer, 4)
    assert producer_id_of(1, (1 << 20) - 1) < 1 << 63
