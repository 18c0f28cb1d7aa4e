from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.errors import StorageError
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from tests.support.crashes import CrashError
from tests.support.replicate.change_tables import change, sequence
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.replicate.target_tables import Target

Change = dict[str, Any]


def move(key: int, to: int, name: str, *, at: int, transaction: str) -> Change:
    return change("UPDATE", to, name, at=at, old=key) | {"_hs_transaction": transaction, "_hs_event": at}


CASES: dict[str, tuple[dict[str, Any], list[Change], list[Change], Change, dict[int, str], dict[int, str]]] = {
    "tombstones": (
        {},
        [change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2)],
        [change("DELETE", 1, at=20), change("UPDATE", 2, "b2", at=21)],
        change("UPDATE", 1, "late", at=10),
        {1: "late", 2: "b"},
        {2: "b2"},
    ),
    "key log": (
        {},
        [change("INSERT", 1, "a", at=1), move(1, 2, "moved", at=2, transaction="1")],
        [change("UPDATE", 2, "b2", at=20), change("INSERT", 5, "e", at=21)],
        change("INSERT", 1, "late", at=10),
        {1: "late", 2: "moved"},
        {1: "late", 2: "b2", 5: "e"},
    ),
    "key log, soft": (
        {"deletes": "soft"},
        [change("INSERT", 1, "a", at=1), move(1, 2, "moved", at=2, transaction="1")],
        [change("DELETE", 2, at=20), change("INSERT", 5, "e", at=21)],
        change("INSERT", 1, "late", at=10),
        {1: "late", 2: "moved"},
        {1: "late", 5: "e"},
    ),
    "type 2": (
        {"scd_type": 2},
        [change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2)],
        [move(1, 2, "a", at=20, transaction="2"), move(2, 3, "b", at=21, transaction="2")],
        change("UPDATE", 2, "late", at=10),
        {1: "a", 2: "late"},
        {2: "a", 3: "b"},
    ),
}
"""What is remembered -> settings, a unit, the unit whose merge fails, a late change of another, the rows after it, all rows."""


def present_rows(target: Target) -> dict[int, str]:
    found = [row for row in target.stored() if row.get("_hs_current", not row.get("_hs_deleted"))]
    return {row["ID"]: row["name"] for row in found}


def fail_next_merge(monkeypatch: pytest.MonkeyPatch, error: Exception, *, after: bool) -> None:
    original: Callable[..., Any] = DeltaLakeEngine.merge

    def fail(*arguments: Any) -> None:
        monkeypatch.setattr(DeltaLakeEngine, "merge", original)
        if after:
            original(*arguments)
        raise error

    monkeypatch.setattr(DeltaLakeEngine, "merge", fail)


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_a_failed_merge_has_remembered_is_not_in_the_merge_of_another_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, is_killed: bool
) -> None:
    settings, first, failing, late, between, expected = CASES[case]
    target = Target(tmp_path, **settings)
    target.apply(*first)
    if is_killed:
        fail_next_merge(monkeypatch, CrashError(), after=False)
        with pytest.raises(CrashError):
            target.apply(*failing)
        target.reopen()
    else:
        fail_next_merge(monkeypatch, StorageError("the store refuses"), after=False)
        target.apply(*failing, fails=True)
    target.apply(late)
    assert present_rows(target) == between
    target.apply(*failing)
    assert present_rows(target) == expected
    target.reopen()
    target.apply(change("UPDATE", 1, "older", at=0))
    assert present_rows(target) == expected, "the second merge has remembered it again"


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_a_merge_has_remembered_stays_when_the_answer_to_its_commit_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, is_killed: bool
) -> None:
    settings, first, failing, late, _, expected = CASES[case]
    target = Target(tmp_path, **settings)
    target.apply(*first)
    fail_next_merge(monkeypatch, StorageError("no answer"), after=True)
    target.apply(*failing, fails=True)
    if is_killed:
        target.reopen()
    target.apply(late)
    assert present_rows(target) == expected


def test_decide_keeps_tombstones_of_a_commit_that_the_engine_has_not_read(tmp_path: Path) -> None:
    engine, tombstones = open_plain_engine(tmp_path / "t"), Tombstones(tmp_path / "deleted", ["ID"])
    engine.create({"ID": "BIGINT"})
    rows = pa.table({"ID": [1], "_hs_sequence": [sequence(1)]})
    for version in (1, 2):
        tombstones.begin_merge("test", version, engine)
        tombstones.record(rows)
        tombstones.record(rows)
        open_plain_engine(tmp_path / "t").append(rows.select(["ID"]), "test", 1)
    assert DeltaTable(str(tombstones.path)).to_pyarrow_table().num_rows == 4
    tombstones.decide(engine)
    assert DeltaTable(str(tombstones.path)).to_pyarrow_table().num_rows == 2, "of the first alone: the second has no commit"


def test_a_change_without_effect_is_remembered_although_its_merge_writes_no_row(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1))
    target.apply(change("UPDATE", 2, "a", at=10, old=1))
    files = DeltaTable(str(target.path)).file_uris()
    target.apply(change("INSERT", 2, "replaced", at=3))
    assert DeltaTable(str(target.path)).file_uris() == files  # by rewriting, no commit; with deletion vectors, one without files
    target.reopen()
    target.apply(change("UPDATE", 3, at=7, old=2, present={"ID"}))
    assert target.names() == {2: "a", 3: "replaced"}


def test_a_deletion_is_remembered_when_its_table_is_dropped(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1))
    target.apply(change("DELETE", 1, at=20))
    shutil.rmtree(target.path)
    for at in (10, 11):
        target.reopen()
        target.apply(change("UPDATE", 1, "late", at=at), change("INSERT", 2, "b", at=at))
        assert target.names() == {2: "b"}
