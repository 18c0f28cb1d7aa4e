"""Messages before an offset are removed, whatever the segments, the offset and the moment of a crash."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, StateChange
from headstream.core.model.topology import Fsync, Limits, NewTopic, TopicOptions
from headstream.errors import CorruptLogError, LegalHoldError, OffsetOutOfRangeError, TopicNotFoundError
from headstream.log.administration import create_topic, delete_topic, update_topic
from headstream.log.checks.backup import Backup
from headstream.log.checks.repair import repair_log
from headstream.log.checks.verification import Verification
from headstream.log.log import Log
from headstream.log.segments.follower import PartitionFollower
from headstream.log.system.files import MemoryFiles, OsFiles
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.marked_removal import MarkedRemoval
from headstream.log.upkeep.prefix_removal import remove_before
from headstream.log.upkeep.retention import Retention
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog
from tests.support.log.logs import SEED, batch, read_all, topic_of
from tests.support.messages.batches import header, sent


def payload(number: int) -> bytes:
    return b"<%06d>" % number + b"." * 92


def fill(log: Log, count: int) -> None:
    """Send messages of 100 bytes in batches of one to five."""
    rng, number = random.Random(count), 0
    while number < count:
        until = min(number + rng.randint(1, 5), count)
        log.append(topic_of(log), 1, batch(*(payload(each) for each in range(number, until))), 100 + number, SEED)
        number = until


def offsets(log: Log) -> list[int]:
    messages = read_all(log.files, log.partition_directory(topic_of(log), 1))
    assert all(message.payload == payload(message.offset or 0) and message.verify() for message in messages)
    return [message.offset or 0 for message in messages]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log("memory", MemoryFiles(), is_memory=True, segment_bytes=1000)
    log.start_writing("identity", 1)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE), 5)
    yield log
    log.close()


def test_each_prefix_of_a_partition_can_be_removed(log: Log) -> None:
    fill(log, 60)
    for offset in (0, 1, 7, 8, 8, 30, 31, 59):
        remove_before(log, topic_of(log), 1, offset)
        assert offsets(log) == [*range(offset, 60)]
    log.append(topic_of(log), 1, batch(payload(60)), 1000, SEED)
    assert offsets(log) == [59, 60]
    remove_before(log, topic_of(log), 1, 61)
    assert offsets(log) == []
    assert log.append(topic_of(log), 1, batch(payload(61)), 2000, SEED).offset == 61
    assert offsets(log) == [61]


def test_removed_messages_are_in_no_file_and_the_log_is_sound(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"), OsFiles(), is_memory=False, segment_bytes=1000)
    log.start_writing("6d2f1a52-7a3e-4a53-9d3c-9b5b7f0f6a10", 1)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE), 5)
    fill(log, 40)
    log.states.set(topic_of(log), 1, [3, 25], StateChange(-1, 20, "broken", "me", 7))
    remove_before(log, topic_of(log), 1, 23)
    contents = b"".join(path.read_bytes() for path in (tmp_path / "log").rglob("*") if path.is_file())
    assert [b"<%06d>" % number in contents for number in range(40)] == [False] * 23 + [True] * 17
    assert [change.offset for change in log.states.changes(topic_of(log), 1)] == [25]
    log.close()
    assert not [finding for finding in Verification(str(tmp_path / "log"), OsFiles()).run() if finding.is_damage]


def test_a_topic_that_compacts_keeps_the_last_message_of_each_key(log: Log) -> None:
    update_topic(log, topic_of(log), options=TopicOptions(compaction_delay_us=0))
    for number in range(60):
        keyed = sent(payload(number), header("hs.key", 1, b"%d" % (number % 7)))
        log.append(topic_of(log), 1, keyed, 100 + number, SEED)
    log.partition(topic_of(log), 1).roll()
    Compaction(log, lambda: 1).compact(topic_of(log), 1)
    remove_before(log, topic_of(log), 1, 56)
    assert offsets(log) == [56, 57, 58, 59]
    Compaction(log, lambda: 1).compact(topic_of(log), 1)
    assert offsets(log) == [56, 57, 58, 59]


@pytest.mark.parametrize("offset", [-1, 61, 1 << 40])
def test_an_offset_outside_of_the_partition_removes_nothing(log: Log, offset: int) -> None:
    fill(log, 60)
    with pytest.raises(OffsetOutOfRangeError, match="the partition ends at 60"):
        remove_before(log, topic_of(log), 1, offset)
    assert offsets(log) == [*range(60)]


def test_a_topic_under_legal_hold_and_one_that_is_gone_are_refused(log: Log) -> None:
    fill(log, 20)
    before = topic_of(log)
    update_topic(log, topic_of(log), options=TopicOptions(legal_hold=True))
    with pytest.raises(LegalHoldError):
        remove_before(log, topic_of(log), 1, 10)
    with pytest.raises(TopicNotFoundError, match="changed"):
        remove_before(log, before, 1, 10)
    assert offsets(log) == [*range(20)]
    update_topic(log, topic_of(log), options=TopicOptions(legal_hold=False))
    gone = topic_of(log)
    delete_topic(log, gone)
    with pytest.raises(TopicNotFoundError, match="deleted"):
        remove_before(log, gone, 1, 10)


def test_a_damaged_segment_stays_and_whole_ones_before_it_go(log: Log) -> None:
    fill(log, 60)
    directory = log.partition_directory(topic_of(log), 1)
    name = sorted(name for name in log.files.list_names(directory) or [] if name.endswith(".log"))[2]
    base = int(name.removesuffix(".log"))
    log.files.open_write(f"{directory}/{name}").write_at(b"\xff", 60)
    with pytest.raises(CorruptLogError):
        remove_before(log, topic_of(log), 1, base + 1)
    names = [name for name in log.files.list_names(directory) or [] if name.endswith(".log")]
    assert min(names) == name


@pytest.mark.parametrize(
    ("fate", "begin"),
    [
        ("kill", 1),
        ("power cut", 2),
        *(pytest.param(*other, marks=pytest.mark.nightly) for other in (("kill", 2), ("power cut", 1))),
    ],
)
def test_killed_at_each_operation_the_messages_behind_it_stay_and_the_next_call_finishes(
    tmp_path: Path, fate: str, begin: int
) -> None:
    memory = Path("/dev/shm")  # the catalog's syncs cost nothing there
    for operation in range(begin, 10_000, 2):
        files = FaultyFiles(operation)
        root = Path(mkdtemp(dir=memory if memory.is_dir() else tmp_path))
        log = KillableLog(str(root), files, 500)
        log.start_writing("identity", 1, briefly=True)
        create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY, Fsync.ALWAYS), 1)
        fill(log, 12)
        files.killed_in = operation
        try:
            remove_before(log, topic_of(log), 1, 10)
        except Killed:
            pass
        else:
            log.crash()
            shutil.rmtree(root)
            break
        (files.revive if fate == "kill" else files.cut_power)()
        log.crash()
        log = KillableLog(str(root), files, 500)
        log.start_writing("identity", 1, briefly=True)
        there, first = offsets(log), first_offset(log)
        assert there == [*range(first, 12)]
        assert first in (0, 10)
        remove_before(log, topic_of(log), 1, 10)
        assert offsets(log) == [10, 11]
        assert [files.find(b"<%06d>" % number) for number in range(10)] == [[]] * 10
        log.crash()
        shutil.rmtree(root)
    assert operation > 20


def first_offset(log: Log) -> int:
    with PartitionFollower(log.partition_directory(topic_of(log), 1), log.files) as follower:
        return follower.first_offset


def test_the_log_start_offset_is_that_of_the_greatest_deletion(log: Log) -> None:
    fill(log, 60)
    assert [remove_before(log, topic_of(log), 1, offset) for offset in (0, 33, 8, 33, 60, 59)] == [0, 33, 33, 33, 60, 60]
    assert first_offset(log) == 60
    assert log.append(topic_of(log), 1, batch(payload(60)), 1000, SEED).offset == 60
    assert first_offset(log) == 60


def test_the_log_start_offset_stays_after_restart_compaction_erasure_retention_repair_and_backup(tmp_path: Path) -> None:
    root = str(tmp_path / "log")

    def opened() -> Log:
        log = Log(root, OsFiles(), is_memory=False, segment_bytes=1000)
        log.start_writing("6d2f1a52-7a3e-4a53-9d3c-9b5b7f0f6a10", 1, briefly=True)
        return log

    log = opened()
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE), 5)
    fill(log, 60)
    remove_before(log, topic_of(log), 1, 33)
    log.close()
    log = opened()
    assert first_offset(log) == 33
    log.states.set(topic_of(log), 1, [33, 34, 35], StateChange(-1, MessageState.MARKED_FOR_DELETION.value, "erased", "me", 7))
    assert MarkedRemoval(log, lambda: 9).remove_now(topic_of(log), 1, "erased").removed_count == 3
    assert (first_offset(log), offsets(log)[0]) == (33, 36)
    Compaction(log, lambda: 1).compact(topic_of(log), 1)
    assert first_offset(log) == 33
    Backup(root, str(tmp_path / "copy"), OsFiles()).run(None)
    log.close()
    assert not [action for action in repair_log(root, OsFiles()) if ".start" in action.path]
    assert not [finding for finding in Verification(root, OsFiles()).run() if finding.is_damage]
    copy = Log(str(tmp_path / "copy"), OsFiles(), is_memory=False, segment_bytes=1000)
    log = opened()
    for each in (log, copy):
        assert (first_offset(each), offsets(each)) == (33, [*range(36, 60)])
    copy.close()
    Retention(log, lambda: 9).drop_oldest(topic_of(log), 1, 1)
    assert first_offset(log) == offsets(log)[0] > 36
    log.close()


def test_a_reader_that_has_listed_the_segments_before_a_deletion_does_not_pass_over_deleted_messages(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"), OsFiles(), is_memory=False, segment_bytes=1 << 20)
    log.start_writing("identity", 1, briefly=True)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE), 5)
    fill(log, 60)
    log.partition(topic_of(log), 1).roll()
    with PartitionFollower(log.partition_directory(topic_of(log), 1)) as follower:
        remove_before(log, topic_of(log), 1, 33)
        with pytest.raises(OffsetOutOfRangeError, match="offset 10 was removed"):
            follower.read_chunk(10, 60, 1000)
        assert follower.first_offset == 33
        assert follower.find_last(100) == 33
        assert follower.offset_of(0) == 33
        assert follower.offset_before(1 << 20) == 33
    log.close()
