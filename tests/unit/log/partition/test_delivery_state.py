"""Unit tests of headstream.log.partition.delivery_state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headstream.core.model.deliveries import DeliveryChange
from headstream.errors import LimitError
from headstream.log.partition import delivery_journal, delivery_state
from headstream.log.partition.delivery_journal import Touched
from headstream.log.partition.delivery_state import DeliveryState
from headstream.log.system.files import MemoryFiles
from tests.unit.log.partition.test_delivery_journal import FAILED, PATH, change, journal_of, load, settle, shown


def test_a_repeated_step_counts_once(files: MemoryFiles) -> None:
    journal = journal_of(files)
    for _ in range(3):
        settle(journal, 0, 1, change(FAILED, 0, failures=1))
    assert shown(load(journal_of(files), 0)) == (1, [], {0: 1})


def test_too_many_unfinished_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_state, "MAX_FAILING", 3)
    state = DeliveryState()
    state.apply([change(FAILED, offset, failures=1) for offset in range(3)], 0)
    with pytest.raises(LimitError, match="4 messages of the partition are failing"):
        state.apply([change(FAILED, 3, failures=1)], 0)


def test_the_last_attempts_of_a_message_are_kept_with_worker_and_error(files: MemoryFiles) -> None:
    journal = journal_of(files)
    state = journal.load((0, 1), is_writer=True)
    for number in range(1, 8):
        state.apply([change(FAILED, 3, failures=number)], 1000 * number, f"worker-{number}")
        journal.store(Touched(failing=(3,)), 0, 1000)
    (each,) = load(journal_of(files), 0).failing.values()
    assert each == state.failing[3]
    assert [(attempt.number, attempt.ended_us, attempt.worker, attempt.error) for attempt in each.attempts] == [
        (number, 1000 * number, f"worker-{number}", f"error {number}") for number in range(3, 8)
    ]
    assert each.first_error == "error 1"


def test_long_texts_of_attempts_are_stored_truncated(files: MemoryFiles) -> None:
    journal = journal_of(files)
    state = journal.load((0, 1), is_writer=True)
    state.apply([DeliveryChange(FAILED, 0, 1, 1, 0, "", "é" * 300)], 1000, "ö" * 300)
    journal.store(Touched(failing=(0,)), 0, 1000)
    ((attempt,),) = (each.attempts for each in load(journal_of(files), 0).failing.values())
    assert (attempt.error, attempt.worker) == ("é" * 50, "ö" * 50)


def test_the_newest_messages_that_were_given_up_are_kept_with_their_letters(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_journal, "_REWRITE_BYTES", 3000)
    journal = journal_of(files)
    state = journal.load((0, 1), is_writer=True)
    for offset in range(250):
        state.apply([change(FAILED, offset, failures=1)], 1000, "w")
        journal.store(Touched(failing=(offset,)), offset, 1000)
        each = replace(state.failing[offset], reason="max_attempts", copied_to=("shop/dead", 1, offset + 7))
        state.finish(offset, offset + 1)
        state.give_up(each)
        journal.store(Touched(done=((offset, offset + 1),), given_up=(each,)), offset + 1, 1000)
    kept = load(journal_of(files), 250, 900).given_up
    assert [(each.offset, each.copied_to) for each in kept] == [(n, ("shop/dead", 1, n + 7)) for n in range(150, 250)]
    assert list(kept) == list(state.given_up)
    assert files.open_write(PATH).size_bytes() < 60_000
