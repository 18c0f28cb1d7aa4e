"""Transactions, with `atomic`: in every version of every table each transaction is whole, whatever the delivery and the crashes.

Each seed is a source of transactions over several tables, one of which may be passed over, a hostile delivery and crashes. A
table's version is whole when of every transaction all changes to the table are in it, or none. All but Spark is real.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Literal

import pytest

from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.tables.tables import table_path
from headstream.testing import SHOP_TABLES, CaptureOptions, SourceDatabase, repeat, shuffle, split
from tests.campaigns.test_replicate_delivery import Crashes
from tests.support.crashes import CrashError
from tests.support.replicate.low_limits import lower_limits
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.whole_transactions import halves_in_changes, halves_in_rows

TABLES = tuple(table for table in SHOP_TABLES if table.name in ("customers", "order_lines", "documents", "devices"))


def deliver(
    directory: Path, seed: int, *, crashes: int, scd_type: Literal[1, 2], atomic: bool = True, failures: float = 0.0
) -> list[str]:
    """Let one seed's messages go through; return what is seen in part, having compared the end with the source."""
    random = Random(seed)
    source = SourceDatabase(seed, tables=TABLES, rows=random.randrange(8), transactions=random.randrange(8, 30))
    options = CaptureOptions(
        partial_images=random.random() < 0.5,
        late_metadata=random.choice([{}, {"SHOP.order_lines": "end"}, {"SHOP.customers": 9, "LAB.devices": 20}]),
    )
    passed_over = random.choice([(), ("SHOP.customers",), ("LAB.*", "SHOP.documents")])
    sent = [message.value for message in source.capture(options)]
    arrived = repeat(shuffle(sent, seed=seed, window=random.choice([None, 5, 40])), seed=seed, fraction=0.2)
    changes = directory / "changes" if seed % 2 or failures else None
    work = Work(
        directory,
        atomic=atomic,
        change_tables=changes,
        rules=TableRules(exclude=passed_over, defaults=TableSettings(scd_type=scd_type, deletes="soft")),
    )
    parts = [work.raw(part) for part in split(arrived, random.randint(3, 8), seed=seed)]
    with pytest.MonkeyPatch.context() as patch:
        fault = Crashes(patch, failures, seed)
        for batch_id, part in enumerate(parts):
            crashed = random.random() < 0.1
            while fault.count < crashes and random.random() < 0.8:
                fault.plan(random)
                try:
                    work.process(part, batch_id)
                    work.processor.sweep()
                except CrashError:
                    crashed = True
                fault.left = None
                work.restart()
                if random.random() < 0.5:
                    work.processor.sweep()  # what waits is looked after before the next micro-batch comes
            for _ in range(1 + crashed):
                work.process(part, batch_id)
            work.now_us += random.choice([0, 1, 2, 20]) * 1_000_000
    work.now_us += 3600 * 1_000_000
    while work.processor.sweep(last=True):
        pass
    assert work.ledger.waiting().count == 0, f"seed {seed}"
    assert work.dead_count() == 0, f"seed {seed}"
    found = []
    for table in TABLES:
        if work.config.rules.wants(table.schema, table.name) and any(change.table is table for change in source.changes):
            assert work.digest(source, table.schema, table.name), f"{table.qualified_name}, seed {seed}"
            found += halves_in_rows(table_path(work.tables_directory, table.schema, table.name), source, table)
            if changes is not None:
                found += halves_in_changes(table_path(changes, table.schema, table.name), source, table)
                offsets = [row["_hs_offset"] for row in work.rows(table.schema, table.name, changes)]
                assert len(set(offsets)) == len(offsets), f"{table.qualified_name}, seed {seed}"
    assert not atomic or work.ledger.rows("SELECT key FROM open_transactions") == []
    work.close()
    return found


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("scd_type", [1, 2])
def test_every_version_of_a_table_has_whole_transactions_under_hostile_delivery(
    tmp_path: Path, seed: int, scd_type: Literal[1, 2]
) -> None:
    assert deliver(tmp_path, seed, crashes=3, scd_type=scd_type) == []


@pytest.mark.parametrize(("seed", "crashes", "scd_type"), [(31, 4, 1), (419, 8, 2), (427, 8, 2)])
def test_transactions_are_whole_and_told_once_when_the_engine_fails_now_and_then(
    tmp_path: Path, seed: int, crashes: int, scd_type: Literal[1, 2]
) -> None:
    assert deliver(tmp_path, seed, crashes=crashes, scd_type=scd_type, failures=0.15) == []


@pytest.mark.parametrize(
    ("seed", "crashes", "scd_type", "unit_bytes"),
    [
        pytest.param(419, 8, 2, 600, marks=pytest.mark.nightly),
        (31, 4, 1, 2048),
        pytest.param(427, 8, 2, 600, marks=pytest.mark.nightly),
    ],
)
def test_transactions_are_whole_when_limits_in_bytes_divide_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, crashes: int, scd_type: Literal[1, 2], unit_bytes: int
) -> None:
    lower_limits(monkeypatch, unit_bytes, unit_bytes)
    assert deliver(tmp_path, seed, crashes=crashes, scd_type=scd_type, failures=0.15) == []


@pytest.mark.soak
@pytest.mark.parametrize("first", range(400, 700, 50))
@pytest.mark.parametrize("scd_type", [1, 2])
def test_transactions_are_whole_and_told_once_for_long(tmp_path: Path, first: int, scd_type: Literal[1, 2]) -> None:
    for seed in range(first, first + 50):
        assert deliver(tmp_path / str(seed), seed, crashes=8, scd_type=scd_type, failures=0.15) == [], f"seed {seed}"


@pytest.mark.parametrize("scd_type", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_transactions_are_seen_in_part_when_they_are_not_waited_for(tmp_path: Path, scd_type: Literal[1, 2]) -> None:
    assert deliver(tmp_path, 1, crashes=0, scd_type=scd_type, atomic=False)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 250, 50))
@pytest.mark.parametrize("scd_type", [1, 2])
def test_every_version_of_a_table_has_whole_transactions_for_long(tmp_path: Path, first: int, scd_type: Literal[1, 2]) -> None:
    for seed in range(first, first + 50):
        assert deliver(tmp_path / str(seed), seed, crashes=8, scd_type=scd_type) == [], f"seed {seed}"
