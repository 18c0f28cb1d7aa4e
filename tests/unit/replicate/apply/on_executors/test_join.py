"""Unit tests of headstream.replicate.apply.on_executors.join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.testing import CaptureOptions, SourceDatabase, repeat, shuffle
from tests.support.replicate.bucketed_changes import Bucketed


@pytest.mark.parametrize("deletes", ["apply", "soft"])
@pytest.mark.parametrize("transactions", [25, pytest.param(120, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("seed", range(6))
def test_tables_equal_the_source_when_partial_images_are_joined_to_stored_rows_by_bucket(
    tmp_path: Path, seed: int, transactions: int, deletes: Any
) -> None:
    """Without changes of key hardly a change needs the driver, although half of the messages are late."""
    source = SourceDatabase(seed, rows=15, transactions=transactions, key_changes=False)
    messages = [
        m for m in source.capture(CaptureOptions(partial_images=True)) if m.table in ("SHOP.order_lines", "SHOP.customers")
    ]
    messages = list(repeat(shuffle(messages, seed=seed, window=40), seed=seed, fraction=0.1))
    work = Bucketed(tmp_path, rules=TableRules(defaults=TableSettings(deletes=deletes)))
    for start in range(0, len(messages), 60):
        work.send(*[message.value for message in messages[start : start + 60]])
        work.now_us += 1_000_000
    work.processor.sweep(last=True)
    for table in ("order_lines", "customers"):
        assert work.digest(source, "SHOP", table), table
    assert "join" in work.merged
    assert work.rows_in_driver < work.summary.changes // 2
    work.close()
