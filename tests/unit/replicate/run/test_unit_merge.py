"""Units that are begun again, by another run, another structure or another release: each change is in the change table once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.errors import StorageError
from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.parked.parking import ParkingLot
from headstream.replicate.parked.requests import Requests, Selection
from headstream.replicate.run.unit_merge import UnitMerge
from tests.support.crashes import CrashError, fail_with
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table

OLD = make_table()
NEW = make_table(*COLUMNS, ColumnMetadata("city", 3, "WSTRING", 20), schema_id="F" * 32, table_version=2)


def told(work: Work) -> list[int]:
    return sorted(row["id"] for row in work.rows("shop", "kit", work.directory / "changes"))


def test_a_release_that_is_done_again_tells_each_change_once_when_its_table_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    work.send(data_message(OLD, make_change(1)), data_message(NEW, make_change(2, data={"id": 2, "name": "b", "city": "Oslo"})))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "add_columns", fail_with(StorageError("no space left")))  # the new structure alone fails
        patch.setattr(ParkingLot, "finish_release", fail_with(CrashError()))
        with pytest.raises(CrashError):
            work.send(metadata_message(OLD), metadata_message(NEW))
    assert told(work) == [1]
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "add_columns", fail_with(StorageError("no space left")))
        work.restart()
        work.processor.sweep()
        assert work.ledger.waiting().count == 1
    work.now_us += 600 * SECOND_US
    while work.processor.sweep(last=True):
        pass
    assert told(work) == [1, 2]
    assert sorted(row["id"] for row in work.rows("shop", "kit")) == [1, 2]
    work.close()


def test_a_batch_that_is_done_again_tells_each_change_once_when_a_newer_schema_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes", topic_tables={"cdc/data": "shop.kit"})
    work.send(metadata_message(OLD))
    headers = {"operation": "INSERT", "changeSequence": f"{1:035d}"}
    bare = work.raw([json.dumps({"data": {"id": 1, "name": "a"}, "beforeData": None, "headers": headers}).encode()])
    with monkeypatch.context() as patch:
        patch.setattr(ParkingLot, "end_batch", fail_with(CrashError()))
        with pytest.raises(CrashError):
            work.process(bare, 1)
    work.restart()
    other = Work(tmp_path / "other")
    other.send(metadata_message(NEW))
    found = other.schema_store.find(NEW.schema_id)
    assert found is not None
    work.schema_store.add(found)  # a registry, or a directory of schemas, has it meanwhile
    other.close()
    work.process(bare, 1)
    assert told(work) == [1]
    assert [row["id"] for row in work.rows("shop", "kit")] == [1]
    work.close()


def test_a_change_that_was_applied_is_told_once_when_its_deletions_are_forgotten_before_its_batch_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes", tombstones_kept_us=SECOND_US)
    insert, delete = make_change(1), make_change(1, "DELETE", change_sequence=f"{9:035d}")
    work.send(metadata_message(OLD), data_message(OLD, insert))
    raw = work.raw([data_message(OLD, delete), data_message(OLD, make_change(1, "UPDATE", change_sequence=f"{5:035d}"))])
    with monkeypatch.context() as patch:
        patch.setattr(ParkingLot, "end_batch", fail_with(CrashError()))
        with pytest.raises(CrashError):
            work.process(raw, 1)
    work.restart()
    for _ in range(4):
        work.now_us += 2 * SECOND_US
        work.processor.sweep()
    work.process(raw, 1)
    assert work.dead_count() == 0, "it was applied the first time"
    Requests(work.ledger).ask("redrive", Selection(states=("dead",)).to_document(), work.now_us)
    while work.processor.sweep(last=True):
        pass
    rows = [(row["id"], row["_hs_operation"]) for row in work.rows("shop", "kit", tmp_path / "changes")]
    assert sorted(rows) == [(1, "DELETE"), (1, "INSERT"), (1, "UPDATE")]
    assert work.rows("shop", "kit") == []
    work.close()


def test_a_change_that_was_given_up_stays_given_up_when_its_batch_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes", tombstones_kept_us=SECOND_US)
    deleted = [make_change(2), make_change(2, "DELETE", change_sequence=f"{9:035d}")]
    work.send(metadata_message(OLD), *(data_message(OLD, change) for change in deleted))
    for _ in range(4):
        work.now_us += 2 * SECOND_US
        work.processor.sweep()
    late = make_change(1, "UPDATE", change_sequence=f"{5:035d}")
    raw = work.raw([data_message(OLD, late), data_message(OLD, replace(make_change(1), change_sequence=f"{10:035d}"))])
    with monkeypatch.context() as patch:
        patch.setattr(ParkingLot, "dead_letter", fail_with(CrashError()))
        with pytest.raises(CrashError):
            work.process(raw, 1)
    work.restart()
    work.process(raw, 1)  # the row is there now, and so the late change would not be given up
    rows = [(row["id"], row["_hs_sequence"][-2:]) for row in work.rows("shop", "kit", tmp_path / "changes")]
    assert (len(rows), work.dead_count()) == (3, 1)
    work.close()


def test_hold_resting_takes_the_changes_of_resting_tables_alone_out_of_a_unit(tmp_path: Path) -> None:
    box = make_table(schema_id="B" * 32, table="box")
    work = Work(tmp_path)
    work.send(metadata_message(OLD), metadata_message(box))
    unit = work.unit(data_message(OLD, make_change(1)), data_message(box, make_change(2)), data_message(OLD, make_change(3)))
    unit = replace(unit, held_tables={("shop", "kit"): "no space left", ("shop", "none"): "not here"})
    held = UnitMerge(work.context, work.processor.health).hold_tables(unit)
    (part,) = held.held
    assert (part.table, part.reason, part.cause) == (("shop", "kit"), "no space left", "table")
    assert len(part.messages) == 2
    assert held.decoded.changes.keys() == {box.schema_id}
    assert unit.decoded.changes.keys() == {OLD.schema_id, box.schema_id}, "the given unit is as it was"
    work.close()


def test_merge_holds_the_changes_of_a_failing_table_and_saves_the_checkpoint_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_table(schema_id="B" * 32, table="box")
    work = Work(tmp_path)
    work.send(metadata_message(OLD), metadata_message(box))
    step = UnitMerge(work.context, work.processor.health)
    steps: list[str] = []
    original = DeltaLakeEngine.merge

    def merge(engine: DeltaLakeEngine, *arguments: Any, **options: Any) -> Any:
        steps.append("merge")
        if engine.path.name == "box":
            raise StorageError("no space left")
        return original(engine, *arguments, **options)

    monkeypatch.setattr(DeltaLakeEngine, "merge", merge)
    monkeypatch.setattr(type(work.checkpoint_store), "save", lambda checkpoint_store: steps.append("save"))
    merged = step.merge(work.unit(data_message(OLD, make_change(1)), data_message(box, make_change(2))))
    assert steps == ["save", "merge", "merge"]
    (part,) = merged.held
    assert (part.table, part.messages["offset"].to_pylist(), part.cause) == (("shop", "box"), [3], "table")
    assert (merged.decoded.changes, merged.rejected.num_rows) == ({}, 0)
    assert [row["id"] for row in work.rows("shop", "kit")] == [1]
    assert step.merge(replace(merged, held=())).held == []
    assert steps == ["save", "merge", "merge"], "nothing is saved before a merge of nothing"
    work.close()
