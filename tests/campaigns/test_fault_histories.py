"""Generated histories of kills, power cuts, failing disks and damaged files: nothing acknowledged is lost without a word."""

from __future__ import annotations

import pytest

from headstream.core.model.message import MessageState
from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.state_records import find_states
from headstream.log.partition import recovery
from headstream.log.partition.closed_segments import Closed, list_closed
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.layout import INDEX_ENTRY_BYTES
from headstream.log.segments.segment import Segment
from headstream.log.staged.commits import StagedCommits
from headstream.log.states import MessageStates
from headstream.log.system.files import Files
from headstream.log.upkeep import compaction_pass, marked_removal
from tests.campaigns.damage_histories import DamageHistory
from tests.campaigns.fault_histories import FaultHistory
from tests.campaigns.log_histories import LogHistory
from tests.campaigns.removal_histories import RemovalHistory
from tests.campaigns.runner import run_history


def run_histories(first: int, count: int, kind: type[FaultHistory | DamageHistory | RemovalHistory] = FaultHistory) -> None:
    for seed in range(first, first + count):
        run_history(kind, seed)


@pytest.mark.parametrize("seed", range(50))
def test_a_partition_keeps_what_it_acknowledged_when_faults_hit_any_operation(seed: int) -> None:
    run_history(FaultHistory, seed)


@pytest.mark.parametrize("seed", range(50))
def test_a_log_keeps_what_it_acknowledged_when_faults_hit_any_operation(seed: int) -> None:
    run_history(LogHistory, seed, 60)


@pytest.mark.parametrize("seed", range(50))
def test_damage_loses_nothing_in_silence_whatever_compaction_and_repair_do(seed: int) -> None:
    run_history(DamageHistory, seed)


@pytest.mark.parametrize("seed", [*range(50), 22237])  # the last one: a round with a write error, and a later one
def test_removals_take_what_is_marked_and_nothing_else(seed: int) -> None:
    run_history(RemovalHistory, seed)


def test_a_removal_that_ignores_restored_states_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_all(catalog: Catalog, topic: int, partition: int, before_us: int, begin: int, end: int) -> list[int]:
        found = find_states(catalog, topic, partition, begin, end)
        return [each.offset for each in found if each.state == MessageState.MARKED_FOR_DELETION]

    monkeypatch.setattr(marked_removal, "marked_before", find_all)
    with pytest.raises(AssertionError, match=r"(?s)seed \d+: .*is lost.*Again: .* removal --seeds"):
        run_histories(0, 50, RemovalHistory)


@pytest.mark.nightly
def test_a_removal_that_leaves_the_old_files_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("log", "states", "upkeep.removal_pass"):
        monkeypatch.setattr(f"headstream.log.{module}.finish_pass", lambda directory, files: None)
    with pytest.raises(AssertionError, match=r"(?s)seed \d+: .*removal --seeds"):
        run_histories(0, 50, RemovalHistory)


@pytest.mark.nightly
def test_a_pass_that_believes_each_index_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(directory: str, files: Files) -> list[Closed]:
        return [segment._replace(fault="") for segment in list_closed(directory, files)]

    monkeypatch.setattr(compaction_pass, "list_closed", believe)
    with pytest.raises(AssertionError, match=r"(?s)seed \d+: .*Again: python -m tests.campaigns damage --seeds \d+"):
        run_histories(0, 50, DamageHistory)


@pytest.mark.nightly
def test_a_reader_that_believes_each_index_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Segment, "_check_end", lambda self, from_offset, until_offset, next_base: None)
    with pytest.raises(AssertionError, match="is lost without an error"):
        run_histories(0, 50, DamageHistory)


@pytest.mark.nightly
def test_a_log_that_does_not_finish_commits_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StagedCommits, "_resume", lambda self: [])
    with pytest.raises(AssertionError, match="seed"):
        run_histories(100, 80, LogHistory)


@pytest.mark.nightly
def test_a_log_that_does_not_finish_states_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageStates, "repair", lambda self: None)
    with pytest.raises(AssertionError, match="seed"):
        run_histories(0, 60, LogHistory)


def test_a_partition_that_does_not_sync_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionWriter, "sync", lambda self: self.end.written)
    with pytest.raises(AssertionError, match=r"(?s)seed \d+: .*Again: python -m tests.campaigns partitions --seeds \d+"):
        run_histories(0, 50)


def test_a_recovery_that_believes_the_index_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(stored: memoryview, rows: memoryview, base_offset: int) -> int:
        return len(rows) // INDEX_ENTRY_BYTES

    monkeypatch.setattr(recovery, "check_sends", believe)
    with pytest.raises(AssertionError, match="seed"):
        run_histories(0, 50)
