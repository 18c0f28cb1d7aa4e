"""The history of the simulated source: a full load, then transactions of changes, as plain values.

    load          the rows of one table after another, without sequence, time or transaction
    transactions  1 to `largest_transaction` changes, distributed over all tables by weight:
                  insert (of a new, deleted or vacated key), update of one to three columns,
                  update without changes, change of the primary key (to a new or a vacated key),
                  delete, delete and re-insert of one key within the transaction
    alterations   version v of n of a table begins after v/n of the transactions, with an insert into the table;
                  rows retain the columns that the new version has, and get null for added columns

The history is independent of messages: `source_capture` encodes its changes as messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, NamedTuple, TypeAlias

from headstream.testing.source_tables import Row, SourceTable, SourceValue
from headstream.testing.source_values import ValueMaker, make_key, value_maker

Key: TypeAlias = tuple[SourceValue, ...]

_FIRST_COMMIT: Final = datetime(2024, 1, 15, 8, 0, tzinfo=UTC)
_RETURN_SHARE: Final = 0.3  # share of vacated keys among the keys of inserted rows


class SourceChange(NamedTuple):
    """One row's change.

    `before` is the complete row before the change (None for INSERT and REFRESH), and `after` is the complete row after the change
    (None for DELETE). A REFRESH has change number, transaction and event counter 0 and no commit time.
    Rows are shared between changes: do not modify them.
    """

    table: SourceTable
    version: int
    operation: str
    before: Row | None
    after: Row | None
    change_number: int
    transaction: int
    event_counter: int
    last_event: bool
    committed: datetime | None

    @property
    def change_sequence(self) -> str:
        """The sort key of changes: commit time to the hundredth of a second, and change number; "" in a full load."""
        return "" if self.committed is None else f"{format_commit(self.committed)}{self.change_number:019d}"


def format_commit(committed: datetime) -> str:
    """Format a commit time as the first 16 digits of a change sequence."""
    return f"{committed:%Y%m%d%H%M%S}{committed.microsecond // 10_000:02d}"


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """All changes in source order; for each qualified table name, the last version and the final rows by key."""

    changes: tuple[SourceChange, ...]
    last_versions: dict[str, int]
    rows: dict[str, dict[Key, Row]]


class _Draft(NamedTuple):
    """A change in a transaction that is still open."""

    table: SourceTable
    version: int
    operation: str
    before: Row | None
    after: Row | None


class _TableState:
    """The current rows of one table. A random row is selected or removed in constant time."""

    def __init__(self, table: SourceTable) -> None:
        self.table = table
        self.version = 0
        self.rows: dict[Key, Row] = {}
        self._keys: list[Key] = []
        self._places: dict[Key, int] = {}
        self._vacated: list[Key] = []
        self._next_key = 0
        self._begin_version()

    def _begin_version(self) -> None:
        table = self.table
        self._key_columns = table.key_columns
        self._makers: list[tuple[str, ValueMaker | None]] = []
        for column in table.versions[self.version]:
            maker = None if column.key_position else value_maker(column, milliseconds=table.has_logical_types)
            self._makers.append((column.name, maker))
        self._changeable = [(name, maker) for name, maker in self._makers if maker is not None]

    def alter(self) -> None:
        """Switch to the table's next version: every row gets the new version's columns, with null for added columns."""
        self.version += 1
        self._begin_version()
        self.rows = {key: {name: row.get(name) for name, _ in self._makers} for key, row in self.rows.items()}

    def __len__(self) -> int:
        return len(self._keys)

    def insert(self, random: Random, operation: str = "INSERT", key: Key | None = None) -> _Draft:
        """Add a row, at an unused key by default."""
        free = self._free_key(random) if key is None else key
        keys = dict(zip(self._key_columns, free, strict=True))
        row = {name: keys[name] if maker is None else maker(random) for name, maker in self._makers}
        self._add(free, row)
        return _Draft(self.table, self.version, operation, None, row)

    def update(self, random: Random) -> _Draft:
        """Set one to three columns of a row to random values, which can equal the old values."""
        key = self._any_key(random)
        before = self.rows[key]
        after = dict(before)
        for _ in range(1 + int(random.random() * 3) if self._changeable else 0):
            name, maker = self._changeable[int(random.random() * len(self._changeable))]
            after[name] = maker(random)
        self.rows[key] = after
        return _Draft(self.table, self.version, "UPDATE", before, after)

    def touch(self, random: Random) -> _Draft:
        """Update a row without changing its values."""
        row = self.rows[self._any_key(random)]
        return _Draft(self.table, self.version, "UPDATE", row, row)

    def change_key(self, random: Random) -> _Draft:
        """Move a row to an unused key."""
        old, new = self._any_key(random), self._free_key(random)
        before = self.rows[old]
        after = {**before, **dict(zip(self._key_columns, new, strict=True))}
        self._remove(old)
        self._vacated.append(old)
        self._add(new, after)
        return _Draft(self.table, self.version, "UPDATE", before, after)

    def delete(self, random: Random) -> _Draft:
        """Delete a row."""
        key = self._any_key(random)
        row = self._remove(key)
        self._vacated.append(key)
        return _Draft(self.table, self.version, "DELETE", row, None)

    def replace(self, random: Random) -> list[_Draft]:
        """Delete a row and insert another row with the same key."""
        key = self._any_key(random)
        row = self._remove(key)
        return [_Draft(self.table, self.version, "DELETE", row, None), self.insert(random, key=key)]

    def _any_key(self, random: Random) -> Key:
        return self._keys[int(random.random() * len(self._keys))]

    def _free_key(self, random: Random) -> Key:
        if self._vacated and random.random() < _RETURN_SHARE:
            place = int(random.random() * len(self._vacated))
            self._vacated[place], self._vacated[-1] = self._vacated[-1], self._vacated[place]
            return self._vacated.pop()
        self._next_key += 1
        return make_key(self.table, self._next_key - 1)

    def _add(self, key: Key, row: Row) -> None:
        self._places[key] = len(self._keys)
        self._keys.append(key)
        self.rows[key] = row

    def _remove(self, key: Key) -> Row:
        place, last = self._places.pop(key), self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place
        return self.rows.pop(key)


def simulate_history(
    tables: Sequence[SourceTable],
    *,
    seed: int,
    rows: int,
    transactions: int,
    largest_transaction: int,
    key_changes: bool = True,
) -> SourceHistory:
    """Generate the history of a source database.

    Args:
        seed: The same seed and arguments produce the same history.
        rows: Number of rows per table in the full load, from 0.
        transactions: Number of transactions after the full load, from 0.
        largest_transaction: Maximum number of changes per transaction, from 1. A delete with its re-insert counts as one change,
            as does the insert after an alteration.
        key_changes: Whether primary keys change; if False, an update takes the place of each key update.
    """
    random = Random(seed)
    states = [_TableState(table) for table in tables]
    changes = [SourceChange(*state.insert(random, "REFRESH"), 0, 0, 0, False, None) for state in states for _ in range(rows)]
    alterations = _plan_alterations(states, transactions)
    weighted = [state for state in states for _ in range(state.table.weight)]
    committed = _FIRST_COMMIT
    change_number = 0
    for transaction in range(1, transactions + 1):
        committed += timedelta(milliseconds=1 + int(random.random() * 2000))
        drafts: list[_Draft] = []
        for state in alterations.get(transaction, ()):
            state.alter()
            drafts.append(state.insert(random))
        for _ in range(max(0, 1 + int(random.random() * largest_transaction) - len(drafts))):
            drafts += _draw_change(weighted[int(random.random() * len(weighted))], random, key_changes=key_changes)
        for counter, draft in enumerate(drafts, start=1):
            change_number += 1
            changes.append(SourceChange(*draft, change_number, transaction, counter, counter == len(drafts), committed))
    last_versions = {state.table.qualified_name: state.version for state in states}
    return SourceHistory(tuple(changes), last_versions, {state.table.qualified_name: state.rows for state in states})


def _plan_alterations(states: Sequence[_TableState], transactions: int) -> dict[int, list[_TableState]]:
    plan: dict[int, list[_TableState]] = {}
    for state in states:
        count = len(state.table.versions)
        for version in range(1, count):
            plan.setdefault(1 + version * transactions // count, []).append(state)
    return plan


# The share of each kind of change; all other changes are updates.
_INSERTS: Final = 0.20
_DELETES: Final = 0.10
_REPLACEMENTS: Final = 0.03
_KEY_CHANGES: Final = 0.05
_TOUCHES: Final = 0.05
_OTHERS: Final[tuple[tuple[float, Callable[[_TableState, Random], _Draft]], ...]] = (
    (_DELETES, _TableState.delete),
    (_KEY_CHANGES, _TableState.change_key),
    (_TOUCHES, _TableState.touch),
    (1.0, _TableState.update),
)


def _draw_change(state: _TableState, random: Random, *, key_changes: bool) -> list[_Draft]:
    chance = random.random()
    if not len(state) or chance < _INSERTS:
        return [state.insert(random)]
    chance -= _INSERTS
    if chance < _REPLACEMENTS:
        return state.replace(random)
    chance -= _REPLACEMENTS
    for share, draw in _OTHERS:
        if chance < share:
            return [state.update(random) if draw is _TableState.change_key and not key_changes else draw(state, random)]
        chance -= share
    raise AssertionError("the shares must sum to 1")
