"""Source tables that get another name, task or server, by the steps of docs/replicate-tables.md; deleted and replayed ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import TableMetadata, data_message, metadata_message
from headstream.replicate.parked.requests import Requests, Selection
from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.testing import SourceDatabase
from tests.support.replicate.pipeline_work import LINES, SECOND_US, Work, plain
from tests.support.replicate.replicate_messages import make_change, make_table

OLD = make_table(task="one")
NEXT_TASK = make_table(task="two", schema_id="A" * 32)
NEXT_SERVER = replace(OLD, schema_id="B" * 32, lineage=replace(OLD.lineage, server="s2"))
NEXT_NAME = make_table(task="one", schema_id="C" * 32, table="kit_2024")

ALL_TASKS = TableRules(defaults=TableSettings(tasks="all"))
SAME_TARGET = TableRules(rules=(TableRule("shop.kit_2024", {"target": "shop.kit"}),), exclude=("shop.kit",))
BEFORE = [("INSERT", 1, "a", 1), ("INSERT", 2, "b", 2), ("INSERT", 3, "c", 3), ("UPDATE", 2, "b2", 4), ("DELETE", 3, "c", 5)]
"""Changes by the old task: operation, key, name, number in the order of all."""
LOADED = [("REFRESH", 2, "b2", 0), ("REFRESH", 4, "d", 0)]
"""Row 1 was deleted, and row 4 inserted, while no task captured the table."""
AFTER = [("UPDATE", 4, "d2", 11), ("INSERT", 3, "again", 12)]


def write(table: TableMetadata, *changes: tuple[str, int, str, int]) -> list[bytes]:
    return [
        data_message(
            table, make_change(number, verb, data={"id": key, "name": name}, change_sequence=f"{number:035d}" if number else "")
        )
        for verb, key, name, number in changes
    ]


def names(work: Work) -> dict[int, str]:
    found = [row for row in work.rows("shop", "kit") if row.get("_hs_current", True) and not row.get("_hs_deleted")]
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["name"] for row in found}


def change_settings(work: Work, rules: TableRules) -> None:
    work.options["rules"] = rules
    work.restart()


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize(
    ("moved", "rules"),
    [(NEXT_TASK, ALL_TASKS), (NEXT_SERVER, ALL_TASKS), (NEXT_NAME, SAME_TARGET)],
    ids=["task", "server", "name"],
)
def test_a_moved_source_that_is_loaded_again_fills_the_same_table(
    tmp_path: Path, moved: TableMetadata, rules: TableRules, scd_type: Any
) -> None:
    settings = replace(rules, defaults=replace(rules.defaults, scd_type=scd_type))
    work = Work(tmp_path, rules=TableRules(defaults=TableSettings(scd_type=scd_type)))
    work.send(metadata_message(OLD), *write(OLD, *BEFORE))
    assert names(work) == {1: "a", 2: "b2"}
    change_settings(work, settings)
    work.now_us += 3600 * SECOND_US
    work.send(metadata_message(moved), *write(moved, *LOADED))
    work.now_us += SECOND_US
    work.send(*write(moved, *AFTER))
    work.processor.sweep()
    assert names(work) == {2: "b2", 3: "again", 4: "d2"}
    assert work.dead_count() == 0
    work.send(*write(OLD, *BEFORE))  # what the old task wrote is sent again
    work.processor.sweep()
    assert names(work) == {2: "b2", 3: "again", 4: "d2"}
    work.close()


@pytest.mark.parametrize(
    ("moved", "rules"),
    [(NEXT_TASK, ALL_TASKS), (NEXT_SERVER, ALL_TASKS), (NEXT_NAME, SAME_TARGET)],
    ids=["task", "server", "name"],
)
def test_a_moved_source_that_continues_without_a_load_needs_no_other_steps(
    tmp_path: Path, moved: TableMetadata, rules: TableRules
) -> None:
    work = Work(tmp_path)
    work.send(metadata_message(OLD), *write(OLD, *BEFORE))
    change_settings(work, rules)
    work.send(metadata_message(moved), *write(moved, ("UPDATE", 1, "a2", 6), ("DELETE", 2, "b2", 7), ("INSERT", 4, "d", 8)))
    assert names(work) == {1: "a2", 4: "d"}
    work.close()


@pytest.mark.parametrize("moved", [NEXT_TASK, NEXT_SERVER], ids=["task", "server"])
def test_a_second_task_without_its_setting_is_set_aside_and_redriven(tmp_path: Path, moved: TableMetadata) -> None:
    work = Work(tmp_path, max_dead_rate=1.0)
    work.send(metadata_message(OLD), *write(OLD, *BEFORE))
    work.now_us += 3600 * SECOND_US
    work.send(metadata_message(moved), *write(moved, *LOADED, *AFTER))
    assert names(work) == {1: "a", 2: "b2"}
    assert work.dead_count() == 4
    change_settings(work, ALL_TASKS)
    Requests(work.ledger).ask("redrive", Selection().to_document(), work.now_us)
    work.processor.sweep()
    work.processor.sweep()
    assert names(work) == {2: "b2", 3: "again", 4: "d2"}
    work.close()


@pytest.mark.parametrize("scd_type", [1, 2])
def test_a_table_that_was_deleted_by_hand_comes_back_by_a_load(tmp_path: Path, scd_type: Any) -> None:
    work = Work(tmp_path, rules=TableRules(defaults=TableSettings(scd_type=scd_type)))
    work.send(metadata_message(OLD), *write(OLD, *BEFORE))
    work.close()
    shutil.rmtree(work.tables_directory / "shop" / "kit")
    work.open()
    work.now_us += 3600 * SECOND_US
    Requests(work.ledger).ask("reload", {"table": ["shop", "kit"], "at_us": work.now_us, "ended": False}, work.now_us)
    work.send(*write(OLD, *LOADED))
    work.now_us += SECOND_US
    work.send(*write(OLD, *AFTER))
    work.processor.sweep()
    assert names(work) == {2: "b2", 3: "again", 4: "d2"}
    assert work.processor.health.failing == {}
    work.close()


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("loses_checkpoint", [False, True])
def test_a_topic_replayed_from_its_beginning_changes_nothing(tmp_path: Path, scd_type: Any, loses_checkpoint: bool) -> None:
    source = SourceDatabase(41, rows=8, transactions=20)
    messages = [message.value for message in plain(source)]
    rules = TableRules(defaults=TableSettings(scd_type=scd_type))
    work = Work(tmp_path, rules=rules, load_gap_us=SECOND_US)
    work.send(*messages)
    work.processor.sweep()
    tables = (LINES, ("SHOP", "customers"))
    before = [sorted(map(repr, work.rows(*table))) for table in tables]
    assert all(work.digest(source, *table) for table in tables)
    if loses_checkpoint:
        work.close()
        work.options |= {"checkpoint": tmp_path / "next", "take_over": True}
        work.next_batch = work.next_offset = 0
        work.open()
    for first in range(0, len(messages), 50):
        work.send(*messages[first : first + 50])
    work.processor.sweep()
    assert all(work.digest(source, *table) for table in tables)
    assert [sorted(map(repr, work.rows(*table))) for table in tables] == before
    work.close()
