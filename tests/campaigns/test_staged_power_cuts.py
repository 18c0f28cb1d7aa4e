"""A staged commit and a power cut at each of its steps: all of it or nothing, and once when its writer sends it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.binary import decode_polled
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.log.administration import create_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INBOX_NAME, STAGED_NAME
from headstream.log.staged.commits import StagedCommits
from headstream.log.staged.staging import Manifest, StagedPart, StagedWriter, inbox_path
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog
from tests.support.log.logs import SEED
from tests.support.messages.batches import sent

PARTITIONS = 3
ROWS = Counter(f"row {row}".encode() for row in range(2 * PARTITIONS))
EARLIER = b"earlier"


class Machine:
    """A machine whose power is cut while a batch is committed to a log on it."""

    def __init__(self, root: Path, seed: int, fsync: Fsync) -> None:
        root.mkdir()  # of the catalog and the lock, which are real
        self.root = root
        self.files = FaultyFiles(seed)
        self.open()
        create_topic(self.log, NewTopic(TopicName("shop", "orders"), PARTITIONS, Limits.IGGY, fsync), 2)
        for number in range(1, 1 + seed % (PARTITIONS + 1)):  # some partitions have a segment already
            self.log.append(self.topic, number, sent(EARLIER), 3, SEED)
            self.log.partition(self.topic, number).sync()

    @property
    def topic(self) -> TopicRecord:
        return self.log.snapshot()["shop"].topics["orders"]

    def open(self) -> None:
        self.log = KillableLog(str(self.root), self.files, 1 << 20)
        self.log.start_writing("identity", 1, briefly=True)

    def stage(self, attempt: str) -> Manifest:
        """Stage the rows by two tasks; another attempt has them in another order."""
        rows = list(ROWS) if attempt == "first" else list(ROWS)[::-1]
        parts: list[StagedPart] = []
        for task in range(2):
            staged = StagedWriter(self.log.root, self.files, "query", 7, f"{task}-{attempt}")
            for partition in range(1, PARTITIONS + 1):
                staged.add("shop/orders", partition, sent(rows.pop()), 1)
            part = staged.finish()
            assert part is not None
            parts.append(part)
        return Manifest("query", 7, "identity", {"shop/orders": "iggy"}, tuple(parts))

    def commit(self, manifest: Manifest) -> None:
        self.files.make_directory(f"{self.log.root}/{INBOX_NAME}")
        self.files.replace(inbox_path(self.log.root, "query", 7), manifest.encode(), durably=False)
        self.log.commits.append_submitted()

    def cut_power(self) -> None:
        self.files.killed_in = None
        self.log.crash()
        self.files.cut_power()
        self.open()
        self.log.commits.append_submitted()

    def rows(self) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for number in range(1, PARTITIONS + 1):
            with PartitionFollower(self.log.partition_directory(self.topic, number), self.files) as follower:
                for chunk in follower.read(follower.first_offset, size_bytes=1 << 20):
                    found.update(message.payload or b"" for message in decode_polled(chunk))
        del found[EARLIER]
        return found


def cut_power_at(step: int, root: Path, seed: int, fsync: Fsync) -> bool:
    """Commit a batch, cut the power at a step, check what is there, and send it again; return whether it came to that step."""
    machine = Machine(root, seed, fsync)
    manifest = machine.stage("first")
    machine.files.killed_in = step
    try:
        machine.commit(manifest)
    except Killed:
        is_acknowledged = False
    else:
        is_acknowledged = True
    machine.cut_power()
    there = machine.rows()
    assert there == ROWS or not (there or is_acknowledged), f"seed {seed}, step {step}: after the power cut there is {there}"
    machine.commit(machine.stage("again"))
    assert machine.rows() == ROWS, f"seed {seed}, step {step}: sent again there is {machine.rows()}"
    machine.log.crash()
    return not is_acknowledged


def cut_power_at_each_step(root: Path, seed: int, fsync: Fsync) -> int:
    step = 1
    while cut_power_at(step, root / f"{seed}-{step}", seed, fsync):
        step += 1
    return step


def cut_power_in_histories(root: Path, seeds: range) -> None:
    for seed in seeds:
        cut_power_at_each_step(root, seed, Fsync.INTERVAL)


@pytest.mark.parametrize("fsync", [Fsync.ALWAYS, Fsync.INTERVAL])
@pytest.mark.parametrize("seed", [*range(5), 104])  # 104: a whole send behind a damaged one
def test_a_commit_is_whole_and_once_when_the_power_is_cut_at_every_step(tmp_path: Path, seed: int, fsync: Fsync) -> None:
    assert cut_power_at_each_step(tmp_path, seed, fsync) > 30


@pytest.mark.soak
def test_a_commit_is_whole_and_once_in_thousands_of_power_cuts(tmp_path: Path) -> None:
    cut_power_in_histories(tmp_path, range(100, 140))


def skip_names_of_staged_files(self: FaultyFiles, path: str, sync: Callable[[FaultyFiles, str], None]) -> None:
    if f"/{STAGED_NAME}/" not in path:
        sync(self, path)


HARMS: dict[str, tuple[type, str, Any]] = {
    "staged files are not synced": (StagedWriter, "sync", lambda self: None),
    "their names are not synced": (
        FaultyFiles,
        "sync_directory",
        partialmethod(skip_names_of_staged_files, sync=FaultyFiles.sync_directory),
    ),
    "partitions are not synced": (PartitionWriter, "sync", lambda self: self.end.written),
    "commits are not finished": (StagedCommits, "_resume", lambda self: []),
}


@pytest.mark.nightly
@pytest.mark.parametrize("harm", HARMS)
def test_a_sync_that_is_left_out_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    monkeypatch.setattr(*HARMS[harm])
    with pytest.raises(AssertionError, match=r"seed \d+, step \d+: "):
        cut_power_in_histories(tmp_path, range(20))
