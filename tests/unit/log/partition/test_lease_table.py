"""Leases in a journal: what is read again is what was granted, compactly, and ends in time whatever the clock does."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from headstream.core.model.leases import LeaseChange, LeaseStep
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.polling import OffsetOwner
from headstream.log.partition import delivery_journal
from headstream.log.partition.delivery_journal import DeliveryJournal, journal_name
from headstream.log.partition.delivery_state import DeliveryState, Lease
from headstream.log.partition.lease_table import LeaseKeys, LeaseOutcome, LeaseTable
from headstream.log.system.files import MemoryFiles
from tests.support.crashes import fail_with

OWNER = OffsetOwner.group("workers")
PATH = f"/offsets/{journal_name(OWNER, 1)}"
SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


def journal_of(files: MemoryFiles) -> DeliveryJournal:
    return DeliveryJournal("/offsets", files, OWNER, 1, 5)


def store(journal: DeliveryJournal, outcome: LeaseOutcome, committed: int = 0) -> None:
    journal.store(outcome.touched(), committed, NOW)


def grant(table: LeaseTable, count: int, token: int, end: int = 1 << 40, now_s: int = 0, attempts: int | None = None) -> Any:
    lease = Lease(token, f"worker-{token}", NOW + now_s * SECOND, 30 * SECOND, OffsetRanges())
    return table.grant(count, lease, attempts=attempts, end=end, steady_us=now_s * SECOND, now_us=NOW + now_s * SECOND)


def shown(state: DeliveryState) -> dict[str, Any]:
    leases = {
        token: (each.worker, each.until_us, list(each.offsets), list(each.settled), each.extended)
        for token, each in state.leases.items()
    }
    sets = {name: list(getattr(state, name)) for name in ("pending", "expired", "deferred", "leased")}
    return {"begun_until": state.begun_until, "failing": state.failing, "leases": leases, **sets}


@pytest.mark.parametrize("seed", range(15))
def test_any_steps_are_the_same_when_they_are_read_again(files: MemoryFiles, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_journal, "_REWRITE_BYTES", 2000)
    rng, journal = random.Random(seed), journal_of(files)
    state = journal.load((0, 0), is_writer=True)
    table, now_s, token = LeaseTable(state, NOW, 0), 0, 0
    for _ in range(120):
        now_s += rng.choice((0, 0, 1, 20))
        if rng.random() < 0.4:
            token += 1
            outcome, _ = grant(table, rng.randint(1, 5), token, now_s=now_s)
        elif rng.random() < 0.3:
            outcome = table.end_leases(NOW + now_s * SECOND, now_s * SECOND)
        else:
            begin = rng.randint(0, state.begun_until)
            step = rng.choice((LeaseStep.DONE, LeaseStep.RELEASED, LeaseStep.DEFERRED, LeaseStep.EXTENDED, LeaseStep.FAILED))
            until = begin + 1 if step is LeaseStep.FAILED else begin + rng.randint(1, 4)
            change = LeaseChange(step, rng.randint(1, max(1, token)), begin, until, 40 * SECOND, "", "no")
            outcome = table.apply_changes([change], NOW + now_s * SECOND, now_s * SECOND)
        store(journal, outcome)
        assert shown(journal_of(files).load((0, 0))) == shown(state)


def test_a_million_leased_messages_are_a_few_ranges_and_a_few_bytes_a_lease(files: MemoryFiles) -> None:
    journal = journal_of(files)
    table = LeaseTable(journal.load((0, 0), is_writer=True), NOW, 0)
    for token in range(1, 1001):
        outcome, _ = grant(table, 1000, token)
        store(journal, outcome)
    assert table.state.leased.count == 1_000_000
    assert table.state.ranges_count == 1
    assert files.open_write(PATH).size_bytes() < 1000 * 150
    changes = [LeaseChange(LeaseStep.DONE, token, (token - 1) * 1000, token * 1000) for token in range(2, 1001)]
    store(journal, table.apply_changes(changes, NOW, 0))
    assert table.state.first_open() == 0
    table.end_leases(NOW + 31 * SECOND, 31 * SECOND)
    assert list(table.state.expired) == [(0, 1000)]


def test_a_message_whose_lease_ended_is_leased_alone(files: MemoryFiles) -> None:
    table = LeaseTable(DeliveryState(), NOW, 0)
    grant(table, 3, 1, end=3)
    table.end_leases(NOW, 31 * SECOND)
    for offset in range(3):
        _, ranges = grant(table, 3, 2 + offset, end=3, now_s=31)
        assert ranges == ((offset, offset + 1, 1),)


@pytest.mark.parametrize(("jump_s", "left_s"), [(0, 20), (-86_400, 30), (15, 5), (86_400, 0)])
def test_a_lease_that_another_process_reads_lasts_no_longer_than_it_was_given(
    files: MemoryFiles, jump_s: int, left_s: int
) -> None:
    journal = journal_of(files)
    outcome, _ = grant(LeaseTable(journal.load((0, 0), is_writer=True), NOW, 0), 1, 1)
    store(journal, outcome)
    state = journal_of(files).load((0, 0))
    other = LeaseTable(state, NOW + (10 + jump_s) * SECOND, 7 * SECOND)  # 10 s later, and a clock that was set
    assert other.next_us() == (7 + left_s) * SECOND
    if left_s:
        assert not other.end_leases(NOW, (7 + left_s) * SECOND - 1).ended
    assert other.end_leases(NOW, (7 + left_s) * SECOND).ended == [(1, 0, 1)]


def test_a_file_of_the_first_version_is_read_and_replaced(files: MemoryFiles) -> None:
    journal = journal_of(files)
    table = LeaseTable(journal.load((0, 0), is_writer=True), NOW, 0)
    outcome, _ = grant(table, 1, 1)
    store(journal, outcome)
    store(journal, table.apply_changes([LeaseChange(LeaseStep.FAILED, 1, 0, 1, SECOND, "", "no")], NOW, 0))
    state = journal.state
    state.leases.clear()
    journal._end = -1  # a file with entries of version 1 alone
    store(journal, LeaseOutcome())
    file = files.open_write(PATH)
    file.write_at(struct.pack("<I", 1), 8)
    old = journal_of(files)
    assert old.load((0, 0), is_writer=True).failing[0].last_error == "no"
    store(old, LeaseOutcome())
    version = bytearray(4)
    files.open_write(PATH).read_into(memoryview(version), 8)
    assert struct.unpack("<I", version) == (3,)
    assert journal_of(files).load((0, 0)).failing[0].last_error == "no"


def test_a_journal_that_could_not_be_written_is_read_again(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = journal_of(files)
    table = LeaseTable(journal.load((0, 0), is_writer=True), NOW, 0)
    outcome, _ = grant(table, 2, 1)
    store(journal, outcome)
    outcome = table.apply_changes([LeaseChange(LeaseStep.DONE, 1, 0, 1)], NOW, 0)

    with monkeypatch.context() as patch:
        patch.setattr(files, "open_write", fail_with(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            store(journal, outcome)
    assert list(journal.load((0, 0), is_writer=True).leased) == [(0, 2)]


def test_finished_leases_are_forgotten_in_the_end() -> None:
    table = LeaseTable(DeliveryState(), NOW, 0)
    for token in range(1, 5001):
        grant(table, 1, token)
        table.apply_changes([LeaseChange(LeaseStep.DONE, token, token - 1, token)], NOW, 0)
    assert len(table.state.leases) <= 2001
    assert len(table._ends) <= 2001


def test_keys_let_the_next_message_go_when_the_first_is_done() -> None:
    keys, pending = LeaseKeys(), OffsetRanges([(0, 6)])
    for offset, key in enumerate((b"a", b"b", b"a", None, b"a", b"b")):
        keys.add(offset, key)
    assert keys.take(10, pending) == [0, 1, 3]
    assert keys.take(10, pending) == []
    keys.finish(2, 3)  # settled by a worker without order: the others of its key stay in order
    assert keys.take(10, pending) == []
    keys.finish(0, 2)
    assert keys.take(10, pending) == [4, 5]
    keys.release(4, 5)
    assert keys.take(1, pending) == [4]
