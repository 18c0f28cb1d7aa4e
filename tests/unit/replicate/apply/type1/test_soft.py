"""Unit tests of headstream.replicate.apply.type1.soft."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.engines.engine import RowCounts
from tests.support.replicate.change_tables import change, sequence
from tests.support.replicate.plain_engine import open_plain_engine
from tests.unit.replicate.apply.type1.test_merge import history, merge, open_table


def soft_content(directory: Path) -> dict[int, tuple[Any, ...]]:
    rows = DeltaTable(str(directory / "t")).to_pyarrow_table().to_pylist()
    return {row["ID"]: (row["name"], row["note"], row["_hs_deleted"], row["_hs_sequence"]) for row in rows}


def merge_softly(directory: Path, version: int, *changes: dict[str, Any]) -> RowCounts:
    engine = open_plain_engine(directory / "t")
    target = Scd1Table(engine, ["ID"], Tombstones(directory / "tombstones", ["ID"]), soft=True)
    return merge(target, version, *changes)


def test_soft_deletion_keeps_the_row_and_a_newer_upsert_brings_it_back(tmp_path: Path) -> None:
    merge_softly(tmp_path, 0, change("INSERT", 1, "a", at=1))
    assert merge_softly(tmp_path, 1, change("DELETE", 1, at=3), change("DELETE", 2, at=4)) == RowCounts(inserted=1, updated=1)
    deleted = {1: ("a", None, True, sequence(3)), 2: (None, None, True, sequence(4))}
    assert soft_content(tmp_path) == deleted
    late = [change("UPDATE", 1, "late", at=2), change("INSERT", 2, "late", at=2)]
    assert merge_softly(tmp_path, 2, *late) == RowCounts(updated=2)
    deleted = {1: ("late", None, True, sequence(3)), 2: ("late", None, True, sequence(4))}  # the last values before it
    assert soft_content(tmp_path) == deleted
    assert merge_softly(tmp_path, 3, change("DELETE", 1, at=3), change("INSERT", 1, "a", at=1), late[1]) == RowCounts()
    assert soft_content(tmp_path) == deleted
    merge_softly(tmp_path, 4, change("INSERT", 1, "again", at=5), change("INSERT", 2, "tie", at=4))
    assert soft_content(tmp_path) == {1: ("again", None, False, sequence(5)), 2: ("tie", None, False, sequence(4))}
    assert not (tmp_path / "tombstones").exists()


def test_soft_deletion_is_marked_in_a_table_that_deleted_its_rows_before(tmp_path: Path) -> None:
    merge(open_table(tmp_path), 0, change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2))
    merge_softly(tmp_path, 1, change("DELETE", 1, at=3))
    assert {key: row[2] for key, row in soft_content(tmp_path).items()} == {1: True, 2: None}


@pytest.mark.parametrize("seed", range(6))
def test_soft_rows_that_are_not_deleted_are_those_that_are_there_when_changes_are_shuffled(tmp_path: Path, seed: int) -> None:
    changes, final = history(seed, 40)
    rng = random.Random(seed)
    delivery = changes + rng.sample(changes, 10)
    rng.shuffle(delivery)
    for version in range(5):
        merge_softly(tmp_path, version, *delivery[version * 11 : version * 11 + 11])
    rows = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    there = {row["ID"]: (row["name"], row["total"], row["note"]) for row in rows if not row["_hs_deleted"]}
    assert there == final
