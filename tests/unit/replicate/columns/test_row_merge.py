from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headstream.replicate.apply.moved_keys import key_log
from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from tests.support.replicate.change_tables import METADATA, NAMES, TYPES, change, sequence, table
from tests.support.replicate.moving_rows import MovingSource
from tests.support.replicate.plain_engine import open_plain_engine


def open_table(directory: Path, *, soft: bool, history: bool = False) -> Scd1Table | Scd2Table:
    if history:
        versions = Scd2Table(open_plain_engine(directory / "t"), ["ID"], soft=soft)
        versions.prepare(TYPES)
        return versions
    target = Scd1Table(open_plain_engine(directory / "t"), ["ID"], Tombstones(directory / "tombstones", ["ID"]), soft=soft)
    target.prepare(TYPES)
    return target


def log_path(directory: Path, *, history: bool) -> Path:
    return directory / ("t.keys" if history else "tombstones")


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


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rows_equal_the_source_when_keys_are_taken_and_given_up_again_and_again_in_a_transaction(
    tmp_path: Path, seed: int, history: bool
) -> None:
    source = MovingSource(seed, whole_moves=True)
    source.live(3, most=25)
    deliver(tmp_path, source.changes, random.Random(seed), soft=False, history=history)
    assert values(rows_of(tmp_path)) == source.expected()


@pytest.mark.parametrize("mode", ["type 1", "soft", "type 2"])
@pytest.mark.parametrize("seed", range(4))
def test_kept_changes_are_put_together_without_a_trace_in_the_rows_when_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, mode: str
) -> None:
    monkeypatch.setattr(key_log, "MAX_KEPT", 24)
    soft, history = mode == "soft", mode == "type 2"
    source, rng = MovingSource(seed, whole_moves=history), random.Random(seed)
    source.live(30)
    target, version, done, most = open_table(tmp_path, soft=soft, history=history), 0, 0, 0
    while done < len(source.changes):
        size = rng.randint(1, 12)
        merge(target, version, source.changes[done : done + size])
        done, version = done + size, version + 1
        log = KeyLog(log_path(tmp_path, history=history), ["ID"])
        most = max(most, len(log))
        if rng.random() < 0.2:
            target = open_table(tmp_path, soft=soft, history=history)
    rows = rows_of(tmp_path)
    assert values(rows) == source.expected()
    if soft:
        assert values(rows, deleted=True) == source.expected_deleted()
    assert most <= 60, "the log has grown past what one transaction and the facts of its keys come to"


def test_a_softly_deleted_row_keeps_its_last_values_when_the_changes_of_its_key_are_put_together(tmp_path: Path) -> None:
    target = open_table(tmp_path, soft=True)
    merge(target, 0, [change("INSERT", 1, "a", "1", "n", at=1), change("UPDATE", 2, "b", "2", "m", at=2, old=1)])
    merge(target, 1, [change("DELETE", 1, at=4)])
    target.forget(sequence(3))
    merge(target, 2, [change("DELETE", 1, at=5)])
    assert values(rows_of(tmp_path), deleted=True) == {1: ("a", Decimal("1.00"), "n")}
    assert values(rows_of(tmp_path)) == {2: ("b", Decimal("2.00"), "m")}
