"""Removal of marked messages: when they leave the disk, what stays, and what an interruption leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, StateChange
from headstream.core.model.topology import Fsync, Limits, NewTopic, TopicOptions
from headstream.errors import LegalHoldError, OffsetOutOfRangeError
from headstream.log.administration import create_topic, delete_partitions, delete_stream, delete_topic, purge_topic, update_topic
from headstream.log.checks.backup import Backup
from headstream.log.checks.removal import remove_log
from headstream.log.checks.verification import Verification
from headstream.log.log import Log
from headstream.log.partition.closed_segments import Closed
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.marked_removal import MarkedRemoval
from headstream.log.upkeep.prefix_removal import remove_before
from headstream.log.upkeep.retention import Retention
from headstream.log.upkeep.segment_rewrite import SegmentRewrite
from headstream.log.upkeep.summaries import Summaries, summarize_segment
from tests.support.log.logs import SEED, Clock, batch, open_log, open_log_of, read_all, topic_of
from tests.support.messages.batches import header, sent

MARKED = MessageState.MARKED_FOR_DELETION.value
HOUR_US = 3600 * 1_000_000
DAY_US = 24 * HOUR_US
COPY = "6d2f1a52-7a3e-4a53-9d3c-9b5b7f0f6a11"


@pytest.fixture(params=["os", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    log = open_log_of(request.param, tmp_path / "log")
    create_topic(log, NewTopic(TopicName("shop", "orders"), 2, Limits.WIDE), 5)
    yield log
    log.close()


def payload(number: int) -> bytes:
    return b"<%06d>" % number + b"." * 992


def fill(log: Log, count: int) -> None:
    """Send messages of 1000 bytes: three fit a segment."""
    for number in range(count):
        log.append(topic_of(log), 1, batch(payload(number)), 100 + number, SEED)


def mark(log: Log, *offsets: int, at_us: int = 1_000_000, reason: str = "", state: int = MARKED) -> None:
    log.states.set(topic_of(log), 1, offsets, StateChange(-1, state, reason, "me", at_us))


def option(log: Log, **options: int | None) -> None:
    update_topic(log, topic_of(log), options=TopicOptions(**options))  # type: ignore[arg-type]


def offsets(log: Log) -> list[int | None]:
    messages = read_all(log.files, log.partition_directory(topic_of(log), 1))
    assert all(message.payload == payload(message.offset or 0) and message.verify() for message in messages)
    return [message.offset for message in messages]


def contents(log: Log) -> bytes:
    """Return the content of all files of a log."""
    if isinstance(log.files, OsFiles):
        return b"".join(path.read_bytes() for path in Path(log.root).rglob("*") if path.is_file())
    directory, content = log.partition_directory(topic_of(log), 1), b""
    for name in log.files.list_names(directory) or []:
        file = log.files.open_read(f"{directory}/{name}")
        assert file is not None
        buffer = memoryview(bytearray(file.size_bytes()))
        file.read_into(buffer, 0)
        content += bytes(buffer)
    return content


def test_marks_of_another_reason_keep_their_grace(log: Log, clock: Clock) -> None:
    fill(log, 7)
    mark(log, 1, reason="erase")
    mark(log, 2, 4, reason="mistake")
    MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert offsets(log) == [0, 2, 3, 4, 5, 6]
    assert [change.offset for change in log.states.changes(topic_of(log), 1)] == [2, 4]
    mark(log, 2, state=1)
    assert [change.offset for change in log.states.changes(topic_of(log), 1)] == [4]


def test_a_mark_can_be_reverted_until_its_grace_is_nearly_over_and_not_afterwards(log: Log, clock: Clock) -> None:
    fill(log, 7)
    option(log, deletion_grace_us=DAY_US)
    mark(log, 1, 5, at_us=clock.now_us)
    removal = MarkedRemoval(log, clock)
    clock.now_us += DAY_US - 6 * 60 * 1_000_000
    assert removal.apply() == 0
    mark(log, 1, state=1)
    clock.now_us += 2 * 60 * 1_000_000
    assert removal.apply() == 1
    assert offsets(log) == [0, 1, 2, 3, 4, 6]
    with pytest.raises(OffsetOutOfRangeError, match="the message at offset 5 no longer exists"):
        mark(log, 5, state=1)
    assert removal.apply() == 0


def test_marks_of_one_hour_are_removed_by_one_pass_and_later_ones_wait(log: Log, clock: Clock) -> None:
    fill(log, 7)
    option(log, deletion_grace_us=DAY_US)
    for offset, minutes in ((0, 0), (1, 50), (2, 70)):
        mark(log, offset, at_us=clock.now_us + minutes * 60 * 1_000_000)
    clock.now_us += DAY_US
    assert MarkedRemoval(log, clock).apply() == 2
    assert offsets(log) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("way", ["marked", "before"])
def test_the_first_append_of_a_process_during_a_removal_leaves_its_new_files(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with closing(open_log(tmp_path / "log", OsFiles())) as log:
        create_topic(log, NewTopic(TopicName("shop", "orders"), 2, Limits.WIDE), 5)
        fill(log, 7)
        mark(log, 1)
    with closing(open_log(tmp_path / "log", OsFiles())) as log:
        swap = SegmentRewrite._swap

        def append_before(rewrite: SegmentRewrite, group: list[Closed]) -> None:
            log.append(topic_of(log), 1, batch(payload(7)), 200, SEED)
            swap(rewrite, group)

        monkeypatch.setattr(SegmentRewrite, "_swap", append_before)
        if way == "marked":
            assert MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "").removed_count == 1
            assert offsets(log) == [0, 2, 3, 4, 5, 6, 7]
        else:
            remove_before(log, topic_of(log), 1, 4)
            assert offsets(log) == [4, 5, 6, 7]


def test_without_a_grace_marks_stay(log: Log, clock: Clock) -> None:
    fill(log, 7)
    option(log, deletion_grace_us=None)
    mark(log, 1)
    clock.now_us = 1 << 60
    assert MarkedRemoval(log, clock).apply() == 0
    assert offsets(log) == list(range(7))


def test_the_groups_of_a_limited_pass_are_counted_until_none_is_left(log: Log, clock: Clock) -> None:
    fill(log, 10)
    mark(log, 0, 4, 8, reason="erase")
    removal, left = MarkedRemoval(log, clock), []
    for _ in range(3):
        left.append(removal.remove_now(topic_of(log), 1, "erase", most_groups=1).left_count)
    assert left == [2, 1, 0]
    assert offsets(log) == [1, 2, 3, 5, 6, 7, 9]


HELD: dict[str, Callable[[Log], object]] = {
    "erase": lambda log: MarkedRemoval(log, lambda: 1).remove_now(topic_of(log), 1, "erase"),
    "purge": lambda log: purge_topic(log, topic_of(log), 9),
    "delete the topic": lambda log: delete_topic(log, topic_of(log)),
    "delete the stream": lambda log: delete_stream(log, "shop"),
    "delete a partition": lambda log: delete_partitions(log, topic_of(log), 1),
    "drop segments": lambda log: Retention(log, lambda: 1).drop_oldest(topic_of(log), 1, 1),
}


@pytest.mark.parametrize("what", HELD)
def test_under_legal_hold_nothing_is_removed_by_a_command(log: Log, what: str) -> None:
    fill(log, 10)
    mark(log, 4, reason="erase")
    option(log, legal_hold=1)
    with pytest.raises(LegalHoldError, match=r"'shop/orders' is under legal hold.*--legal-hold off"):
        HELD[what](log)
    assert offsets(log) == list(range(10))
    option(log)
    HELD[what](log)


def test_under_legal_hold_nothing_is_removed_in_the_background(log: Log, clock: Clock) -> None:
    fill(log, 10)
    mark(log, 4, at_us=1)
    limits = {"deletion_grace_us": 0, "retention_us": 1, "compaction_delay_us": 0}
    option(log, legal_hold=1, **limits)
    clock.now_us = 1 << 60
    works = MarkedRemoval(log, clock), Compaction(log, clock), Retention(log, clock)
    assert [work.apply() for work in works] == [0, 0, 0]
    assert offsets(log) == list(range(10))
    option(log, **limits)
    assert works[0].apply() == 1
    assert works[2].apply()


def test_a_log_with_a_held_topic_is_not_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", OsFiles())
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY, Fsync.NEVER, TopicOptions(legal_hold=True)), 5)
    log.close()
    with pytest.raises(LegalHoldError):
        remove_log(log.root, OsFiles())
    log = open_log(log.root, OsFiles())
    update_topic(log, topic_of(log), options=TopicOptions())
    log.close()
    assert "catalog.sqlite" in remove_log(log.root, OsFiles())


def keyed(log: Log, number: int, key: bytes) -> None:
    block = header("hs.key", 1, key)
    log.append(topic_of(log), 1, sent(payload(number), block), 100 + number, SEED)


def test_a_removed_message_still_replaces_older_ones_of_its_key(log: Log, clock: Clock) -> None:
    option(log, compaction_delay_us=DAY_US)
    for number in range(10):
        keyed(log, number, b"ab"[number % 2 :][:1])
    mark(log, 8, reason="erase")
    MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert offsets(log) == [9]
    assert b"<000006>" not in contents(log)


def test_the_state_of_a_message_that_is_gone_is_forgotten_by_the_next_pass(log: Log, clock: Clock) -> None:
    fill(log, 7)
    mark(log, 1, reason="erase")
    log.states.forget_marked = lambda *_: None  # type: ignore[method-assign]
    MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert [change.offset for change in log.states.changes(topic_of(log), 1)] == [1]
    del log.states.forget_marked
    assert MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase").rewritten_count == 0
    assert log.states.changes(topic_of(log), 1) == []


def test_a_rewritten_log_is_sound_and_its_backup_is_whole(tmp_path: Path, clock: Clock) -> None:
    log = open_log(tmp_path / "log", OsFiles())
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY), 5)
    fill(log, 8)
    mark(log, 1, 3, 4, 5, 7, reason="erase")  # a whole segment, and the newest message
    MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
    assert offsets(log) == [0, 2, 6]
    Backup(log.root, str(tmp_path / "copy"), OsFiles()).run(COPY)
    log.close()
    for root in (tmp_path / "log", tmp_path / "copy"):
        assert [finding for finding in Verification(str(root), OsFiles()).run() if finding.is_damage] == []
        copy = open_log(root, OsFiles())
        assert offsets(copy) == [0, 2, 6]
        assert copy.append(topic_of(copy), 1, batch(payload(8)), 10**9, SEED).offset == 8
        copy.close()


def test_a_summary_of_the_messages_before_a_removal_is_not_written(
    log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 7)
    mark(log, 1, reason="erase")
    update_topic(log, topic_of(log), options=TopicOptions(summary_headers="user_id"))

    def summarize_and_remove(*arguments: Any) -> bytes:
        content = summarize_segment(*arguments)
        MarkedRemoval(log, clock).remove_now(topic_of(log), 1, "erase")
        return content

    monkeypatch.setattr("headstream.log.upkeep.summaries.summarize_segment", summarize_and_remove)
    Summaries(log, clock).apply()
    assert f"{0:020d}.summary" not in (log.files.list_names(log.partition_directory(topic_of(log), 1)) or [])
    monkeypatch.undo()
    Summaries(log, clock).apply()
    assert f"{0:020d}.summary" in (log.files.list_names(log.partition_directory(topic_of(log), 1)) or [])
