from __future__ import annotations

import random
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.codec import ColumnMetadata, TableMetadata
from headstream.replicate.columns.changes import OLD_PREFIX
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.tables.tables import table_path
from tests.support.crashes import fail_with
from tests.support.replicate.change_tables import COLUMNS, KEYLESS, METADATA, change, sequence
from tests.support.replicate.target_tables import Target, schema_of

ORDERS = ("shop", "orders")


def version(number: int, *columns: ColumnMetadata) -> TableMetadata:
    """A later version of the table."""
    lineage = replace(METADATA.lineage, table_version=number)
    return replace(METADATA, schema_id=f"{number:032X}", lineage=lineage, columns=columns)


def test_late_rows_never_overwrite_newer_ones(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "new", at=9))
    assert target.apply(change("UPDATE", 1, "old", at=3), change("DELETE", 1, at=4)).counts[ORDERS] == RowCounts()
    assert target.names() == {1: "new"}


def test_upsert_delete_and_upsert_again_in_one_batch_end_with_the_last(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1), change("DELETE", 1, at=2), change("INSERT", 1, "b", at=3))
    assert target.names() == {1: "b"}


@pytest.mark.parametrize("upsert_first", [True, False])
def test_an_upsert_beats_a_delete_of_the_same_sequence_in_any_order(tmp_path: Path, upsert_first: bool) -> None:
    target = Target(tmp_path)
    units = [[change("INSERT", 1, "a", at=5)], [change("DELETE", 1, at=5)]]
    for unit in units if upsert_first else units[::-1]:
        target.apply(*unit)
    assert target.names() == {1: "a"}


def test_an_older_delete_does_not_lower_a_tombstone(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("DELETE", 1, at=10))
    target.apply(change("DELETE", 1, at=3))
    target.apply(change("INSERT", 1, "late", at=7))
    assert target.names() == {}


def test_keys_that_no_change_names_are_untouched_and_tombstones_hold_keys_alone(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2))
    target.apply(change("DELETE", 1, at=3))
    assert target.names() == {2: "b"}
    assert [field.name for field in DeltaTable(str(target.tombstones)).schema().fields] == ["ID", "_hs_sequence"]


def test_applying_a_whole_batch_again_as_another_unit_changes_nothing(tmp_path: Path) -> None:
    target = Target(tmp_path)
    unit = [change("REFRESH", 1, "a", logged_us=1), change("UPDATE", 2, name="p", at=4, present={"ID", "name"})]
    unit += [change("DELETE", 3, at=5), change("UPDATE", 5, "moved", at=6, old=4)]
    target.apply(*unit)
    before = target.stored()
    assert target.apply(*unit).counts[ORDERS] == RowCounts()
    assert target.stored() == before


def test_a_no_op_update_writes_nothing(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1))
    idle = change("UPDATE", 1, "a", at=2, present={"ID", "name", "total"}, changed=b"\x00")
    assert target.apply(idle).counts[ORDERS] == RowCounts()
    assert target.stored()[0]["_hs_sequence"] == sequence(1)


@pytest.mark.parametrize("order", ["before", "after", "together"])
def test_a_change_of_key_that_leaves_columns_out_keeps_them(tmp_path: Path, order: str) -> None:
    target = Target(tmp_path)
    row = change("INSERT", 1, "a", "5", "kept", at=1)
    moved = change("UPDATE", 2, name="b", at=3, present={"ID", "name"}, old=1)
    for unit in {"before": [[row], [moved]], "after": [[moved], [row]], "together": [[moved, row]]}[order]:
        target.apply(*unit)
    assert target.rows() == {2: ("b", Decimal("5.00"), "kept")}


def test_a_late_change_of_a_row_whose_key_moved_reaches_it_where_it_is_now(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", "5", "old note", at=1))
    target.apply(change("UPDATE", 2, name="b", at=3, present={"ID", "name"}, old=1))
    target.apply(change("UPDATE", 3, name="c", at=5, present={"ID", "name"}, old=2))
    target.apply(change("UPDATE", 1, "late", "6", "new note", at=2))
    assert target.rows() == {3: ("c", Decimal("6.00"), "new note")}


def test_a_killed_process_that_has_not_recorded_its_deletions_loses_no_older_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(tmp_path)
    unit = [change("INSERT", 1, "a", at=1), change("DELETE", 2, at=9)]

    with monkeypatch.context() as patch:
        patch.setattr(Tombstones, "record", fail_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            target.apply(*unit)
    target.reopen()
    assert target.apply(*unit, again=True).rejected == {}
    assert target.names() == {1: "a"}


def draw_history(rng: random.Random) -> tuple[list[dict[str, Any]], dict[int, tuple[Any, ...]]]:
    """Inserts, deletions, partial updates and changes of key; and the rows after them."""
    state: dict[int, dict[str, Any]] = {}
    changes = []
    fresh = iter(range(100, 1000))  # a key that a row leaves is not used again
    for at in range(1, 30):
        values = {"name": f"n{at}", "total": str(at), "note": f"note{at}"}
        draw = rng.random()
        if not state or draw < 0.2:
            key = next(fresh)
            state[key] = values
            changes.append(change("INSERT", key, *values.values(), at=at))
            continue
        key = rng.choice(list(state))
        if draw < 0.3:
            del state[key]
            changes.append(change("DELETE", key, at=at))
            continue
        present = set(rng.sample(["name", "total", "note"], rng.randint(1, 3)))
        row = {**state.pop(key), **{name: values[name] for name in present}}
        now = next(fresh) if draw < 0.65 else key
        state[now] = row
        shown = [value if name in present else None for name, value in values.items()]
        changes.append(change("UPDATE", now, *shown, at=at, present={"ID", *present}, old=key))
    return changes, {key: (r["name"], Decimal(r["total"]).quantize(Decimal("0.01")), r["note"]) for key, r in state.items()}


@pytest.mark.parametrize("seed", range(15))
def test_changes_of_key_and_partial_updates_end_the_same_in_any_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    changes, expected = draw_history(rng)
    target = Target(tmp_path)
    delivery = changes + rng.sample(changes, 5)
    rng.shuffle(delivery)
    position = 0
    while position < len(delivery):
        size = rng.randint(1, 10)
        target.apply(*delivery[position : position + size])
        position += size
        if rng.random() < 0.3:
            target.reopen()
    assert target.rows() == expected, f"seed {seed}"


@pytest.mark.parametrize(("narrow", "wide"), [("INT4", "REAL8"), ("INT4", "INT8"), ("INT4", "NUMERIC"), ("DATE", "DATETIME")])
@pytest.mark.parametrize("seed", range(4))
def test_changes_end_the_same_when_the_type_of_the_key_grows_between_them(
    tmp_path: Path, narrow: str, wide: str, seed: int
) -> None:
    rng = random.Random(seed)
    changes, expected = draw_history(rng)
    schemas = [
        version(number, replace(COLUMNS[0], type=kind, precision=12), *COLUMNS[1:]) for number, kind in ((1, narrow), (2, wide))
    ]

    def key_of(number: int, kind: str) -> Any:
        day = date(2024, 1, 1) + timedelta(number)
        midnight = datetime.combine(day, time(), UTC)
        return {"REAL8": float(number), "NUMERIC": Decimal(number), "DATE": day, "DATETIME": midnight}.get(kind, number)

    target = Target(tmp_path)
    rng.shuffle(changes)
    position = 0
    while position < len(changes):
        size, schema = rng.randint(1, 12), rng.choice(schemas[: 1 + (position > 10)])
        kind = schema.columns[0].type
        keys = ("ID", f"{OLD_PREFIX}ID")
        unit = [
            {**one, **{name: None if one[name] is None else key_of(one[name], kind) for name in keys}}
            for one in changes[position : position + size]
        ]
        target.apply(*unit, metadata=schema)
        position += size
        if rng.random() < 0.3:
            target.reopen()
    target.apply(change("INSERT", key_of(5000, wide), "last", "1.00", at=5000), metadata=schemas[1])
    rows = {key_of(key, wide): row for key, row in expected.items()} | {key_of(5000, wide): ("last", Decimal("1.00"), None)}
    assert target.rows() == rows, f"seed {seed}"


def test_a_table_without_a_key_takes_each_new_row_once_and_refuses_the_rest(tmp_path: Path) -> None:
    target = Target(tmp_path)
    unit = [change("REFRESH", 1, "a", at=1), change("REFRESH", 1, "a", at=2), change("INSERT", 1, "a", at=3)]
    target.apply(*unit, metadata=KEYLESS)
    applied = target.apply(*unit, change("INSERT", 2, "b", at=4), change("DELETE", 2, at=5), metadata=KEYLESS)
    assert applied.counts[ORDERS] == RowCounts(inserted=1)
    assert len(target.stored()) == 4
    assert list(applied.rejected) == [("cdc/data", 1, 5)]


def test_new_rows_of_a_table_without_a_key_keep_their_values_beside_one_that_a_load_removed(tmp_path: Path) -> None:
    target = Target(tmp_path, deletes="soft")
    removed = change("INSERT", 1, "a", at=1, logged_us=1)
    target.apply(removed, change("REFRESH", 2, "b", at=2, logged_us=10), metadata=KEYLESS)
    target.apply(change("INSERT", 3, "c", at=3, logged_us=20), metadata=KEYLESS)
    target.tables.remove_vanished_rows()
    target.apply(removed, change("INSERT", 4, "d", "1", "note", at=4, logged_us=21), metadata=KEYLESS)
    assert target.rows() == {1: ("a", None, None), 2: ("b", None, None), 3: ("c", None, None), 4: ("d", 1, "note")}
    assert [row["ID"] for row in target.stored() if row["_hs_deleted"]] == [1]


def test_new_rows_of_a_table_without_a_key_keep_their_values_beside_a_repeat_when_an_older_schema_added_columns(
    tmp_path: Path,
) -> None:
    newer = version(2, *KEYLESS.columns[:3])
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", "1", at=5), metadata=newer)
    target.apply(change("INSERT", 2, "b", "2", "note", at=2), metadata=KEYLESS)
    target.apply(change("INSERT", 1, "a", "1", at=5), change("INSERT", 3, "c", "3", at=6), metadata=newer)
    assert target.rows() == {1: ("a", 1, None), 2: ("b", 2, "note"), 3: ("c", 3, None)}


def test_a_deletion_that_is_forgotten_is_not_taken_for_a_row_that_never_was(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 2, "b", at=1), change("DELETE", 1, at=10))
    target.forget(kept_us=0, now_us=1)
    assert DeltaTable(str(target.tombstones)).to_pyarrow_table().num_rows == 0
    target.reopen()
    applied = target.apply(change("INSERT", 1, "late", at=5), change("UPDATE", 2, "b2", at=6), change("INSERT", 3, "c", at=11))
    assert target.names() == {2: "b2", 3: "c"}
    assert list(applied.rejected) == [("cdc/data", 1, 5)]
    assert "older than the stored deletions" in applied.rejected["cdc/data", 1, 5]


def test_deletions_are_remembered_for_as_long_as_is_asked_for(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("DELETE", 1, at=10))
    assert not target.forget(kept_us=80, now_us=100)
    target.apply(change("DELETE", 2, at=20))
    assert not target.forget(kept_us=80, now_us=179)
    target.reopen()
    assert target.forget(kept_us=80, now_us=180)
    applied = target.apply(change("INSERT", 1, "late", at=5), change("INSERT", 2, "late", at=15))
    assert list(applied.rejected) == [("cdc/data", 1, 5)]
    assert target.names() == {}, "the younger one is remembered still"
    assert target.forget(kept_us=80, now_us=259)
    assert list(target.apply(change("INSERT", 2, "late", at=16)).rejected) == [("cdc/data", 1, 16)]


def test_tombstones_dropped_by_hand_make_no_wrong_row(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("DELETE", 1, at=10))
    target.tables.close()
    shutil.rmtree(target.tombstones)
    target.reopen()
    applied = target.apply(change("INSERT", 1, "late", at=5))
    assert target.names() == {}
    assert list(applied.rejected) == [("cdc/data", 1, 5)]
    target.apply(change("DELETE", 2, at=12))
    target.apply(change("INSERT", 2, "late", at=11))
    assert target.names() == {}


ID, NAME, TOTAL, NOTE = COLUMNS


NAMES = (
    "order lines",
    "a.b",
    "A/B",
    "100%",
    "a%20b",
    "\u00e4\u4e2d \U0001f600",
    "..",
    'x"y\\z',
    "[a]^|*?",
    "tab\tline\n",
    "~$@+#",
)


def test_tables_of_any_names_are_written_apart_where_their_path_says(tmp_path: Path) -> None:
    tables = Target(tmp_path).tables
    for number, name in enumerate(NAMES):
        schema = replace(schema_of(METADATA), table=(name, name))
        for unit, rows in enumerate(
            ([change("INSERT", number, "a", at=1), change("DELETE", 0, at=2)], [change("UPDATE", 1, "b", at=3)])
        ):
            batch = pa.RecordBatch.from_pylist(rows, schema=schema.changes)
            assert not tables.apply({name: [batch]}, {name: schema}, "test", unit).failed
    for number, name in enumerate(NAMES):
        rows = pa.table(DeltaTable(str(table_path(tmp_path / "tables", name, name))).to_pyarrow_table()).to_pylist()
        assert {row["ID"]: row["name"] for row in rows} == {number: "a", 1: "b"} if number else {1: "b"}
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(
        ["order lines", "a.b", "A%u002FB", "100%u0025", "a%u002520b", "\u00e4\u4e2d %uD83D%uDE00", "%u002E%u002E",
         "x%u0022y%u005Cz", "%u005Ba%u005D%u005E%u007C%u002A%u003F", "tab%u0009line%u000A", "~$@+%u0023"]
    )  # fmt: skip


def test_one_failing_table_does_not_keep_the_others_from_their_changes(tmp_path: Path) -> None:
    target = Target(tmp_path)
    other = replace(METADATA, schema_id="B" * 32, lineage=replace(METADATA.lineage, table="broken"))
    (tmp_path / "tables" / "shop").mkdir(parents=True)
    (tmp_path / "tables" / "shop" / "broken").write_text("a file where the table should be")
    schemas = {schema.metadata.schema_id: schema for schema in (schema_of(METADATA), schema_of(other))}
    rows = pa.RecordBatch.from_pylist([change("INSERT", 1, "a", at=1)], schema=schema_of(METADATA).changes)
    changes = {schema_id: [rows] for schema_id in schemas}
    applied = target.tables.apply(changes, schemas, "unit", 1)
    assert set(applied.failed) == {("shop", "broken")}
    assert applied.held == {other.schema_id}
    assert target.names() == {1: "a"}
    (tmp_path / "tables" / "shop" / "broken").unlink()
    assert not target.tables.apply(changes, schemas, "unit", 1).failed
    assert DeltaTable(str(tmp_path / "tables" / "shop" / "broken")).to_pyarrow_table().num_rows == 1


def test_changes_go_on_if_the_source_drops_the_column_that_a_table_is_partitioned_by(tmp_path: Path) -> None:
    target = Target(tmp_path, partition_by=("name",))
    target.apply(change("INSERT", 1, "a", at=1))
    dropped = version(2, COLUMNS[0], *COLUMNS[2:])
    row = change("INSERT", 2, at=2)
    del row["name"]
    target.apply(row, metadata=dropped)
    assert target.names() == {1: "a", 2: None}
