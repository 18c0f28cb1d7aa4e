"""Unit tests of headstream.log.upkeep.removal_pass."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.errors import CorruptLogError
from headstream.log.administration import create_topic
from headstream.log.log import Log
from headstream.log.partition.closed_segments import list_closed
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.marked_removal import MarkedRemoval
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog
from tests.support.log.logs import SEED, Clock, batch, open_log, read_all, topic_of
from tests.unit.log.upkeep.test_marked_removal import contents, fill, log, mark, offsets, option, payload

__all__ = ["log"]  # fixtures


def test_what_is_removed_is_in_no_file_and_all_else_stays_at_its_offset(log: Log, clock: Clock) -> None:
    fill(log, 11)
    mark(log, 0, 4, 10, reason="erase")
    assert b"<000004>" in contents(log)
    removal = MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert (removal.removed_count, removal.left_count) == (3, 0)
    assert removal.removed_bytes == 3 * (1000 + 45)
    assert offsets(log) == [1, 2, 3, 5, 6, 7, 8, 9]
    for number in range(11):
        assert (payload(number)[:8] in contents(log)) == (number not in (0, 4, 10))
    assert log.states.changes(topic_of(log), 1) == []
    fill(log, 1)
    assert read_all(log.files, log.partition_directory(topic_of(log), 1))[-1].offset == 11


def test_a_segment_without_a_due_message_is_not_written(log: Log, clock: Clock) -> None:
    fill(log, 10)
    mark(log, 4, reason="erase")
    assert MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase").rewritten_count == 1
    assert [each.generation for each in list_closed(log.partition_directory(topic_of(log), 1), log.files)] == [0, 1, 0]


def test_a_damaged_segment_stays_and_the_others_are_done(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path, OsFiles())
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY), 5)
    fill(log, 13)
    mark(log, 1, 4, 8, at_us=1, reason="erase")
    directory = Path(log.partition_directory(topic_of(log), 1))
    damaged = directory / f"{3:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[500] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(CorruptLogError, match="offsets 3 to 3 are damaged"):
        MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert [each.generation for each in list_closed(str(directory), log.files)] == [1, 0, 1, 0]
    assert damaged.read_bytes() == content
    option(log, deletion_grace_us=0)
    with caplog.at_level(logging.WARNING):
        assert MarkedRemoval(log, clock).apply() == 0
    assert (
        "marked messages of shop/orders partition 1, which remain after their grace period, failed and will be retried in an hour"
        in caplog.text
    )
    log.close()


def start_history(root: Path, seed: int) -> tuple[KillableLog, FaultyFiles]:
    files = FaultyFiles(seed)
    log = KillableLog(str(root), files, 400)
    log.start_writing("identity", 1, briefly=True)
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY, Fsync.ALWAYS), 1)
    for number in range(9):
        log.append(topic_of(log), 1, batch(b"<%06d>" % number + b"." * 60), 100 + number, SEED)
    mark(log, 1, 4, 8, reason="erase")
    return log, files


@pytest.mark.parametrize(
    ("fate", "begin"),
    [
        ("kill", 1),
        ("power cut", 2),
        *(pytest.param(*other, marks=pytest.mark.nightly) for other in (("kill", 2), ("power cut", 1))),
    ],
)
def test_killed_at_each_operation_an_erasure_loses_nothing_else_and_the_next_one_finishes_it(
    tmp_path: Path, fate: str, begin: int
) -> None:
    memory = Path("/dev/shm")  # the catalog's syncs cost nothing there
    for operation in range(begin, 10_000, 2):
        log, files = start_history(Path(mkdtemp(dir=memory if memory.is_dir() else tmp_path)), operation)
        files.killed_in = operation
        try:
            MarkedRemoval(log, lambda: 1).remove_now(topic_of(log), 1, "erase")
        except Killed:
            pass
        else:
            log.crash()
            shutil.rmtree(log.root)
            break
        (files.revive if fate == "kill" else files.cut_power)()
        log.crash()
        log = KillableLog(log.root, files, 400)
        log.start_writing("identity", 1, briefly=True)
        there = [message.offset for message in read_all(files, log.partition_directory(topic_of(log), 1))]
        assert {0, 2, 3, 5, 6, 7} <= set(there)
        MarkedRemoval(log, lambda: 1).remove_now(topic_of(log), 1, "erase")
        messages = read_all(files, log.partition_directory(topic_of(log), 1))
        assert [message.offset for message in messages] == [0, 2, 3, 5, 6, 7]
        assert [files.find(b"<%06d>" % number) for number in (1, 4, 8)] == [[], [], []]
        log.crash()
        shutil.rmtree(log.root)
    assert operation > 50
