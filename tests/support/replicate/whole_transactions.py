"""Which transactions a reader of a Delta table could have seen in part: an oracle over every version of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from headstream.testing import SourceDatabase, SourceTable


class Effect(NamedTuple):
    """What a transaction does last to a row: the row's key and the change's sequence."""

    key: tuple[Any, ...]
    sequence: str


def halves_in_rows(path: Path, source: SourceDatabase, table: SourceTable) -> list[str]:
    """Return which transactions are in some version of a table of type 2, or of type 1 with soft deletions, in part."""
    effects = _effects_of(source, table)
    found = []
    for number, rows in _versions_of(path):
        if rows and "_hs_valid_from" in rows[0]:
            there = {row["_hs_valid_from"] for row in rows} | {row["_hs_valid_to"] for row in rows}
            stands = {n: {one.sequence in there for one in parts} for n, parts in effects.items()}
        else:  # a row that something newer has changed since says nothing of what was before
            newest = {tuple(row[name] for name in table.key_columns): row["_hs_sequence"] for row in rows}
            stands = {
                n: {newest.get(one.key) == one.sequence for one in parts if newest.get(one.key, "") <= one.sequence}
                for n, parts in effects.items()
            }
        found += [f"transaction {n} in version {number} of {table.name}" for n, is_there in stands.items() if len(is_there) > 1]
    return found


def halves_in_changes(path: Path, source: SourceDatabase, table: SourceTable) -> list[str]:
    """Return which transactions are in some version of a change table in part."""
    counts: dict[str, int] = {}
    for change in source.changes:
        if change.table is table and change.transaction:
            name = f"{change.transaction:032X}"
            counts[name] = counts.get(name, 0) + 1
    found = []
    for number, rows in _versions_of(path):
        seen: dict[str, set[str]] = {}
        for row in rows:
            seen.setdefault(row["_hs_transaction"], set()).add(row["_hs_sequence"])
        halves = [name for name, count in counts.items() if len(seen.get(name, ())) not in (0, count)]
        found += [f"transaction {name} in version {number} of the changes of {table.name}" for name in halves]
    return found


def _effects_of(source: SourceDatabase, table: SourceTable) -> dict[int, list[Effect]]:
    """Transaction -> what it does to the rows of a table; updates that change nothing do nothing."""
    found: dict[int, dict[tuple[Any, ...], str]] = {}
    for change in source.changes:
        if change.table is table and change.transaction and change.before != change.after:
            for row in (change.before, change.after):
                if row is not None:
                    key = tuple(row[name] for name in table.key_columns)
                    found.setdefault(change.transaction, {})[key] = change.change_sequence
    return {number: [Effect(*pair) for pair in rows.items()] for number, rows in found.items()}


def _versions_of(path: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Every version of a Delta table: its number and rows."""
    for number in range(DeltaTable(str(path)).version() + 1):
        table = DeltaTable(str(path), version=number)
        yield number, pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t")).to_pylist()
