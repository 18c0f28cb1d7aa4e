"""Merges of many columns that write the table again: the same rows, in one commit, and no other writer's change is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from bench.replicate_wide import Merges, make_changes
from headstream.errors import StorageError
from headstream.replicate.engines import deltalake as engine_module
from headstream.replicate.engines import rewriting
from headstream.replicate.engines.engine import RowCounts
from tests.support.replicate.change_tables import change
from tests.support.replicate.target_tables import Target

ROWS, COLUMNS = 3, 120


def operations(path: Path) -> list[str]:
    return [entry["operation"] for entry in DeltaTable(str(path)).history()][::-1]


@pytest.fixture
def rewrites_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_LEAST_COLUMNS", 0)
    monkeypatch.setattr(rewriting, "_ROWS_PER_COLUMN", 1000)


def test_updates_that_omit_columns_of_many_write_the_table_again_and_whole_ones_are_merged(tmp_path: Path) -> None:
    merges = Merges(tmp_path, ROWS, COLUMNS)
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 100))
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 300, range(10)))
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 200))
    assert operations(tmp_path / "table") == ["CREATE TABLE", "MERGE", "MERGE", "WRITE", "WRITE"]
    assert merges._table.engine.last_applied("bench") == 4
    properties = {"delta.enableChangeDataFeed": "true"}
    DeltaTable(str(tmp_path / "table")).alter.set_table_properties(properties)
    merges._table.engine._log.refresh()  # type: ignore[attr-defined]
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 400, range(10)))
    assert operations(tmp_path / "table")[-1] == "MERGE", "its change feed has the changed rows alone"


def drawn_units(seed: int) -> list[list[dict[str, Any]]]:
    rng = random.Random(seed)
    changes = []
    for at in range(1, 31):
        key = rng.randint(1, 4)
        verb = rng.choice(["INSERT", "UPDATE", "UPDATE", "DELETE", "MOVE"])
        if verb == "MOVE":
            changes.append(change("UPDATE", key % 4 + 1, f"m{at}", at=at, old=key, present={"ID", "name"}))
        elif verb == "UPDATE":
            changes.append(change(verb, key, f"u{at}", note=f"n{at}", at=at, present={"ID", *rng.sample(["name", "note"], 1)}))
        else:
            changes.append(change(verb, key, f"i{at}", str(at), f"n{at}", at=at))
    rng.shuffle(changes)
    return [changes[place : place + 5] for place in range(0, len(changes), 5)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("deletes", ["apply", "soft"])
def test_table_is_the_same_written_again_as_merged(
    tmp_path: Path, request: pytest.FixtureRequest, seed: int, deletes: str
) -> None:
    def read(name: str) -> tuple[list[dict[str, Any]], list[RowCounts]]:
        target = Target(tmp_path / name, deletes=deletes)
        counts: list[RowCounts] = []
        for unit in drawn_units(seed):
            counts += target.apply(*unit).counts.values()
            table = DeltaTable(str(target.path))
            if target.version == 1:
                table.alter.add_columns([Field("mine", PrimitiveType("string"))])
                table.update({"mine": "concat('of ', name)"})
                target.reopen()
        assert ("WRITE" in operations(target.path)) == (name == "written")
        return sorted(target.stored(), key=lambda row: row["ID"]), counts

    merged = read("merged")
    request.getfixturevalue("rewrites_always")
    assert read("written") == merged


def _update(table: DeltaTable) -> None:
    table.update({"mine": "'changed meanwhile'"})


def _append(table: DeltaTable) -> None:
    row = {field.name: None for field in table.schema().fields} | {"ID": 7, "mine": "changed meanwhile"}
    write_deltalake(table, pa.Table.from_pylist([row], schema=pa.schema(table.schema().to_arrow())), mode="append")


def _remove(table: DeltaTable) -> None:
    table.delete("ID = 2")


@pytest.mark.parametrize("meanwhile", [_update, _append, _remove])
@pytest.mark.usefixtures("rewrites_always")
def test_change_of_another_writer_while_the_table_is_written_again_is_a_conflict_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[DeltaTable], None]
) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2))
    DeltaTable(str(target.path)).alter.add_columns([Field("mine", PrimitiveType("string"))])
    target.reopen()
    partial = change("UPDATE", 1, "a2", at=3, present={"ID", "name"})

    def rewritten(*given: Any) -> Any:
        monkeypatch.undo()
        meanwhile(DeltaTable(str(target.path)))
        monkeypatch.setattr(rewriting, "_LEAST_COLUMNS", 0)
        return rewriting.rewritten(*given)

    monkeypatch.setattr(engine_module, "rewritten", rewritten)
    applied = target.apply(partial, fails=True)
    assert all(isinstance(error, StorageError) for error in applied.failed.values())
    before = target.stored()
    target.apply(partial, again=True)
    after = target.stored()
    assert sorted(row["mine"] or "" for row in after) == sorted(row["mine"] or "" for row in before)
    assert {row["ID"] for row in after} == {row["ID"] for row in before}
    assert {row["name"] for row in after if row["ID"] == 1} == {"a2"}
