"""The simulated database: the same for the same seed, complete in types and in what can happen to a row."""

from __future__ import annotations

import dataclasses
import doctest
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from headstream.errors import InvalidInputError, NotFoundError
from headstream.testing import (
    LOB_TYPES,
    REPLICATE_TYPES,
    SHOP_TABLES,
    CaptureOptions,
    SourceChange,
    SourceColumn,
    SourceDatabase,
    SourceTable,
    digest_rows,
    source_database,
)

KEY = SourceColumn("id", "INT4", key_position=1, nullable=False)
NAME = SourceColumn("name", "STRING", length=20)


def test_source_database_gives_the_same_messages_when_the_seed_is_the_same() -> None:
    options = CaptureOptions(partial_images=True)
    first, again, other = (SourceDatabase(seed, rows=10, transactions=30) for seed in (1, 1, 2))
    messages = list(first.capture(options))
    assert messages == list(first.capture(options)) == list(again.capture(options))
    assert messages != list(other.capture(options))
    assert first.digest("LAB", "readings") == again.digest("LAB", "readings") != other.digest("LAB", "readings")
    assert {m.schema_id for m in messages}.isdisjoint(m.schema_id for m in other.capture(options))


def test_shop_tables_have_every_type_in_every_form() -> None:
    assert len(SHOP_TABLES) >= 5
    assert len(REPLICATE_TYPES) == 21
    for form, logical_types in (("avro", True), ("avro", False), ("json", False)):
        types = {
            column.type
            for table in SHOP_TABLES
            if (table.form, table.has_logical_types) == (form, logical_types)
            for columns in table.versions
            for column in columns
        }
        assert types == REPLICATE_TYPES
    assert any(" " in column.name for table in SHOP_TABLES for column in table.versions[0])
    assert {len(table.key_columns) for table in SHOP_TABLES} == {1, 2}


def test_source_database_has_every_kind_of_change_and_value() -> None:
    source = SourceDatabase(3, rows=40, transactions=400)
    seen: Counter[str] = Counter()
    vacated: dict[tuple[str, Any], tuple[str, int]] = {}  # how and in which transaction a key lost its row
    values: dict[str, set[Any]] = {}
    for change in source.changes:
        table = change.table
        old, new = (_key(change, row) for row in (change.before, change.after))
        kind = change.operation
        if kind == "UPDATE":
            kind = "touch" if change.before == change.after else "UPDATE" if old == new else "key change"
        seen[kind] += 1
        if change.after is not None and new in vacated:
            how, transaction = vacated.pop(new)
            seen[f"{kind} to a key after its {how}, {'same' if transaction == change.transaction else 'later'}"] += 1
        if change.before is not None and old != new:
            vacated[old] = (kind, change.transaction)
        for column in table.versions[change.version]:
            if change.after is not None and len(values.setdefault(column.type, set())) < 20_000:
                values[column.type].add(change.after[column.name])
    for kind in ("REFRESH", "INSERT", "UPDATE", "touch", "key change", "DELETE"):
        assert seen[kind] > 20
    assert seen["INSERT to a key after its DELETE, same"] > 5
    for kind in ("INSERT", "key change"):
        for how in ("DELETE", "key change"):
            assert seen[f"{kind} to a key after its {how}, later"] > 0
    assert all(None in found for found in values.values())
    assert {-(1 << 63), (1 << 63) - 1} <= values["INT8"]
    assert {-128, 127} <= values["INT1"]
    assert (1 << 32) - 1 in values["UINT4"]
    assert Decimal((1 << 64) - 1) in values["UINT8"]
    assert min(number for number in values["NUMERIC"] if number is not None) < -(10**13)
    assert {"", "🎈🚀"} <= values["WSTRING"]
    assert b"" in values["BLOB"]
    assert datetime.max.replace(tzinfo=UTC) in values["DATETIME"]
    assert any(moment is not None and moment < datetime(1970, 1, 1, tzinfo=UTC) for moment in values["DATETIME"])


def _key(change: SourceChange, row: dict[str, Any] | None) -> tuple[str, Any]:
    return change.table.qualified_name, row and tuple(row[name] for name in change.table.key_columns)


def test_source_database_alters_a_table_half_way() -> None:
    source = SourceDatabase(9, rows=30, transactions=100)
    changes = [change for change in source.changes if change.table.name == "customers"]
    altered = next(change for change in changes if change.version == 1)
    assert (altered.operation, altered.transaction, altered.event_counter) == ("INSERT", 51, 1)
    assert [change.version for change in changes] == sorted(change.version for change in changes)
    state = source.final_state("SHOP", "customers").values()
    assert all(list(row)[-1] == "tier" for row in state)
    assert any(row["tier"] is None for row in state)
    assert any(row["tier"] is not None for row in state)
    visits = [row["visits"] for row in SourceDatabase(9, rows=30, transactions=400).final_state("SHOP", "customers").values()]
    assert any(isinstance(count, int) and abs(count) > 1 << 31 for count in visits)


def test_source_database_scales_by_its_arguments() -> None:
    empty = SourceDatabase(rows=0, transactions=0)
    assert empty.changes == ()
    assert empty.final_state("SHOP", "orders") == {}
    assert [message.role for message in empty.capture()] == ["metadata"] * len(SHOP_TABLES)
    loaded = SourceDatabase(rows=4, transactions=0)
    assert len(loaded.changes) == 4 * len(SHOP_TABLES)
    assert len(loaded.versions("SHOP", "customers")) == 1
    busy = SourceDatabase(rows=0, transactions=3000, largest_transaction=1, tables=SHOP_TABLES[:2])
    assert 3000 <= len(busy.changes) <= 3200
    assert {change.event_counter for change in busy.changes} == {1, 2}


def test_source_database_takes_other_tables() -> None:
    wide = tuple(SourceColumn(f"c{number}", "INT4") for number in range(100))
    table = SourceTable("S", "wide", versions=((KEY, *wide), (KEY, NAME), (KEY,)))
    source = SourceDatabase(4, tables=[table], rows=5, transactions=30)
    assert {change.version for change in source.changes} == {0, 1, 2}
    assert next(change.transaction for change in source.changes if change.version == 1) == 11
    assert {tuple(row) for row in source.final_state("S", "wide").values()} == {("id",)}
    assert [len(version.columns) for version in source.versions("S", "wide")] == [101, 2, 1]


def test_source_database_digest_is_that_of_its_rows() -> None:
    source = SourceDatabase(4, rows=20, transactions=40)
    rows = list(source.final_state("LAB", "samples").values())
    assert digest_rows(reversed(rows), ["id"]) == source.digest("LAB", "samples")
    rows[3] = {**rows[3], "tiny": 1 if rows[3]["tiny"] != 1 else 2}
    assert digest_rows(rows, ["id"]) != source.digest("LAB", "samples")


def test_source_database_refuses_what_it_cannot_be() -> None:
    with pytest.raises(InvalidInputError):
        SourceDatabase(rows=-1)
    with pytest.raises(InvalidInputError):
        SourceDatabase(largest_transaction=0)
    with pytest.raises(InvalidInputError):
        SourceDatabase(tables=[])
    with pytest.raises(InvalidInputError):
        SourceDatabase(tables=[SHOP_TABLES[0], SHOP_TABLES[0]])
    with pytest.raises(NotFoundError, match=r"SHOP\.nothing.*SHOP\.orders"):
        SourceDatabase().final_state("SHOP", "nothing")


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ((), "at least one version"),
        (((NAME,),), "primary key"),
        (((KEY, KEY),), "duplicate column name"),
        (((dataclasses.replace(KEY, key_position=2),),), "key_position 1, 2"),
        (((dataclasses.replace(KEY, nullable=True),),), "cannot be in a key"),
        (((dataclasses.replace(KEY, type="CLOB"),),), "cannot be in a key"),
        (((KEY, SourceColumn("x", "INT3")),), "unknown type"),
        (((KEY, SourceColumn("x", "NUMERIC", precision=39)),), "precision"),
        (((KEY, SourceColumn("x", "NUMERIC", precision=4, scale=5)),), "scale"),
        (((KEY,), (dataclasses.replace(KEY, type="INT8"),)), "differ between versions"),
    ],
)
def test_source_table_refuses_what_cannot_be_simulated(versions: tuple[tuple[SourceColumn, ...], ...], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{reason}.*S\.t"):
        SourceTable("S", "t", versions=versions)


def test_source_database_example_runs() -> None:
    result = doctest.testmod(source_database)
    assert result.attempted >= 5
    assert result.failed == 0


def test_lob_types_are_types() -> None:
    assert LOB_TYPES < REPLICATE_TYPES
