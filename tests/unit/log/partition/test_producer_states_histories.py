"""Numbered batches through whatever is done with a partition: what was acknowledged is known, what was not is stored once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.producers import Appended, BatchNumber
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import ProducerFencedError, SequenceError
from headstream.log.administration import add_partitions, create_topic, delete_partitions, purge_topic
from headstream.log.checks.backup import Backup
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_partition
from headstream.log.log import Log
from headstream.log.partition.closed_segments import finish_pass
from headstream.log.partition.partition import PartitionWriter
from headstream.log.partition.segment_removal import drop_segment, finish_drops
from headstream.log.segments.files import BufferPool
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INDEX_SUFFIX, log_offsets, segment_path
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.compaction_pass import CompactionPass
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.support.log.logs import SEED, open_log, topic_of

PLACE = "p"
KNOWN = 5


class History:
    """A partition, and what a perfect one would say of each batch."""

    def __init__(self, seed: int) -> None:
        self.rng, self.files = random.Random(seed), FaultyFiles(seed)
        self.files.make_directory(PLACE)
        self.time_us = 1_000_000
        self.end_offset = 0
        self.made = 0
        self.epochs = [0, 0, 0]
        self.sequences = [0, 0, 0]
        self.known: list[list[tuple[BatchNumber, bytes, Appended]]] = [[], [], []]
        self.partition = self.opened()

    def opened(self) -> PartitionWriter:
        finish_drops(PLACE, self.files)
        finish_pass(PLACE, self.files)
        return PartitionWriter(PLACE, self.files, wide=True, segment_bytes=600)

    def survives(self, act: Callable[[], object]) -> bool:
        """Do something that may be killed at any operation, and return whether it was not; the partition is open then."""
        self.files.killed_in = self.rng.choice([None, None, self.rng.randint(1, 40)])
        try:
            act()
        except Killed:
            self.files.revive()
            self.partition = self.opened()
            return False
        self.files.killed_in = None
        return True

    def batch(self) -> tuple[bytes, int]:
        count = self.rng.randint(1, 3)
        self.made += count
        payloads = range(self.made - count, self.made)
        return encode_sent([Message(payload=b"%d" % each, key=b"%d" % self.rng.randint(0, 5)) for each in payloads]), count

    def send(self) -> None:
        producer = self.rng.randrange(3)
        if self.rng.random() < 0.1:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        sent, count = self.batch()
        number = BatchNumber(producer + 1, self.epochs[producer], self.sequences[producer])
        self.time_us += 10
        while not self.survives(lambda: self.partition.append_numbered(sent, self.time_us, SEED, number)):
            pass
        first = Appended(self.end_offset, self.time_us, count, is_repeat=True)
        found = self.partition.append_numbered(sent, self.time_us + 5, SEED, number)
        assert found == first
        self.sequences[producer] += count
        self.end_offset += count
        if number.sequence == 0:
            self.known[producer].clear()
        self.known[producer].append((number, sent, found))

    def send_without_number(self) -> None:
        sent, count = self.batch()
        self.survives(lambda: self.partition.append(sent, self.time_us, SEED))
        assert self.partition.end_offset in (self.end_offset, self.end_offset + count)
        self.end_offset = self.partition.end_offset

    def roll(self) -> None:
        self.survives(self.partition.roll)

    def restart(self) -> None:
        self.partition.close()
        self.partition = self.opened()

    def compact(self) -> None:
        self.survives(lambda: CompactionPass(PLACE, self.files, segment_bytes=600, null_before_us=0, seed=SEED).run())

    def drop_oldest(self) -> None:
        offsets = sorted(log_offsets(self.files.list_names(PLACE) or []))
        if len({base for base, _ in offsets}) > 1:
            self.survives(lambda: drop_segment(PLACE, *offsets[0], self.files))

    def repair(self) -> None:
        """Lose the index of a closed segment, where there is one that was not compacted, and repair."""
        self.partition.close()
        offsets = sorted(log_offsets(self.files.list_names(PLACE) or []))
        if len(offsets) > 2 and offsets[1][1] == 0 and not verify(self.files):
            self.files.remove(segment_path(PLACE, offsets[1][0], INDEX_SUFFIX))
        repair_partition(PLACE, self.files)
        self.partition = self.opened()

    def check(self) -> None:
        """Send everything again that was acknowledged, and see that nothing comes of it."""
        assert self.partition.end_offset == self.end_offset
        for producer, batches in enumerate(self.known):
            for number, sent, found in batches[-KNOWN:]:
                assert self.partition.append_numbered(sent, self.time_us, SEED, number) == found
            for number, sent, _ in batches[:-KNOWN]:
                with pytest.raises(SequenceError):
                    self.partition.append_numbered(sent, self.time_us, SEED, number)
            if batches and self.epochs[producer] and batches[-1][0].epoch == self.epochs[producer]:
                with pytest.raises(ProducerFencedError):
                    self.partition.append_numbered(sent, self.time_us, SEED, batches[-1][0]._replace(epoch=0))
        assert self.partition.end_offset == self.end_offset
        with PartitionFollower(PLACE, self.files) as follower:
            payloads = [each.payload for chunk in follower.read(follower.first_offset) for each in decode_polled(chunk)]
        assert len(set(payloads)) == len(payloads)


def verify(files: FaultyFiles) -> bool:
    return bool(list(verify_partition(PLACE, files, BufferPool())))


@pytest.mark.parametrize("seed", range(40))
def test_batches_are_known_through_compaction_retention_repair_and_kills_between_all_steps(seed: int) -> None:
    history = History(seed)
    others = [history.roll, history.restart, history.compact, history.drop_oldest, history.repair, history.send_without_number]
    for _ in range(30):
        history.rng.choice([history.send, history.send, history.rng.choice(others)])()
        history.check()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "log", OsFiles())
    create_topic(log, NewTopic(TopicName("shop", "orders"), 2, Limits.IGGY), 2)
    return log


def append(log: Log, partition: int, sequence: int, *payloads: bytes) -> Appended:
    sent = encode_sent([Message(payload=payload) for payload in payloads])
    return log.append(topic_of(log), partition, sent, 5, SEED, BatchNumber(7, 0, sequence))


def test_copy_of_a_log_knows_the_batches_that_it_has_and_takes_the_others(log: Log, tmp_path: Path) -> None:
    for sequence in range(3):
        append(log, 1, sequence, b"%d" % sequence)
    Backup(str(tmp_path / "log"), str(tmp_path / "copy"), OsFiles()).run(None)
    append(log, 1, 3, b"3")
    assert append(log, 1, 3, b"3") == Appended(3, 5, 1, is_repeat=True)
    log.close()
    copy = Log(str(tmp_path / "copy"), OsFiles(), is_memory=False, segment_bytes=4096)
    copy.start_writing("other", 1)
    for sequence in range(3):
        assert append(copy, 1, sequence, b"%d" % sequence) == Appended(sequence, 5, 1, is_repeat=True)
    assert append(copy, 1, 3, b"3") == Appended(3, 5, 1)
    copy.close()


@pytest.mark.parametrize("way", ["partition", "purge"])
def test_batch_is_stored_again_after_its_partition_was_deleted_or_purged(log: Log, way: str) -> None:
    for partition in (1, 2):
        append(log, partition, 0, b"0")
    if way == "purge":
        purge_topic(log, topic_of(log), 9)
    else:
        delete_partitions(log, topic_of(log), 1)
        add_partitions(log, topic_of(log), 1, 9)
        assert append(log, 1, 0, b"0").is_repeat
    assert append(log, 2, 0, b"0") == Appended(0, 5, 1)
    assert append(log, 2, 0, b"0") == Appended(0, 5, 1, is_repeat=True)
    log.close()
