from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headstream.spark.replicate.apply.scd1 import Scd1Table
from headstream.spark.replicate.apply.scd2 import Scd2Table
from headstream.spark.replicate.apply.scd2_events import read_events
from headstream.spark.replicate.apply.tombstones import Tombstones
from tests.unit.spark.replicate.change_tables import METADATA, NAMES, TYPES, table
from tests.unit.spark.replicate.moving_rows import MovingSource
from tests.unit.spark.replicate.plain_engine import open_plain_engine


def open_table(directory: Path, *, soft: bool, history: bool = False) -> Scd1Table | Scd2Table:
    if history:
        versions = Scd2Table(open_plain_engine(directory / "t"), ["ID"], soft=soft)
        versions.prepare(TYPES)
        return versions
    target = Scd1Table(open_plain_engine(directory / "t"), ["ID"], Tombstones(directory / "tombstones", ["ID"]), soft=soft)
    target.prepare(TYPES)
    return target


def merge(target: Scd1Table | Scd2Table, version: int, changes: list[dict[str, Any]]) -> None:
    if isinstance(target, Scd2Table):
        target.merge(read_events(table(*changes), METADATA, NAMES), "test", version)
    else:
        target.merge(target.collapse(table(*changes), METADATA), "test", version)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(directory / "t")).to_pyarrow_table().to_pylist()
    rows = [row for row in rows if row.get("_hs_current", True)]
    assert len({row["ID"] for row in rows}) == len(rows)
    return rows


def values(rows: list[dict[str, Any]], *, deleted: bool = False) -> dict[int, tuple[Any, ...]]:
    return {row["ID"]: (row["name"], row["total"], row["note"]) for row in rows if bool(row.get("_hs_deleted")) == deleted}


def deliver(directory: Path, changes: list[dict[str, Any]], rng: random.Random, *, soft: bool, history: bool = False) -> None:
    """Merge changes in a random order, some twice, in random batches, by a table that is opened anew now and then."""
    delivery = changes + rng.sample(changes, len(changes) // 6)
    if rng.random() < 0.8:
        window = rng.choice([3, 10, len(delivery)])
        places = [place + rng.random() * window for place in range(len(delivery))]
        delivery = [delivery[place] for place in sorted(range(len(delivery)), key=places.__getitem__)]
    target, version, done = open_table(directory, soft=soft, history=history), 0, 0
    while done < len(delivery):
        size = rng.randint(1, 12)
        merge(target, version, delivery[done : done + size])
        done, version = done + size, version + 1
        if rng.random() < 0.2:
            target = open_table(directory, soft=soft, history=history)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_merge_equals_the_source_when_rows_change_keys_and_changes_come_in_any_order(
    tmp_path: Path, seed: int, soft: bool
) -> None:
    source = MovingSource(seed)
    source.live(7)
    deliver(tmp_path, source.changes, random.Random(seed), soft=soft)
    rows = rows_of(tmp_path)
    assert values(rows) == source.expected()
    if soft:
        assert values(rows, deleted=True) == source.expected_deleted()


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_open_versions_equal_the_source_when_rows_swap_and_shift_their_keys(tmp_path: Path, seed: int, soft: bool) -> None:
    source = MovingSource(seed, whole_moves=True)
    source.live(7)
    deliver(tmp_path, source.changes, random.Random(seed), soft=soft, history=True)
    assert values(rows_of(tmp_path)) == source.expected()
