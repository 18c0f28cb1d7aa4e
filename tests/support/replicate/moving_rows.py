"""Histories of a source table whose rows change their keys in every way, and what the table holds in the end.

The source is a dictionary of rows; a change is made of what happened to it. So what a table must hold is known without sorting
or merging any change.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

from tests.support.replicate.change_tables import change

VALUES = ("name", "total", "note")


class MovingSource:
    """A source table that lives through random transactions.

    Args:
        seed: The same seed gives the same history.
        keys: How many keys there are.
        whole_moves: Whether changes of key carry every column.
    """

    def __init__(self, seed: int, keys: int = 5, *, whole_moves: bool = False) -> None:
        self._whole_moves = whole_moves
        self._random = random.Random(seed)
        self._keys = keys
        self._at = 0
        self._transaction = 0
        self._events = 0
        self.rows: dict[int, dict[str, Any]] = {}
        self.last: dict[int, dict[str, Any]] = {}
        self.changes: list[dict[str, Any]] = []

    def live(self, transactions: int, most: int = 3) -> None:
        """Go through some transactions of a few statements each, at most a number."""
        statements = [self._insert, self._update, self._update, self._delete, self._move, self._shift, self._swap, self._replace]
        for _ in range(transactions):
            self._transaction += 1
            self._events = 0
            for _ in range(self._random.randint(1, most)):
                self._random.choice(statements)()

    def _add(self, operation: str, key: int, row: dict[str, Any], present: set[str] | None, old: int | None) -> None:
        self._at += 1
        self._events += 1
        shown = [row[name] if present is None or name in present else None for name in VALUES]
        mask = None if present is None else {"ID", *present}
        made = change(operation, key, *shown, at=self._at, present=mask, old=old)
        self.changes.append({**made, "_hs_transaction": f"T{self._transaction}", "_hs_event": self._events})

    def _row(self) -> dict[str, Any]:
        return {"name": f"n{self._at + 1}", "total": str(self._at + 1), "note": f"o{self._at + 1}"}

    def _written(self, before: dict[str, Any]) -> tuple[dict[str, Any], set[str] | None]:
        """Return a row after an update, and which columns the update carries; None: all of them."""
        fresh = self._row()
        if self._random.random() < 0.4:
            return fresh, None
        present = set(self._random.sample(VALUES, self._random.randint(0, 2)))
        return {**before, **{name: fresh[name] for name in present}}, present

    def _insert(self) -> None:
        free = [key for key in range(self._keys) if key not in self.rows]
        if free:
            key = self._random.choice(free)
            self.rows[key] = self._row()
            self._add("INSERT", key, self.rows[key], None, None)

    def _update(self) -> None:
        if self.rows:
            key = self._random.choice(sorted(self.rows))
            self.rows[key], present = self._written(self.rows[key])
            self._add("UPDATE", key, self.rows[key], present, None)

    def _delete(self) -> None:
        if self.rows:
            key = self._random.choice(sorted(self.rows))
            self.last[key] = self.rows.pop(key)
            self._add("DELETE", key, self._row(), None, None)

    def _replace(self) -> None:
        """A row takes the key of another that is deleted just before."""
        if len(self.rows) > 1:
            gone, key = self._random.sample(sorted(self.rows), 2)
            self.last[gone] = self.rows.pop(gone)
            self._add("DELETE", gone, self._row(), None, None)
            self._rekey([(key, gone)])

    def _move(self) -> None:
        free = [key for key in range(self._keys) if key not in self.rows]
        if free and self.rows:
            self._rekey([(self._random.choice(sorted(self.rows)), self._random.choice(free))])

    def _swap(self) -> None:
        if len(self.rows) > 1:
            one, other = self._random.sample(sorted(self.rows), 2)
            self._rekey([(one, other), (other, one)])

    def _shift(self) -> None:
        """UPDATE t SET id = id + 1, of all rows, whose keys the statement changes in any order."""
        if self.rows and max(self.rows) < self._keys + 3:
            moves = [(key, key + 1) for key in self.rows]
            self._random.shuffle(moves)
            self._rekey(moves)

    def _rekey(self, moves: list[tuple[int, int]]) -> None:
        leaving = {before: self.rows.pop(before) for before, _ in moves}
        for before, after in moves:
            self.rows[after], present = (self._row(), None) if self._whole_moves else self._written(leaving[before])
            self._add("UPDATE", after, self.rows[after], present, before)
        self.last.update({before: row for before, row in leaving.items() if before not in self.rows})

    def expected(self) -> dict[int, tuple[Any, ...]]:
        """Key -> name, total and note of the rows that are there."""
        return {key: _shown(row) for key, row in self.rows.items()}

    def expected_deleted(self) -> dict[int, tuple[Any, ...]]:
        """Key -> the last values of the rows that are not."""
        return {key: _shown(row) for key, row in self.last.items() if key not in self.rows}


def _shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["name"], Decimal(row["total"]).quantize(Decimal("0.01")), row["note"]
