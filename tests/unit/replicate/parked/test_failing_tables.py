from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headstream.replicate.parked.failing_tables import FAILURES_OF_A_POISONED_TABLE, FailingTables
from headstream.replicate.parked.ledger import Ledger, ParkedBatch

TABLE = ("SHOP", "orders")
S = 1_000_000
PARKED_BATCH = ParkedBatch(
    state="parked", cause="schema", log_topic="replicate/parked", from_offset=0, until_offset=1, size_bytes=9, since_us=5
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_waits_double_from_the_first_to_the_longest_and_begin_anew_after_a_success(ledger: Ledger) -> None:
    health, waits = FailingTables(ledger), []
    for _ in range(12):
        health.note_failure(TABLE, "why", 100 * S)
        waits.append((health.failing[TABLE].next_us - 100 * S) / S)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    health.note_success(TABLE)
    assert health.failing == {}
    health.note_failure(TABLE, "why", 100 * S)
    assert health.failing[TABLE].next_us == 101 * S


def test_the_log_tells_each_wait_and_the_success_that_ends_it(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    health = FailingTables(ledger)
    for _ in range(3):
        health.note_failure(TABLE, "why", 100 * S)
    health.note_success(TABLE)
    health.note_success(TABLE)
    assert [record.getMessage() for record in caplog.records] == [
        *(
            f"table SHOP.orders failed (failure {number}); its changes wait, and the merge is retried in {wait} s: why"
            for number, wait in ((1, 1), (2, 2), (3, 4))
        ),
        "table SHOP.orders accepts changes again",
    ]


def test_tables_are_waited_for_while_changes_of_them_wait_and_the_reason_is_their_failure(ledger: Ledger) -> None:
    health = FailingTables(ledger)
    health.note_failure(TABLE, "why", 0)
    assert health.waited_for() == {}
    names = ("orders", "items")
    ledger.add([replace(PARKED_BATCH, cause="table", table_schema="SHOP", table_name=name) for name in names])
    assert health.waited_for() == {TABLE: "why", ("SHOP", "items"): "earlier changes of the table wait"}


def test_a_table_rests_until_its_next_time_and_no_longer(ledger: Ledger) -> None:
    health = FailingTables(ledger)
    health.note_failure(TABLE, "why", 0)
    assert health.tables_in_backoff(1 * S - 1) == {TABLE: "why"}
    assert health.tables_in_backoff(1 * S) == {}


def test_a_table_is_poisoned_from_the_named_number_of_failures_on_and_survives_a_restart(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    health = FailingTables(ledger)
    for number in range(1, FAILURES_OF_A_POISONED_TABLE + 1):
        assert TABLE not in health.failing or not health.failing[TABLE].is_poisoned
        health.note_failure(TABLE, f"failure {number}", number * S)
    found = health.failing[TABLE]
    assert (found.is_poisoned, found.failures, found.since_us) == (True, FAILURES_OF_A_POISONED_TABLE, 1 * S)
    assert "poisoned table SHOP.orders" in caplog.text
    assert FailingTables(ledger).failing == {TABLE: found}
    health.note_success(TABLE)
    assert FailingTables(ledger).failing == {}
