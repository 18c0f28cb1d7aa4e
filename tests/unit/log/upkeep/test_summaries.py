"""Summaries of closed segments: which are made and removed when, what a kill leaves, and that filters skip by them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.filters.filter import parse_filter
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, MessageState, StateChange
from headstream.core.model.topology import Limits, NewTopic, TopicOptions
from headstream.errors import CorruptSendError
from headstream.log.administration import create_topic, delete_topic, update_topic
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.log import Log
from headstream.log.partition.closed_segments import list_closed
from headstream.log.partition.segment_removal import drop_segment
from headstream.log.segments.files import BufferPool
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import SUMMARY_SUFFIX
from headstream.log.system.files import Files
from headstream.log.upkeep.compaction_pass import CompactionPass
from headstream.log.upkeep.retention import Retention
from headstream.log.upkeep.segment_rewrite import PassContext
from headstream.log.upkeep.summaries import Summaries
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog
from tests.support.log.logs import SEED, open_log_of, topic_of
from tests.support.waiting import wait_until

SEGMENT_BYTES = 4096
BURST = 10
"""Messages of one tenant after the other, about two segments."""


def now_us() -> int:
    return 1


def create(log: Log, options: TopicOptions) -> None:
    create_topic(log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE, options=options), 5)


@pytest.fixture(params=["os", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    log = open_log_of(request.param, tmp_path)
    create(log, TopicOptions(summary_headers="tenant,user_id"))
    yield log
    log.close()


def directory_of(log: Log) -> str:
    return log.partition_directory(topic_of(log), 1)


def fill(log: Log, first: int, count: int) -> None:
    """Send messages of about 450 bytes, bursts of one tenant each; keys repeat every 30."""
    for number in range(first, first + count):
        headers = Headers({"tenant": f"tenant-{number // BURST}", "user_id": kinds.uint64(number)})
        message = Message(payload=b"x" * 400, key=b"%d" % (number % 30), headers=headers)
        log.append(topic_of(log), 1, encode_sent([message]), number, SEED)


def names(log: Log, suffix: str = SUMMARY_SUFFIX) -> list[int]:
    found = log.files.list_names(directory_of(log)) or []
    return sorted(int(name.removesuffix(suffix)) for name in found if name.endswith(suffix))


def closed(log: Log) -> list[int]:
    return [segment.base_offset for segment in list_closed(directory_of(log), log.files)]


def matching(files: Files, directory: str, text: str) -> tuple[list[int], int]:
    """Return the offsets that match a filter, and how many messages were read to find them."""
    where, found, read = parse_filter(text), [], 0
    with PartitionFollower(directory, files) as follower:
        for chunk in follower.read(follower.first_offset, where=where):
            read += len(decode_polled(bytes(chunk)))
            found += [message.offset for message in decode_polled(bytes(where.select(chunk, 1 << 30, 1 << 40).data))]
    return found, read


def damage(files: Files, directory: str) -> Sequence[str]:
    return [finding.what for finding in verify_partition(directory, files, BufferPool())]


def test_each_closed_segment_gets_a_summary_and_a_filter_reads_the_others_alone(log: Log) -> None:
    fill(log, 0, 100)
    assert Summaries(log, now_us).apply() == len(closed(log)) > 10
    assert names(log) == closed(log)
    hits, read = matching(log.files, directory_of(log), "tenant = 'tenant-3'")
    assert hits == list(range(30, 40))
    assert read < 40
    assert matching(log.files, directory_of(log), "user_id = 77")[0] == [77]
    assert matching(log.files, directory_of(log), "tenant = 'nobody'")[1] < 10  # the newest segment's
    assert matching(log.files, directory_of(log), "other = 'x'")[1] == 100
    assert damage(log.files, directory_of(log)) == []


def test_a_time_skips_segments_without_any_summary(log: Log) -> None:
    update_topic(log, topic_of(log), options=TopicOptions())
    fill(log, 0, 100)
    assert Summaries(log, now_us).apply() == 0
    assert names(log) == []
    hits, read = matching(log.files, directory_of(log), "_timestamp < 20 AND tenant = 'tenant-1'")
    assert hits == list(range(10, 20))
    assert read < 40
    assert matching(log.files, directory_of(log), "_state = 'poisoned'")[1] == 100


def test_summaries_are_kept_and_added_for_new_segments(log: Log) -> None:
    made = Summaries(log, now_us)
    fill(log, 0, 50)
    first = made.apply()
    assert made.apply() == made.apply() == 0
    fill(log, 50, 50)
    assert made.apply() == len(closed(log)) - first
    assert Summaries(log, now_us).apply() == 0  # as after the next opening


def test_other_headers_are_summarized_anew_and_none_removes_the_files(log: Log) -> None:
    fill(log, 0, 100)
    made = Summaries(log, now_us)
    made.apply()
    update_topic(log, topic_of(log), options=TopicOptions(summary_headers="user_id"))
    assert made.apply() == len(closed(log))
    assert matching(log.files, directory_of(log), "tenant = 'nobody'")[1] == 100
    assert matching(log.files, directory_of(log), "user_id = 1000")[1] < 10
    update_topic(log, topic_of(log), options=TopicOptions())
    assert made.apply() == 0
    assert names(log) == []


@pytest.mark.parametrize("what", ["missing", "cut", "changed", "of another segment", "empty"])
def test_a_summary_that_is_not_whole_is_as_none_and_is_made_again(log: Log, what: str) -> None:
    fill(log, 0, 100)
    Summaries(log, now_us).apply()
    first, second = (summary_path(log, base) for base in closed(log)[:2])
    before = content(log.files, first)
    wrong = {
        "cut": before[:-1],
        "changed": before[:100] + bytes([before[100] ^ 1]) + before[101:],
        "of another segment": content(log.files, second),
        "empty": b"",
    }
    log.files.remove(first)
    if what != "missing":
        log.files.replace(first, wrong[what])
    read = matching(log.files, directory_of(log), "tenant = 'nobody'")[1]
    assert 10 < read < 20  # the first segment and the newest
    findings = damage(log.files, directory_of(log))
    assert len(findings) == (what in ("cut", "changed", "empty"))
    assert Summaries(log, now_us).apply() == 1
    assert content(log.files, first) == before


def summary_path(log: Log, base: int) -> str:
    return f"{directory_of(log)}/{base:020d}{SUMMARY_SUFFIX}"


def content(files: Files, path: str) -> bytes:
    file = files.open_read(path)
    assert file is not None
    found = memoryview(bytearray(file.size_bytes()))
    file.read_into(found, 0)
    file.close()
    return bytes(found)


def test_a_dropped_segment_takes_its_summary_along(log: Log) -> None:
    fill(log, 0, 100)
    Summaries(log, now_us).apply()
    assert Retention(log, now_us).drop_oldest(topic_of(log), 1, 3) == 3
    assert names(log) == closed(log)


def test_a_segment_that_is_dropped_while_its_summary_is_written_leaves_none(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 0, 40)
    (first, *_), replace = list_closed(directory_of(log), log.files), log.files.replace

    def drop_before(path: str, data: bytes, *, durably: bool = True) -> None:
        if path.endswith(f"{first.base_offset:020d}{SUMMARY_SUFFIX}"):  # as the first append of a writer completes a pass
            drop_segment(directory_of(log), first.base_offset, first.generation, log.files)
        replace(path, data, durably=durably)

    monkeypatch.setattr(log.files, "replace", drop_before)
    made = Summaries(log, now_us)
    made.apply()
    assert first.base_offset not in (*closed(log), *names(log))
    made.apply()
    assert closed(log) == names(log) != []


def test_an_older_version_leaves_a_summary_behind_that_is_removed(log: Log) -> None:
    fill(log, 0, 100)
    made = Summaries(log, now_us)
    made.apply()
    base = closed(log)[0]
    path = summary_path(log, base)
    before = content(log.files, path)
    drop_segment(directory_of(log), base, 0, log.files)
    log.files.replace(path, before)
    log.files.replace(f"{path}.new", before)
    assert made.apply() == 0
    assert names(log) == closed(log)
    assert names(log, f"{SUMMARY_SUFFIX}.new") == []


def test_a_state_changes_no_summary_and_a_filter_finds_the_message(log: Log) -> None:
    fill(log, 0, 100)
    made = Summaries(log, now_us)
    made.apply()
    log.states.set(topic_of(log), 1, [33], StateChange(-1, MessageState.POISONED.value, "why", "ann", 7))
    assert made.apply() == 0
    assert matching(log.files, directory_of(log), "_state = 'poisoned' AND user_id = 33")[0] == [33]
    assert matching(log.files, directory_of(log), "_state = 'poisoned'")[0] == [33]


def test_a_compaction_removes_the_summaries_of_what_it_has_rewritten_and_new_ones_are_made(log: Log) -> None:
    fill(log, 0, 100)
    made = Summaries(log, now_us)
    made.apply()
    before = closed(log)
    compact(log)
    kept = names(log)
    assert 0 < len(kept) < len(before)  # of segments that lost no message: their files stay
    assert all(base in before for base in kept)
    assert made.apply() > 0
    assert names(log) == [base for base in closed(log) if is_filled(log, base)]
    hits, read = matching(log.files, directory_of(log), "tenant = 'tenant-8'")
    assert hits == list(range(80, 90))
    assert read < 40
    assert damage(log.files, directory_of(log)) == []


def is_filled(log: Log, base: int) -> bool:
    return next(each.size_bytes for each in list_closed(directory_of(log), log.files) if each.base_offset == base) > 0


def compact(log: Log) -> None:
    log.partition(topic_of(log), 1).roll()
    around = PassContext(log.administration)
    CompactionPass(directory_of(log), log.files, segment_bytes=SEGMENT_BYTES, null_before_us=0, seed=SEED, around=around).run()


def test_a_damaged_segment_gets_no_summary_and_its_damage_is_told_as_ever(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    fill(log, 0, 100)
    base = closed(log)[2]
    file = log.files.open_write(f"{directory_of(log)}/{base:020d}.log")
    file.write_at(b"?", 300)
    file.close()
    made = Summaries(log, now_us)
    with caplog.at_level(logging.WARNING, "headstream.log"):
        assert made.apply() == len(closed(log)) - 1
        assert made.apply() == 0
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "summarizing a segment of shop/orders failed and will be retried in an hour"
    ]
    assert base not in names(log)


def test_a_missing_log_beside_its_summary_is_not_skipped(log: Log) -> None:
    fill(log, 0, 100)
    Summaries(log, now_us).apply()
    log.files.remove(f"{directory_of(log)}/{closed(log)[2]:020d}.log")
    with pytest.raises(CorruptSendError, match="missing"):
        matching(log.files, directory_of(log), "tenant = 'nobody'")


def test_a_deleted_topic_ends_its_summaries(log: Log) -> None:
    fill(log, 0, 100)
    made = Summaries(log, now_us)
    directory = directory_of(log)
    delete_topic(log, topic_of(log))
    assert made.apply() == 0
    assert log.files.list_names(directory) is None


def test_the_background_makes_them_once_the_option_is_set(log: Log) -> None:
    update_topic(log, topic_of(log), options=TopicOptions())
    fill(log, 0, 100)
    log.upkeep.start(now_us)
    update_topic(log, topic_of(log), options=TopicOptions(summary_headers="tenant"))
    log.upkeep.start(now_us)
    wait_until(lambda: names(log) == closed(log))


# -- kills -------------------------------------------------------------------------------------------------------------------


def run_killed(root: Path, killed_in: int, *, cuts_power: bool) -> bool:
    """Summarize and compact, killed at an operation; check what is left; return whether the process was killed."""
    files = FaultyFiles(killed_in)
    log = KillableLog(str(root), files, SEGMENT_BYTES)
    log.start_writing("identity", 1, briefly=True)
    create(log, TopicOptions(summary_headers="tenant,user_id"))
    fill(log, 0, 60)
    log.partition(topic_of(log), 1).sync()
    directory = directory_of(log)
    files.killed_in = killed_in
    is_killed = False
    try:
        made = Summaries(log, now_us)
        made.apply()
        Retention(log, now_us).drop_oldest(topic_of(log), 1, 1)
        compact(log)
        made.apply()
    except Killed:
        is_killed = True
        files.revive()
        if cuts_power:
            files.cut_power()
    files.killed_in = None
    log.crash()
    log = KillableLog(str(root), files, SEGMENT_BYTES)
    log.start_writing("identity", 1, briefly=True)
    log.partition(topic_of(log), 1)
    check(files, directory)
    Summaries(log, now_us).apply()
    check(files, directory)
    Summaries(log, now_us).apply()
    assert names(log) == [base for base in closed(log) if is_filled(log, base)]
    assert not any(name.endswith(".new") for name in files.list_names(directory) or [])
    log.crash()
    return is_killed


def check(files: FaultyFiles, directory: str) -> None:
    """Check that filters find in a partition what reading all of it finds, and that no unforeseen file is there."""
    everything, _ = matching(files, directory, "TRUE")
    assert [number for number in everything if number >= 30] == list(range(30, 60))
    for text, wanted in [
        ("tenant = 'tenant-4'", range(40, 50)),
        ("user_id IN (35, 58)", (35, 58)),
        ("tenant = 'tenant-0'", range(10)),
    ]:
        assert matching(files, directory, text)[0] == [number for number in wanted if number in everything]
    assert not [what for what in damage(files, directory) if "not part of a log" in what]


@pytest.mark.parametrize(
    ("cuts_power", "killed_in", "step"),
    [(False, 1, 2), (True, 4, 2), *(pytest.param(cuts, 1, 1, marks=pytest.mark.nightly) for cuts in (False, True))],
)
def test_a_kill_at_any_operation_loses_nothing_and_hides_nothing(
    tmp_path: Path, cuts_power: bool, killed_in: int, step: int
) -> None:
    while True:
        root = tmp_path / str(killed_in)
        root.mkdir()
        if not run_killed(root, killed_in, cuts_power=cuts_power):
            break
        killed_in += step * (7 if killed_in > 60 else 3)
    assert killed_in > 100


def test_a_summary_of_before_a_compaction_is_not_believed(log: Log) -> None:
    """It lacks the messages of the neighbours that were merged into its segment."""
    fill(log, 0, 100)
    Summaries(log, now_us).apply()
    before = {base: content(log.files, summary_path(log, base)) for base in closed(log)}
    compact(log)
    for base in closed(log)[:-1]:
        log.files.replace(summary_path(log, base), before[base])
    assert matching(log.files, directory_of(log), "tenant <> 'x'")[0] == list(range(70, 100))
    for tenant in (7, 8, 9):
        expected = list(range(10 * tenant, 10 * tenant + 10))
        assert matching(log.files, directory_of(log), f"tenant = 'tenant-{tenant}'")[0] == expected
