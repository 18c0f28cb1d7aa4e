from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headstream.errors import SchemaError
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.engines.engine import RowCounts
from tests.support.replicate.change_tables import METADATA, NAMES, TYPES, change, table
from tests.support.replicate.plain_engine import open_plain_engine


def open_table(directory: Path) -> Scd1Table:
    return Scd1Table(open_plain_engine(directory / "t"), ["ID"], Tombstones(directory / "tombstones", ["ID"]))


def merge(target: Scd1Table, version: int, *changes: dict[str, Any]) -> RowCounts:
    target.prepare(TYPES)
    return target.merge(target.collapse(table(*changes), METADATA), "test", version)


def content(directory: Path) -> dict[int, tuple[Any, ...]]:
    rows = DeltaTable(str(directory / "t")).to_pyarrow_table().to_pylist()
    assert len({row["ID"] for row in rows}) == len(rows)
    return {row["ID"]: (row["name"], row["total"], row["note"]) for row in rows}


def test_merge_inserts_updates_and_deletes_and_counts_them(tmp_path: Path) -> None:
    target = open_table(tmp_path)
    assert merge(target, 0, change("REFRESH", 1, "a"), change("REFRESH", 2, "b")) == RowCounts(inserted=2)
    assert merge(target, 1, change("UPDATE", 1, "a2", at=1), change("DELETE", 2, at=2)) == RowCounts(updated=1, deleted=1)
    assert content(tmp_path) == {1: ("a2", None, None)}


def test_merge_does_nothing_when_the_version_was_applied_before(tmp_path: Path) -> None:
    merge(open_table(tmp_path), 0, change("INSERT", 1, "a", at=1))
    assert merge(open_table(tmp_path), 0, change("INSERT", 2, "b", at=2)) == RowCounts()
    assert set(content(tmp_path)) == {1}


def test_merge_passes_over_older_changes_and_repeats(tmp_path: Path) -> None:
    target = open_table(tmp_path)
    merge(target, 0, change("INSERT", 1, "new", at=9))
    assert merge(target, 1, change("UPDATE", 1, "old", at=3), change("DELETE", 1, at=4)) == RowCounts()
    assert merge(target, 2, change("INSERT", 1, "new", at=9)) == RowCounts()
    assert content(tmp_path) == {1: ("new", None, None)}


def test_merge_does_not_bring_a_deleted_row_back_when_an_older_change_comes_late(tmp_path: Path) -> None:
    merge(open_table(tmp_path), 0, change("DELETE", 1, at=10))
    later = open_table(tmp_path)  # the tombstone outlives the process
    merge(later, 1, change("INSERT", 1, "late", at=5), change("INSERT", 2, "other", at=6))
    assert set(content(tmp_path)) == {2}
    merge(later, 2, change("INSERT", 1, "again", at=11))
    assert content(tmp_path)[1] == ("again", None, None)


def test_merge_names_no_column_that_none_of_its_changes_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = open_table(tmp_path)
    merge(target, 0, change("INSERT", 1, "a", "1", "kept", at=1), change("INSERT", 2, "b", "2", "kept", at=2))
    merged: list[set[str]] = []
    run = target.engine.merge

    def noted(plan: Any, changes: Any, *rest: Any) -> RowCounts:
        merged.append(set(changes.schema.names) & set(NAMES))
        return run(plan, changes, *rest)

    monkeypatch.setattr(target.engine, "merge", noted)
    assert merge(target, 1, change("UPDATE", 1, "a2", at=3, present={"ID", "name"})) == RowCounts(updated=1)
    merge(target, 2, change("UPDATE", 3, "new", at=4, present={"ID", "name"}), change("UPDATE", 2, "b2", "7", at=5))
    assert merged == [{"ID", "name"}, set(NAMES)]
    assert content(tmp_path) == {1: ("a2", 1, "kept"), 2: ("b2", 7, None), 3: ("new", None, None)}


def test_prepare_adds_a_column_and_widens_a_type(tmp_path: Path) -> None:
    target = open_table(tmp_path)
    target.prepare({"ID": "INT", "name": "STRING"})
    target.prepare(TYPES)
    assert target.columns == {"ID": "BIGINT", "name": "STRING", "total": "DECIMAL(10,2)", "note": "STRING"}
    merge(target, 0, change("INSERT", 1 << 40, "a", "1.5", at=1))
    assert content(tmp_path) == {1 << 40: ("a", Decimal("1.50"), None)}


def test_prepare_refuses_a_type_that_cannot_hold_what_is_there(tmp_path: Path) -> None:
    target = open_table(tmp_path)
    target.prepare({"ID": "STRING"})
    with pytest.raises(SchemaError, match="column 'ID'"):
        target.prepare(TYPES)


def history(seed: int, changes_count: int) -> tuple[list[dict[str, Any]], dict[int, tuple[Any, ...]]]:
    """A legal history of a few keys, partial images included, and the rows it ends with."""
    rng = random.Random(seed)
    state: dict[int, dict[str, Any]] = {key: {"name": f"r{key}", "total": None, "note": "load"} for key in range(3)}
    changes = [change("REFRESH", key, row["name"], row["total"], row["note"]) for key, row in state.items()]
    for at in range(1, changes_count + 1):
        key = rng.randrange(6)
        values = {"name": f"n{at}", "total": rng.choice([None, str(at)]), "note": f"note{at}"}
        if key not in state:
            state[key] = values
            changes.append(change("INSERT", key, *values.values(), at=at))
        elif rng.random() < 0.25:
            del state[key]
            changes.append(change("DELETE", key, at=at))
        elif rng.random() < 0.5:
            present = set(rng.sample(["name", "total", "note"], rng.randint(1, 2)))
            state[key] = {**state[key], **{name: values[name] for name in present}}
            shown = {name: value if name in present else None for name, value in values.items()}
            changes.append(change("UPDATE", key, *shown.values(), at=at, present={"ID", *present}))
        else:
            state[key] = values
            changes.append(change("UPDATE", key, *values.values(), at=at, old=key))
    final = {
        key: (row["name"], None if row["total"] is None else Decimal(row["total"]).quantize(Decimal("0.01")), row["note"])
        for key, row in state.items()
    }
    return changes, final


@pytest.mark.parametrize("seed", range(12))
def test_merge_ends_the_same_when_changes_are_shuffled_and_repeated_over_batches(tmp_path: Path, seed: int) -> None:
    changes, final = history(seed, 40)
    rng = random.Random(seed)
    delivery = changes + rng.sample(changes, 10)
    rng.shuffle(delivery)
    target = open_table(tmp_path)
    position, version = 0, 0
    while position < len(delivery):
        size = rng.randint(1, 15)
        merge(target, version, *delivery[position : position + size])
        position, version = position + size, version + 1
        if rng.random() < 0.3:
            target = open_table(tmp_path)
    assert content(tmp_path) == final
