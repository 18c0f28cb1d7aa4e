"""Generated histories of summaries: whatever is appended, compacted, dropped, killed or changed, skipping hides no message."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.filters.evaluation import FAILED, TRUE, evaluate
from headstream.core.filters.filter import parse_filter
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, MessageState, ReceivedMessage, StateChange
from headstream.core.model.topology import Limits, NewTopic, TopicOptions
from headstream.errors import CorruptLogError, CorruptSendError, OffsetOutOfRangeError
from headstream.log.administration import create_topic, update_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.segments import skipping
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.summaries import SegmentSummary, read_summary
from headstream.log.upkeep.compaction_pass import CompactionPass
from headstream.log.upkeep.retention import Retention
from headstream.log.upkeep.segment_rewrite import PassContext
from headstream.log.upkeep.summaries import Summaries
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog
from tests.support.log.logs import SEED

SEGMENT_BYTES = 1500
NAMES = ("tenant,user", "tenant", "user,flag", None)


class History:
    """One history of one partition; its follower stays open, as that of a poll does."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng, self.files = random.Random(seed), FaultyFiles(seed)
        self.root, self.seed = root, seed
        self.tenant = self.count = self.skipped = 0
        self.log = self.open()
        create_topic(
            self.log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE, options=TopicOptions(summary_headers=NAMES[0])), 5
        )
        self.directory = self.log.partition_directory(self.topic(), 1)
        self.follower = PartitionFollower(self.directory, self.files)
        self.made = Summaries(self.log, self.now_us)

    def open(self) -> KillableLog:
        log = KillableLog(str(self.root), self.files, SEGMENT_BYTES)
        log.start_writing("identity", 1, briefly=True)
        return log

    def now_us(self) -> int:
        self.count += 1
        return self.count

    def topic(self) -> TopicRecord:
        return self.log.snapshot()["shop"].topics["orders"]

    def run(self) -> None:
        """Take steps, some of them killed, and check after each."""
        steps = (self.append, self.append, self.append, self.append, self.summarize, self.summarize, self.compact, self.drop,
                 self.set_state, self.set_names)  # fmt: skip
        for _ in range(60):
            step = self.rng.choice(steps)
            self.files.killed_in = self.rng.choice([None, None, self.rng.randint(1, 60)])
            try:
                step()
            except Killed:
                self.revive()
            self.files.killed_in = None
            self.check(step.__name__)

    def revive(self) -> None:
        self.files.revive()
        if self.rng.random() < 0.3:
            self.files.cut_power()
        self.log.crash()
        self.log = self.open()
        self.log.partition(self.topic(), 1)
        self.made = Summaries(self.log, self.now_us)
        self.follower = PartitionFollower(self.directory, self.files)

    def append(self) -> None:
        for _ in range(self.rng.randint(1, 12)):
            self.tenant += self.rng.random() < 0.2
            sent = [self.message() for _ in range(self.rng.randint(1, 3))]
            self.log.append(self.topic(), 1, encode_sent(sent), self.now_us(), SEED)
        self.log.partition(self.topic(), 1).sync()

    def message(self) -> Message:
        headers: list[tuple[str, Any]] = [("tenant", f"t{self.tenant}"), ("user", kinds.uint32(self.rng.randrange(1000)))]
        if self.rng.random() < 0.2:
            headers.append(("flag", self.rng.random() < 0.5))
        if self.rng.random() < 0.02:
            headers.append(("user", "none"))
        return Message(payload=b"x" * 60, key=b"%d" % self.rng.randrange(40), headers=Headers(headers))

    def summarize(self) -> None:
        self.made.apply()

    def compact(self) -> None:
        self.log.partition(self.topic(), 1).roll()
        around = PassContext(self.log.administration)
        one = CompactionPass(self.directory, self.files, segment_bytes=SEGMENT_BYTES, null_before_us=0, seed=SEED, around=around)
        with suppress(CorruptLogError):  # sends that a power cut has left damaged
            one.run()

    def drop(self) -> None:
        Retention(self.log, self.now_us).drop_oldest(self.topic(), 1, 1)

    def set_state(self) -> None:
        with PartitionFollower(self.directory, self.files) as follower:
            if follower.end_offset == follower.first_offset:
                return
            offset = self.rng.randrange(follower.first_offset, follower.end_offset)
        change = StateChange(-1, MessageState.POISONED.value, "why", "", 1)
        with suppress(OffsetOutOfRangeError, CorruptSendError):  # compaction has removed it, or a power cut has damaged it
            self.log.states.set(self.topic(), 1, [offset], change)

    def set_names(self) -> None:
        update_topic(self.log, self.topic(), options=TopicOptions(summary_headers=self.rng.choice(NAMES)))

    def check(self, step: str) -> None:
        """Check that a filter finds among the segments that it reads what is in all of them."""
        self.follower.refresh()
        everything = self.read(self.follower, None)
        tenant = self.rng.randint(max(0, self.tenant - 8), self.tenant + 1)
        texts = (
            f"tenant = 't{tenant}'",
            f"tenant IN ('t{tenant}', 't{tenant - 1}') AND flag",
            f"user BETWEEN {self.rng.randrange(1000)} AND 1000 AND tenant = 't{tenant}'",
            "NOT flag",
            f"_offset < {self.rng.randrange(1, 500)} AND tenant IS NOT NULL",
            "_state = 'poisoned' OR tenant = 'nobody'",
        )
        for text in self.rng.sample(texts, 4):
            where = parse_filter(text)
            wanted = [m.offset for m in everything if evaluate(where.expression, m) in (TRUE, FAILED)]
            read = self.read(self.follower, text)
            found = [m.offset for m in read if evaluate(where.expression, m) in (TRUE, FAILED)]
            assert found == wanted, f"seed {self.seed}, after {step}: {text} skips a hit"
            self.skipped += len(everything) - len(read)

    @staticmethod
    def read(follower: PartitionFollower, text: str | None) -> list[ReceivedMessage]:
        """Return the messages that are read; sends that a power cut has left damaged are stepped over."""
        where = None if text is None else parse_filter(text)
        messages: list[ReceivedMessage] = []
        offset = follower.first_offset
        while True:
            try:
                for chunk in follower.read(offset, where=where):
                    messages += decode_polled(bytes(chunk))
            except CorruptSendError as error:
                offset = follower.next_readable(error.until_offset)
            else:
                return messages


def run(root: Path, seed: int) -> int:
    """Run a history, and return how many messages were not read."""
    place = root / str(seed)
    place.mkdir()
    history = History(place, seed)
    try:
        history.run()
    finally:
        history.log.crash()
    return history.skipped


@pytest.mark.parametrize("seed", range(6))
def test_no_history_hides_a_message_behind_a_summary(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed) > 0


@pytest.mark.soak
def test_no_history_of_500_hides_a_message_behind_a_summary(tmp_path: Path) -> None:
    assert sum(run(tmp_path, seed) for seed in range(1000, 1500)) > 0


@pytest.mark.nightly
def test_a_summary_that_is_believed_whatever_it_describes_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[int, SegmentSummary] = {}
    read = read_summary

    def believe(directory: str, index: Any, files: Any) -> SegmentSummary | None:
        found = remembered.get(index.base_offset) or read(directory, index, files)
        if found is not None:
            remembered[index.base_offset] = found
        return found

    monkeypatch.setattr(skipping, "read_summary", believe)

    def run_all() -> None:
        for seed in range(12):
            remembered.clear()
            run(tmp_path, seed)

    with pytest.raises(AssertionError, match="skips a hit"):
        run_all()
