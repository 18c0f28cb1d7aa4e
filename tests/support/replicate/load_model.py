"""What the tables of a history must come to, by a rule that is told from the facts of its messages alone.

The rule. Every message of a table has a place, and the table is what they come to in the order of their places:

    a change                        (its change sequence, 0, 0)
    a row of load k, logged at t    (floor of k, 1, t)
    the end of load k               (floor of k, 2, 0), where a change above its floor was logged after its last row

The floor of a load is the highest change sequence of the table that was logged before the load's first row, "" where there is
none. So a row of a load counts as later than every change at or below its floor, and as earlier than every one above it. At
the end of a load the rows go that have been written by nothing since its floor but changes at or below it.

No place depends on what was read when; so no order of reading can matter to a pipeline that keeps to the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, TypeAlias

from tests.support.replicate.load_histories import Fact, Key, Row

__all__ = ["UNKNOWABLE", "Place", "expected_rows", "placed_facts"]

Place: TypeAlias = tuple[str, int, int]
UNKNOWABLE: Final = object()
"""The value of a column that a change of key leaves out when what it was had been replaced before that change was read."""


def placed_facts(facts: Iterable[Fact], table: str) -> list[tuple[Place, Fact | None]]:
    """Return the facts of a table with their places, in their order; None for the end of a load."""
    of_table = [fact for fact in facts if fact.table == table]
    changes = [fact for fact in of_table if fact.sequence]
    floors: dict[int, str] = {}
    for load in {fact.load for fact in of_table if fact.load}:
        begun_us = min(fact.logged_us for fact in of_table if fact.load == load)
        floors[load] = max((fact.sequence for fact in changes if fact.logged_us < begun_us), default="")
    placed: list[tuple[Place, Fact | None]] = []
    placed += [((fact.sequence, 0, 0), fact) for fact in {fact.sequence: fact for fact in changes}.values()]
    placed += [((floors[fact.load], 1, fact.logged_us), fact) for fact in of_table if fact.load]
    for load, floor in floors.items():
        ended_us = max(fact.logged_us for fact in of_table if fact.load == load)
        if any(fact.logged_us > ended_us and fact.sequence > floor for fact in changes):
            placed.append(((floor, 2, 0), None))
    return sorted(placed, key=lambda pair: pair[0])


def expected_rows(facts: Iterable[Fact], table: str, unknown: Collection[str] = ()) -> dict[Key, Row]:
    """Return the rows of a table by key, from the facts of all messages in any order, repeats allowed.

    A change of key that leaves columns out takes them from the row that it moves, as far as that is known. Within a transaction
    several rows may be at one key, when all keys are shifted: a change of key takes the one that has been there longest.

    Args:
        facts: What the messages say.
        table: The table.
        unknown: Sequences of changes of key; of the columns that they leave out the value is UNKNOWABLE.
    """
    at: dict[Key, list[Row]] = {}
    written: dict[Key, Place] = {}
    transaction = 0
    for place, fact in placed_facts(facts, table):
        if fact is None or fact.transaction != transaction:
            at = {key: rows[-1:] for key, rows in at.items() if rows}
        if fact is None:
            at = {key: rows for key, rows in at.items() if written[key] > (place[0], 0, 0)}
        else:
            transaction = fact.transaction
            _apply(fact, at, unknown)
            written[fact.key] = place
    return {key: rows[-1] for key, rows in at.items() if rows}


def _apply(fact: Fact, at: dict[Key, list[Row]], unknown: Collection[str]) -> None:
    """Apply a fact to the rows at each key, the one that has been there longest first."""
    rows = at.setdefault(fact.key, [])
    if fact.operation == "DELETE":
        del rows[:1]
        return
    kept: dict[str, Any] = {}
    if fact.before is not None:
        left = at.get(fact.before, [])
        kept = left.pop(0) if left else {}
        if fact.sequence in unknown:
            kept = dict.fromkeys(fact.columns, UNKNOWABLE)
    elif rows:
        kept = rows.pop()
    if fact.operation != "UPDATE":
        kept = {}
    rows.append({name: kept.get(name) for name in fact.columns} | fact.values)
