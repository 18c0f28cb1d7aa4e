"""Repeated ids are dropped, by what the newest messages on the disk have."""

from __future__ import annotations

import pytest

from headstream.core.codec.batch.results import Stamped
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.topology import TopicOptions
from headstream.errors import LimitError, StorageError
from headstream.log.partition.partition import PartitionWriter
from headstream.log.system.files import Files
from tests.support.log.logs import SEED, FaultyFiles, batch, open_partition, payloads, read_all

THREE = TopicOptions(deduplication_count=3)


def send(partition: PartitionWriter, *ids: int, options: TopicOptions = THREE) -> int:
    return partition.append(encode_sent([Message(payload=b"%d" % each, id=each) for each in ids]), 0, SEED, options)


def test_a_repeat_is_dropped_and_the_send_acknowledged(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    assert send(partition, 1, 2) == 0
    assert send(partition, 1, 2) == 2  # what the next message gets
    assert send(partition, 2, 3, 3, 1) == 2
    assert payloads(read_all(files, directory)) == [b"1", b"2", b"3"]
    assert send(partition, 4) == 3
    assert send(partition, 1) == 4  # three newer ones have come since
    assert send(partition, 2, options=TopicOptions()) == 5
    assert send(partition, 1, 4, 1, options=TopicOptions(deduplication_count=2)) == 6  # 1 and 2 are the newest two, then 2 and 4
    assert payloads(read_all(files, directory))[4:] == [b"1", b"2", b"4", b"1"]


def test_messages_without_an_id_are_never_repeats(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    for _ in range(3):
        partition.append(batch(b"same"), 0, SEED, THREE)
    assert len(read_all(files, directory)) == 3


def test_the_next_process_knows_the_ids_too(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=60)
    for number in (1, 2, 3, 4):
        send(partition, number)
    partition.close()
    partition = open_partition(files, directory, segment_bytes=60)
    assert send(partition, 2, 3, 4) == 4
    assert send(partition, 1) == 4
    partition.close()


def test_an_append_that_failed_is_no_repeat_when_it_is_tried_again() -> None:
    files = FaultyFiles()
    files.make_directory("p")
    partition = open_partition(files, "p")
    send(partition, 1)
    for failing in (".log", ".index"):
        files.failing = failing
        with pytest.raises(StorageError):
            send(partition, 2)
        files.failing = None
    with pytest.raises(LimitError):
        partition.append(encode_sent([Message(payload=b"2", id=2), Message(payload=None, id=3)]), 0, SEED, THREE)
    assert send(partition, 1, 2) == 1
    assert send(partition, 2) == 2
    assert payloads(read_all(files, "p")) == [b"1", b"2"]


def test_a_message_without_a_key_is_refused_where_the_last_of_each_key_is_kept(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    options = TopicOptions(compaction_delay_us=0)
    with pytest.raises(LimitError, match="message 1 of the batch has no key"):
        partition.append(encode_sent([Message(payload=b"x", key=b"k"), Message(payload=b"y")]), 0, SEED, options)
    assert partition.append(encode_sent([Message(payload=b"x", key=b"k")]), 0, SEED, options) == 0


def test_a_send_with_repeats_is_stamped_once(place: tuple[Files, str], monkeypatch: pytest.MonkeyPatch) -> None:
    stamped: list[int] = []

    def count_stamps(sent: bytes, *given: object) -> Stamped:
        stamped.append(len(sent))
        return stamp(sent, *given)  # type: ignore[arg-type]

    monkeypatch.setattr("headstream.log.partition.partition.stamp", count_stamps)
    files, directory = place
    partition = open_partition(files, directory)
    sizes = [len(encode_sent([Message(payload=b"1", id=1)])) * count for count in (2, 1, 0, 3)]
    assert send(partition, 1, 2) == 0
    assert send(partition, 2, 3) == 2
    assert send(partition, 3, 2) == 3
    assert stamped == sizes[:3]
    assert send(partition, 3, 2, 1, options=TopicOptions(compaction_delay_us=None)) == 3
    assert stamped == sizes
    partition.close()


def test_a_repeat_beyond_the_limits_is_refused_like_any_message(place: tuple[Files, str]) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    send(partition, 1)
    with pytest.raises(LimitError, match="without payload"):
        partition.append(encode_sent([Message(payload=b"1", id=1), Message(payload=b"", id=1)]), 0, SEED, THREE)
    assert partition.end_offset == 1
    partition.close()
