"""One compaction of a partition: what stays, whatever it is broken off at, and who reads and changes states meanwhile."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message
from headstream.errors import OffsetOutOfRangeError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_partition
from headstream.log.partition.closed_segments import finish_pass, list_closed
from headstream.log.partition.index_rebuild import IndexRebuild
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.files import BufferPool
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INDEX_SUFFIX, segment_path
from headstream.log.system.files import Files, MemoryFiles
from headstream.log.upkeep.compaction_pass import CompactionPass, Outcome
from headstream.log.upkeep.segment_rewrite import PassContext
from tests.campaigns.faulty_files import FaultyFiles, Killed

SEED = bytes(16)
PLACE = "p"


class Sent(NamedTuple):
    offset: int
    key: bytes
    payload: bytes | None
    time_us: int


def make(files: Files, segment_bytes: int) -> PartitionWriter:
    files.make_directory(PLACE)
    return PartitionWriter(PLACE, files, wide=True, segment_bytes=segment_bytes)


def fill(partition: PartitionWriter, rng: random.Random, sends: int, time_us: int) -> list[Sent]:
    done = []
    for _ in range(sends):
        messages = [
            Message(
                payload=None if rng.random() < 0.25 else rng.randbytes(rng.choice([1, 20, 150])), key=b"%d" % rng.randint(0, 9)
            )
            for _ in range(rng.randint(1, 5))
        ]
        time_us += rng.choice([0, 1, 50])
        first = partition.append(encode_sent(messages), time_us, SEED)
        done += [Sent(first + number, each.key or b"", each.payload, time_us) for number, each in enumerate(messages)]
    return done


def make_closed(files: Files, segment_bytes: int) -> list[Sent]:
    """Make a partition with ten sends, all of them in closed segments."""
    partition = make(files, segment_bytes)
    sent = fill(partition, random.Random(1), 10, 0)
    partition.roll()
    return sent


def compact(files: Files, *, segment_bytes: int = 1000, null_before_us: int = 0, around: PassContext | None = None) -> Outcome:
    return CompactionPass(
        PLACE, files, segment_bytes=segment_bytes, null_before_us=null_before_us, seed=SEED, around=around
    ).run()


def read(files: Files, size_bytes: int = 300) -> list[Sent]:
    with PartitionFollower(PLACE, files) as follower:
        chunks = follower.read(follower.first_offset, size_bytes=size_bytes)
        found = [message for chunk in chunks for message in decode_polled(chunk)]
        assert follower.messages_count() == len(found)
        assert all(follower.find_last(count) == found[-count].offset for count in range(1, len(found) + 1))
        for message in found[::5]:
            assert follower.offset_of(message.timestamp or 0) <= (message.offset or 0)
            path, position = follower.position_of(message.offset or 0)
            head = memoryview(bytearray(8))
            file = files.open_read(path)
            assert file is not None
            file.read_into(head, position)
            assert int.from_bytes(head, "little") == message.offset
    return [Sent(each.offset or 0, each.key or b"", each.payload, each.timestamp or 0) for each in found]


def what_stays(sent: list[Sent], null_before_us: int) -> list[Sent]:
    last = {each.key: each.offset for each in sent}
    return [
        each for each in sent
        if last[each.key] == each.offset and not (each.payload is None and each.time_us < null_before_us)
    ]  # fmt: skip


def find_damage(files: Files) -> list[str]:
    return [each.what for each in verify_partition(PLACE, files, BufferPool()) if each.is_damage]


@pytest.mark.parametrize("seed", range(25))
def test_the_last_of_each_key_stays_pass_after_pass(seed: int) -> None:
    rng, files = random.Random(seed), MemoryFiles()
    partition = make(files, rng.choice([200, 1000, 4000]))
    sent: list[Sent] = []
    for _ in range(rng.randint(1, 8)):
        sent += fill(partition, rng, rng.randint(1, 8), sent[-1].time_us if sent else 0)
        partition.roll()
        before = sent[-1].time_us - rng.choice([0, 100, 10**9])
        there = len(sent)
        sent = what_stays(sent, before)
        outcome = compact(files, segment_bytes=rng.choice([200, 1000, 4000]), null_before_us=before)
        assert outcome.dropped_count == there - len(sent)
        nulls = [each.time_us for each in sent if each.payload is None]
        assert outcome.oldest_null_us == (min(nulls) if nulls else None)
        assert read(files) == sent
        assert find_damage(files) == []
        assert list(verify_partition(PLACE, files, BufferPool())) == []
    assert [each.is_compacted for each in list_closed(PLACE, files)] == [True] * len(list_closed(PLACE, files))


@pytest.mark.parametrize("is_power_cut", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("seed", range(4))
def test_compaction_pass_loses_no_last_message_of_a_key_when_it_is_killed_at_any_operation(seed: int, is_power_cut: bool) -> None:
    for killed_in in range(1 + seed, 400, 5):
        rng, files = random.Random(seed), FaultyFiles(seed * 1000 + killed_in)
        partition = make(files, 400)
        sent = fill(partition, rng, 6, 0)
        partition.roll()
        compact(files)
        sent = what_stays(sent, 0)
        sent += fill(partition, rng, 8, sent[-1].time_us)
        partition.roll()
        before = sent[-1].time_us - 60
        files.killed_in = killed_in
        try:
            compact(files, null_before_us=before)
        except Killed:
            pass
        else:
            assert killed_in > 20
            break
        if is_power_cut:
            files.cut_power()
        files.revive()
        expected = what_stays(sent, before)
        found = read(files)
        assert found == [each for each in sent if each in set(found)]
        assert set(expected) <= set(found)
        newest = {each.key: each for each in found}
        for each in what_stays(sent, 0):  # a null payload is gone only when all that it removes is
            assert newest.get(each.key, each) == each
        assert find_damage(files) == []
        finish_pass(PLACE, files)
        partition = make(files, 400)
        assert set(expected) <= set(read(files))
        compact(files, null_before_us=before)
        assert read(files) == expected
        assert list(verify_partition(PLACE, files, BufferPool())) == []
        assert partition.append(encode_sent([Message(payload=b"x", key=b"0")]), 0, SEED) == sent[-1].offset + 1


def test_a_reader_goes_on_while_passes_come_and_go() -> None:
    rng, files = random.Random(3), MemoryFiles()
    partition = make(files, 500)
    sent = fill(partition, rng, 30, 0)
    partition.roll()
    with PartitionFollower(PLACE, files) as follower:
        found, offset = [], 0
        while offset < follower.end_offset:
            chunk, offset = follower.read_chunk(offset, follower.end_offset, 200)
            found += [message.offset or 0 for message in decode_polled(bytes(chunk))]
            compact(files, segment_bytes=rng.choice([500, 2000]))
        assert found == sorted(set(found))
        assert {each.offset for each in what_stays(sent, 0)} <= set(found)
        with pytest.raises(OffsetOutOfRangeError, match=r"the message at offset \d+ no longer exists"):
            follower.position_of(next(each.offset for each in sent if each not in what_stays(sent, 0)))


def test_an_index_of_a_compacted_segment_is_built_again() -> None:
    files = MemoryFiles()
    sent = make_closed(files, 5000)
    compact(files)
    files.remove(segment_path(PLACE, 0, INDEX_SUFFIX))
    assert "the index is missing" in find_damage(files)[0]
    assert any("rebuilt" in action.what for action in repair_partition(PLACE, files))
    assert read(files) == what_stays(sent, 0)
    assert find_damage(files) == []
    assert IndexRebuild(PLACE, 0, None, files, 1).run() == []
