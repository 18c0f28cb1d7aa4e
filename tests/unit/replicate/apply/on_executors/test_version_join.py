"""Unit tests of headstream.replicate.apply.on_executors.version_join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.testing import SourceDatabase, repeat, shuffle
from tests.support.replicate.bucketed_changes import Bucketed
from tests.support.replicate.pipeline_work import Work


@pytest.mark.parametrize(
    ("deletes", "atomic"), [pytest.param("apply", False, marks=pytest.mark.nightly), ("soft", False), ("apply", True)]
)
@pytest.mark.parametrize("transactions", [15, pytest.param(120, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("seed", range(3))
def test_histories_are_joined_to_stored_versions_by_bucket_and_changes_written_where_they_were_decoded(
    tmp_path: Path, seed: int, transactions: int, deletes: Any, atomic: bool
) -> None:
    """The same versions, change tables and counts as in the driver, which gets hardly a change, or parts of transactions."""
    source = SourceDatabase(seed, rows=30, transactions=transactions, key_changes=False)
    tables = ("SHOP.order_lines", "SHOP.customers")  # with atomic, events of all tables count
    messages = [message for message in source.capture() if atomic or message.table in tables]
    messages = list(repeat(shuffle(messages, seed=seed, window=40), seed=seed, fraction=0.1))
    rules = TableRules(include=tables, defaults=TableSettings(scd_type=2, deletes=deletes))
    bucketed = Bucketed(tmp_path / "Bucketed", rules=rules, atomic=atomic, change_tables=tmp_path / "Bucketed" / "changes")
    driver = Work(tmp_path / "Work", rules=rules, atomic=atomic, change_tables=tmp_path / "Work" / "changes")
    for work in (bucketed, driver):
        for start in range(0, len(messages), 60):
            work.send(*[message.value for message in messages[start : start + 60]])
            work.now_us += 1_000_000
        work.processor.sweep(last=True)
    for table in ("order_lines", "customers"):
        for place in (None, "changes"):
            found, wanted = (
                sorted(map(repr, work.rows("SHOP", table, None if place is None else tmp_path / type(work).__name__ / place)))
                for work in (bucketed, driver)
            )
            assert found == wanted, table
            assert len(found) > 30
        assert driver.digest(source, "SHOP", table), table
    assert set(bucketed.merged) == {"join"}
    assert bucketed.summary.changes == driver.summary.changes
    count = sum(message.role == "data" and message.table in tables for message in messages)
    assert bucketed.summary.changes == count - sum(bucketed.count_waiting().values())
    assert bucketed.rows_in_driver < bucketed.summary.changes // 20
    for work in (bucketed, driver):
        work.close()
