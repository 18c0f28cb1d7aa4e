"""What the tables of a history must come to, by a rule that is told from the facts of its messages alone.

The rule. Every message of a table has a place, and the table is what they come to in the order of their places:

    a change                        (its change sequence, 0, 0)
    a row of load k, logged at t    (floor of k, 1, t)
    the end of load k               (floor of k, 2, 0), where there is a change above its floor

Rows no further apart than LOAD_GAP_US are of one load. After a longer pause a new one begins if in that pause, more than
LOAD_GAP_US before the row, a change was logged that is newer than every one logged before the pause. The floor of a load is the
highest change sequence of the table that was logged before the load's first row, "" for rows before which no load has begun. So
a row of a load counts as later than every change at or below its floor, and as earlier than every one above it. At the end of a
load the rows go that have been written by nothing since its floor but changes at or below it. An update whose change mask says
that it changed nothing writes nothing, but it has its place in the order.

No place depends on what was read when; so no order of reading can matter to a pipeline that keeps to the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, TypeAlias

from tests.support.replicate.load_tables import LOAD_GAP_US, Fact, Key, Row

Place: TypeAlias = tuple[str, int, int]
UNKNOWABLE: Final = object()
"""The value of a column that a change of key leaves out when what it was had been replaced before that change was read."""


def placed_facts(facts: Iterable[Fact], table: str) -> list[tuple[Place, Fact | None]]:
    """Return the facts of a table with their places, in their order; None for the end of a load."""
    of_table = [fact for fact in facts if fact.table == table]
    changes = [fact for fact in of_table if fact.sequence]
    floors = _floors(of_table, changes)
    placed: list[tuple[Place, Fact | None]] = []
    placed += [((fact.sequence, 0, 0), fact) for fact in {fact.sequence: fact for fact in changes}.values()]
    placed += [((floors[fact.logged_us], 1, fact.logged_us), fact) for fact in of_table if fact.load]
    ended = {floor for floor in floors.values() if any(fact.sequence > floor for fact in changes)}
    return sorted([*placed, *(((floor, 2, 0), None) for floor in ended)], key=lambda pair: pair[0])


def _floors(facts: list[Fact], changes: list[Fact]) -> dict[int, str]:
    """Return the log time of each row of a load -> the load's floor; each load has another one."""

    def highest(before_us: int) -> str:
        return max((fact.sequence for fact in changes if fact.logged_us < before_us), default="")

    floors: dict[int, str] = {}
    floor, last_us = "", -1
    for at_us in sorted({fact.logged_us for fact in facts if fact.load}):
        if at_us - last_us > LOAD_GAP_US:
            known = highest(last_us)
            if any(last_us <= fact.logged_us < at_us - LOAD_GAP_US and fact.sequence > known for fact in changes):
                floor = highest(at_us)
        floors[at_us] = floor
        last_us = at_us
    return floors


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
            if not fact.idle:
                _apply(fact, at, unknown)
                written[fact.key] = place
    return {key: rows[-1] for key, rows in at.items() if rows}


def _apply(fact: Fact, at: dict[Key, list[Row]], unknown: Collection[str]) -> None:
    """Apply a fact to the rows at each key, the one that has been there longest first."""
    rows = at.setdefault(fact.key, [])
    if fact.operation == "DELETE":
        rows.clear()
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
