"""Unit tests of headstream.testing.source_history."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from headstream.testing import SourceChange, SourceDatabase


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
