"""The exceptions from the rule that a table is the same whatever the reading, and in which readings of a log each may occur.

A change of key that leaves columns out takes them from the row at its old key. Where a newer change of that key was merged
before the change of key was read, the table may have replaced them: then they are null, and the pipeline warns, naming the row.
So an exception needs all of these:

    a warning           that names the table and the change of key
    what was replaced   an earlier change of the row at the old key, merged before the change of key; or a row that came to that
                        key in the same transaction, which cannot be told from one that crosses a replaced one
    what replaced it    a later change of the old key, merged before the change of key too

In a history (type 2) a version that a load replaced may end at another place, where a change of key from before that load is
merged, for the first time or again, after the load's rows: what the keys came to before the load is forgotten when the load is
over. Its values, its beginning and all versions since are the same, but for a deletion since that finds that version ended: the
table keeps it as a version without duration.

A change is merged with the micro-batch that reads it, or, where it waits, with the one that reads the metadata of its schema or
(atomic) the last event of its transaction. Of another change it is known that it was not merged before it was read. So one change
can have been merged before another if it was read with an earlier micro-batch than the other was merged with; or with the same
one if the other had waited, because what waited is merged on its own.

Both are limitations in docs/replicate-guarantees.md: the late change of key that omits columns, and the end of an old version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.replicate.load_delivery import Cut
from tests.support.replicate.load_histories import Fact, History, Row
from tests.support.replicate.load_model import UNKNOWABLE, expected_rows, placed_facts

Warned = set[tuple[str, str]]
"""Table and sequence of the changes of key that the pipeline warned of."""


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.warned: Warned = set()

    def emit(self, record: logging.LogRecord) -> None:
        if "because change %s changed the key" in str(record.msg) and isinstance(record.args, tuple):
            table, _, _, sequence, _ = record.args
            self.warned.add((str(table), str(sequence)))


@contextmanager
def warned_moves() -> Iterator[Warned]:
    """Collect the changes of key that the pipeline warns of, while the block runs."""
    listener, logger = _Listener(), logging.getLogger("headstream.replicate")
    logger.addHandler(listener)
    try:
        yield listener.warned
    finally:
        logger.removeHandler(listener)


def unknown_moves(history: History, cut: Cut, table: str, warned: Warned, *, atomic: bool) -> set[str]:
    """Return the sequences of the changes of key whose left out columns may be null.

    Args:
        history: The history.
        cut: How it was read.
        table: The table.
        warned: What the pipeline warned of.
        atomic: Whether transactions are merged whole.
    """
    placed = placed_facts(history.facts, table)
    places = {fact.sequence: place for place, fact in placed if fact is not None and fact.sequence}
    order = _Order(history, cut, atomic=atomic)
    found = set()
    for move in (fact for _, fact in placed if fact is not None and fact.before is not None):
        if (table, move.sequence) not in warned:
            continue
        place = places[move.sequence]
        known = [
            other_place
            for other_place, other in placed
            if other is not None
            and move.before in (other.key, other.before)
            and other is not move
            and (order.may_precede(other, move) or _is_crossed(other, move))
        ]
        if min(known, default=place) < place < max(known, default=place):
            found.add(move.sequence)
    return found


def _is_crossed(other: Fact, move: Fact) -> bool:
    """Return whether a change of key brought a row to the key that a later one of its transaction leaves."""
    came = other.before is not None and other.key == move.before and other.sequence < move.sequence
    return came and other.transaction == move.transaction != 0


def late_moves_until(history: History, cut: Cut, table: str, *, atomic: bool) -> str:
    """Return up to which place the ends of versions may differ; "" where no change of key is merged late or again.

    It is the floor of the newest load that replaced what a change of key moved, and of which rows are merged before that change.
    No version that begins above it, nor one of the load's rows, is concerned.

    Args:
        history: The history.
        cut: How it was read.
        table: The table.
        atomic: As of unknown_moves().
    """
    placed = [(place, fact) for place, fact in placed_facts(history.facts, table) if fact is not None]
    rows = [(place, fact) for place, fact in placed if fact.load]
    order = _Order(history, cut, atomic=atomic)
    floors = [
        of_load[0]
        for place, move in placed
        if move.before is not None
        for of_load, row in rows
        if place < of_load and (order.may_precede(row, move) or order.is_last_read_after(row, move))
    ]
    return max(floors, default="")


def is_expected(history: History, rows: list[Row], table: str, unknown: set[str]) -> bool:
    """Return whether rows are the source's but for nulls in columns that cannot be known.

    Args:
        history: The history.
        rows: The rows that a table shows.
        table: The table.
        unknown: As unknown_moves() returns it.
    """
    expected = expected_rows(history.facts, table, unknown)
    found = {tuple(row[key] for key in history.keys[table]): row for row in rows}
    if len(found) != len(rows) or found.keys() != expected.keys():
        return False
    for key, row in expected.items():
        for name, value in row.items():
            allowed = [None, history.rows[table][key].get(name)] if value is UNKNOWABLE else [value]
            if found[key].get(name) not in allowed:
                return False
    return True


class _Order:
    """What is known of the order in which a reading of a log merges changes.

    Args:
        history: The history.
        cut: How it is read.
        atomic: Whether transactions are merged whole.
    """

    def __init__(self, history: History, cut: Cut, *, atomic: bool) -> None:
        self._read: dict[tuple[object, ...], int] = {}
        self._last_read: dict[tuple[object, ...], int] = {}
        self._merged: dict[tuple[object, ...], int] = {}
        self._transactions: dict[int, int] = {}
        described: dict[object, int] = {}
        for number, batch in enumerate(cut.batches):
            for message in batch:
                if message.describes is not None:
                    described[message.describes] = number  # of two schemas that look alike the later one
                if message.fact is not None:
                    self._read.setdefault(_identity(message.fact), number)
                    self._last_read[_identity(message.fact)] = number
        for fact in history.facts:
            known = max(self._read[_identity(fact)], described.get((fact.table, fact.columns), 0))
            self._merged[_identity(fact)] = known
            if atomic and fact.transaction:
                self._transactions[fact.transaction] = max(known, self._transactions.get(fact.transaction, 0))

    def may_precede(self, first: Fact, second: Fact) -> bool:
        """Return whether one change can have been merged before another."""
        read = self._read[_identity(second)]
        merged = max(self._merged[_identity(second)], self._transactions.get(second.transaction, 0))
        begun = self._read[_identity(first)]
        return begun < merged or (begun == merged > read)

    def is_last_read_after(self, first: Fact, second: Fact) -> bool:
        """Return whether the last reading of the second change comes after the first change was read."""
        return self._last_read[_identity(second)] > self._read[_identity(first)]


def _identity(fact: Fact) -> tuple[object, ...]:
    return (fact.table, fact.sequence) if fact.sequence else (fact.table, fact.key, fact.load, fact.logged_us)
