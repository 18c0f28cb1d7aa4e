"""A table of which too many messages can never be applied: it stops, the others go on, and nothing of it is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.parked import parking
from headstream.replicate.run.status import read_status
from headstream.replicate.run.stopped_tables import StoppedTables
from headstream.replicate.settings.table_settings import TableRule, TableRules
from tests.support.crashes import fail_with
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table, reasons_of

KIT = make_table()
UNUSABLE = make_table(*COLUMNS, ColumnMetadata("_hs_sequence", 3, "WSTRING", 20), schema_id="A" * 32, table="odd")
"""A table with a reserved column."""


def rows(table: Any, *numbers: int) -> list[bytes]:
    return [data_message(table, make_change(number, data={"id": number, "name": "x"})) for number in numbers]


def failing(work: Work) -> dict[str, dict[str, Any]]:
    return {found["table"]: found for found in read_status(work.ledger, work.now_us)["failing_tables"]}


@pytest.mark.parametrize("column", [ColumnMetadata("_hs_sequence", 3, "WSTRING", 20), ColumnMetadata("shape", 3, "GEOMETRY")])
def test_take_out_stops_one_table_and_the_others_go_on_when_its_schema_cannot_be_used(
    tmp_path: Path, column: ColumnMetadata
) -> None:
    work = Work(tmp_path, dead_rate_messages=10)
    unusable = replace(UNUSABLE, columns=(*COLUMNS, column))
    work.send(metadata_message(KIT), metadata_message(unusable))
    for start in range(0, 60, 20):
        numbers = range(start, start + 20)
        work.send(*[value for number in numbers for value in (*rows(KIT, number), *rows(UNUSABLE, number))])
    assert len(work.rows("shop", "kit")) == 60
    assert (work.dead_count(), work.ledger.waiting().count) == (0, 60)
    found = failing(work)["shop.odd"]
    assert found["stopped"]
    assert column.name in found["reason"]
    assert "max_dead_rate" in found["reason"]
    work.now_us += 400 * SECOND_US
    work.processor.sweep(last=True)
    assert (work.dead_count(), work.ledger.waiting().count) == (0, 60), "nothing changes while its settings do not"
    work.close()


@pytest.mark.parametrize(
    ("options", "applied", "dead"),
    [
        ({"rules": TableRules(rules=(TableRule("shop.odd", {"rename_columns": {"_hs_sequence": "seq"}}),))}, 30, 0),
        ({"rules": TableRules(exclude=("shop.odd",))}, None, 0),
        ({"max_dead_rate": 1.0}, None, 30),
    ],
    ids=["corrected", "excluded", "given up"],
)
def test_retry_ends_the_stop_when_the_settings_have_changed(
    tmp_path: Path, options: dict[str, Any], applied: int | None, dead: int
) -> None:
    work = Work(tmp_path, dead_rate_messages=10)
    work.send(metadata_message(UNUSABLE), *rows(UNUSABLE, *range(30)))
    assert work.ledger.waiting().count == 30
    work.options |= options
    work.restart()
    work.send(*rows(KIT, 1), metadata_message(KIT))
    work.processor.sweep()
    assert (work.ledger.waiting().count, work.dead_count(), failing(work)) == (0, dead, {})
    if applied is not None:
        assert len(work.rows("shop", "odd")) == applied
    work.close()


def test_take_out_holds_good_changes_back_too_until_the_share_of_the_table_is_small(tmp_path: Path) -> None:
    work = Work(tmp_path, dead_rate_messages=10)
    bad = [data_message(KIT, make_change(number, change_sequence="")) for number in range(100, 110)]
    work.send(metadata_message(KIT), *rows(KIT, *range(10)), *bad)
    assert work.summary.changes == 0
    assert work.ledger.waiting().count == 20
    work.send(*rows(KIT, *range(10, 100)))  # the share of all that wait is 10 of 110 now
    assert (work.summary.changes, work.ledger.waiting().count) == (0, 110)
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert (len(work.rows("shop", "kit")), work.dead_count(), failing(work)) == (100, 10, {})
    work.close()


def test_retry_holds_bad_messages_back_when_an_earlier_release_of_their_table_was_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MAX_RELEASE", 30)
    work = Work(tmp_path, dead_rate_messages=10)
    work.send(metadata_message(UNUSABLE), *rows(UNUSABLE, *range(30)))
    work.now_us += SECOND_US
    work.send(*[data_message(UNUSABLE, make_change(number, change_sequence="")) for number in range(30, 60)])
    work.options["rules"] = TableRules(rules=(TableRule("shop.odd", {"rename_columns": {"_hs_sequence": "seq"}}),))
    work.restart()
    work.processor.sweep()
    assert (len(work.rows("shop", "odd")), work.dead_count(), work.ledger.waiting().count) == (30, 0, 30)
    assert "no change sequence" in failing(work)["shop.odd"]["reason"]
    work.options["max_dead_rate"] = 1.0
    work.restart()
    work.processor.sweep()
    assert (len(work.rows("shop", "odd")), work.dead_count(), failing(work)) == (30, 30, {})
    work.close()


def test_take_out_does_not_stop_a_table_when_a_second_task_is_rejected_for_it(tmp_path: Path) -> None:
    other = replace(make_table(task="two"), schema_id="F" * 32)
    work = Work(tmp_path, dead_rate_messages=10)
    work.send(metadata_message(KIT), metadata_message(other), *rows(KIT, *range(20)), *rows(other, *range(20, 60)))
    assert len(work.rows("shop", "kit")) == 20
    assert failing(work).keys() == {"shop.kit of two"}
    work.send(*rows(KIT, 20))
    assert len(work.rows("shop", "kit")) == 21
    work.close()


@pytest.mark.parametrize("step", ["hold", "end_batch"])
def test_take_out_keeps_every_message_once_when_a_crash_cuts_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    work = Work(tmp_path, dead_rate_messages=10)
    work.send(metadata_message(KIT), metadata_message(UNUSABLE))
    raw = work.raw([*rows(UNUSABLE, *range(20)), *rows(KIT, *range(20))])

    with monkeypatch.context() as patch:
        patch.setattr(type(work.processor.parking), step, fail_with(MemoryError()))
        with pytest.raises(MemoryError):
            work.process(raw, 1)
    work.restart()
    work.process(raw, 1)
    assert (len(work.rows("shop", "kit")), work.ledger.waiting().count, work.dead_count()) == (20, 20, 0)
    work.close()


def test_take_out_returns_the_dead_messages_of_stopped_tables_beside_the_others(tmp_path: Path) -> None:
    work = Work(tmp_path, dead_rate_messages=10)
    work.send(metadata_message(KIT), metadata_message(UNUSABLE))
    health = work.processor.health
    bad = [data_message(KIT, make_change(number, change_sequence="")) for number in range(2)]
    unit = work.unit(*rows(KIT, *range(20)), *rows(UNUSABLE, *range(20)), *bad)
    taken = StoppedTables(work.context, health).take_out(unit)
    (part,) = taken.stopped
    assert (part.table, part.messages.num_rows, part.reason) == (("shop", "odd"), 20, health.stopped["shop", "odd"])
    assert (len(reasons_of(taken.decoded)), len(reasons_of(unit.decoded))) == (2, 22), "the given unit is as it was"
    assert taken.decoded.changes == unit.decoded.changes
    work.close()


def test_retry_lets_the_tables_rest_that_stay_stopped(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.send(metadata_message(KIT), metadata_message(UNUSABLE))
    health = work.processor.health
    for table in ("odd", "kit"):
        health.note_failure(("shop", table), "stopped", work.now_us, stopped=True)
    unit = replace(work.unit(*rows(UNUSABLE, 1), *rows(KIT, 2)), held_tables={("shop", "other"): "no space left"})
    retried = StoppedTables(work.context, health).retry(unit)
    assert retried.held_tables.keys() == {("shop", "other"), ("shop", "odd")}
    assert [part.table for part in retried.stopped] == [("shop", "odd")]
    assert health.stopped.keys() == {("shop", "odd")}
    work.close()
