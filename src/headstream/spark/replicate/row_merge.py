"""The merge of changes into rows: a join of facts, so that a row depends on which changes were applied and on nothing else. Pure.

What is known of one key of a table is

    for each column     the value with the highest version, a version being the place of the change that wrote it
    its existence       the highest place of an insert or update, and the highest place of a deletion

Joining two of these takes the higher one of each pair. A maximum is commutative, associative and idempotent, so the join is,
and what changes come to does not depend on their order, on the micro-batches they come in, or on repeats. The rest follows:

    the row exists      if its highest insert or update is not below its highest deletion
    a column's value    counts if its version is not below the highest deletion; otherwise the column is null
    an insert           writes every column (a full load's row too), those that its schema does not have with null
    an update           writes the columns that it carries, at most those of its schema: what is dropped at the source stays

A row's columns mostly come from one whole image and few from other changes, so a Row has the place of its newest whole image
(`base`), and the place of each column that is not of it.

A change of key takes a row from one key to another, so it is no fact about one key. The keys that such changes connect are told
together: replay() sorts all their changes and goes through them once, which is a function of their set too.

    departure   takes the row that has been at the key longest, counting what stood there before the transaction
    arrival     puts it to the new key with its columns; the change's own columns are newer than those
    in between  a key may have several rows within one transaction (`id = id + 1`, a swap); the newest one remains

Values are not touched here: `source` is the number of the row, in a table that the caller has, that a value is taken from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.spark.replicate.versions import ABSENT_VERSION, MAX_SEQUENCE_CHARACTERS, moved_version

__all__ = ["NO_SOURCE", "Event", "Key", "KeyState", "Row", "Written", "join_key", "replay", "sequence_of"]

Key: TypeAlias = tuple[Any, ...]
"""The values of a row's key columns."""
NO_SOURCE: Final = -1
"""The source of a value that no change has written: null."""
_FILL: Final = "-"


class Written(NamedTuple):
    """Which change wrote a value (see versions.py), and the number of the row that has it."""

    version: str
    source: int


_ABSENT: Final = Written(ABSENT_VERSION, NO_SOURCE)


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a row's columns.

    Args:
        base: The newest whole image.
        columns: Those that are not of it, by name: written after it, or not carried by it.
    """

    base: Written = _ABSENT
    columns: dict[str, Written] = field(default_factory=dict)

    def at(self, name: str) -> Written:
        """Return what is known of one column."""
        return self.columns.get(name, self.base)

    @property
    def version(self) -> str:
        """The highest version among its columns."""
        return max([self.base.version, *(written.version for written in self.columns.values())])

    def join(self, other: Row) -> Row:
        """Return what both know: of each column the newer; of equal ones what this row has."""
        base = self.base if self.base.version >= other.base.version else other.base
        if not self.columns and not other.columns:
            return self if base is self.base else other
        columns = {}
        for name in {**self.columns, **other.columns}:
            mine, theirs = self.at(name), other.at(name)
            newer = mine if mine.version >= theirs.version else theirs
            if newer.version != base.version:
                columns[name] = newer
        return Row(base, columns)

    def since(self, deletion: str) -> Row:
        """Return the row without the columns that are older than a deletion; one written at its sequence comes after it."""
        if not deletion:
            return self
        floor = deletion.ljust(MAX_SEQUENCE_CHARACTERS, _FILL)  # below the versions that a change of key of that sequence brings
        base = self.base if self.base.version >= floor else _ABSENT
        if base is self.base and not self.columns:
            return self
        columns = {name: written if written.version >= floor else _ABSENT for name, written in self.columns.items()}
        return Row(base, {name: written for name, written in columns.items() if written.version != base.version})

    def moved(self, sequence: str) -> Row:
        """Return the row as a change of its key of that sequence brings it to the new key."""
        base = Written(moved_version(self.base.version, sequence), self.base.source)
        columns = {name: Written(moved_version(w.version, sequence), w.source) for name, w in self.columns.items()}
        return Row(base, columns)


def sequence_of(version: str) -> str:
    """Return the place of the change that a version names; "" for that of a column which nobody has written."""
    return (
        version[:MAX_SEQUENCE_CHARACTERS].rstrip(f"{_FILL} ")
        if version[MAX_SEQUENCE_CHARACTERS] == " "
        else version.rstrip(_FILL)
    )


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one key, or of a row's key.

    Args:
        kind: What happens. An upsert is an insert, an update, a row of a full load, or all that is known of a stored row.
        key: The row's key; of a move the key after it.
        sequence: Its place.
        row: The columns that it carries.
        before: The key before a move.
        transaction: Names its transaction; "" if the source does not say.
        number: Its number within the transaction, from 1; 0 if the source does not say.
    """

    kind: Literal["delete", "move", "upsert"]
    key: Key
    sequence: str
    row: Row = Row()
    before: Key | None = None
    transaction: str = ""
    number: int = 0

    @property
    def order(self) -> tuple[str, bool, int, str]:
        """The order in which events take effect: at one sequence deletions come first."""
        return self.sequence, self.kind != "delete", self.number, repr((self.before, self.key))

    @property
    def unit(self) -> str:
        """Names the changes that take effect together. A transaction's id may be used again, its commit time tells them apart."""
        return f"{self.transaction} {self.sequence[:16]}" if self.transaction else self.sequence


@dataclass(frozen=True, slots=True)
class KeyState:
    """What the changes of one key come to.

    Args:
        deletion: The place of the highest deletion; "" for none.
        upsert: The place of the highest insert or update of the row; "" if there is no row.
        row: Its columns; of a deleted row the last ones.
        floor: The highest deletion that the row's columns came after; "" for none.
    """

    deletion: str
    upsert: str
    row: Row
    floor: str = ""

    @property
    def exists(self) -> bool:
        """Whether the row is there."""
        return bool(self.upsert)


def join_key(deletions: Iterable[str], upserts: Iterable[tuple[str, Row]]) -> KeyState | None:
    """Return what the facts about one key come to; None if there are none.

    Args:
        deletions: Places of deletions.
        upserts: Places of inserts and updates, and the columns they carry.
    """
    deleted = sorted(filter(None, deletions))
    found = list(upserts)
    newest = max((place for place, _ in found), default="")
    highest = deleted[-1] if deleted else ""
    if not found and not highest:
        return None
    # Of a deleted row the last columns are those since the deletion before that one.
    floor = max((place for place in deleted if place <= newest), default="") if found else ""
    row = Row()
    for _, other in found:
        row = row.join(other.since(floor))
    exists = bool(found) and newest >= highest
    return KeyState(highest, newest if exists else "", row, floor)


@dataclass(slots=True)
class _Occupant:
    """A row at a key: since which place, its newest upsert, and the unit that brought it there."""

    row: Row
    born: str
    upsert: str
    unit: str


@dataclass(slots=True)
class _Place:
    """A key while its history is told: the rows at it, oldest first, its highest deletion, and the row that left it last."""

    occupants: list[_Occupant] = field(default_factory=list)
    deletion: str = ""
    last: Row = Row()

    def enter(self, unit: str) -> None:
        """Begin a unit, or go on with it: of the rows from before it only the newest remains."""
        others = [one for one in self.occupants if one.unit != unit]
        if len(others) > 1:
            self.occupants = [others[-1], *(one for one in self.occupants if one.unit == unit)]

    def delete(self, sequence: str) -> None:
        if self.occupants:
            self.last = self.occupants[-1].row
        self.occupants, self.deletion = [], sequence

    def depart(self, sequence: str) -> _Occupant | None:
        """Take out the row that has been here longest; what arrived after it in the same unit remains."""
        gone = self.occupants.pop(0) if self.occupants else None
        if gone is not None:
            self.last = gone.row
        self.deletion = max(self.deletion, self.occupants[0].born) if self.occupants else sequence
        return gone

    def upsert(self, event: Event) -> None:
        row = event.row.since(self.deletion)
        if self.occupants:
            occupant = self.occupants[-1]
            occupant.row, occupant.upsert = occupant.row.join(row), event.sequence
        else:
            self.occupants.append(_Occupant(row, event.sequence, event.sequence, event.unit))


def replay(events: Iterable[Event], incomplete: list[Event] | None = None) -> dict[Key, KeyState]:
    """Return what the changes of some keys come to, changes of key among them; all other changes of these keys must be there.

    Args:
        events: In any order, each once.
        incomplete: Gets the changes of key that leave columns out of a row of which nothing is known at the key before.
    """
    places: dict[Key, _Place] = {}
    for event in sorted(events, key=lambda event: event.order):
        place = places.setdefault(event.key, _Place())
        place.enter(event.unit)
        if event.kind == "delete":
            place.delete(event.sequence)
        elif event.kind == "upsert":
            place.upsert(event)
        else:
            assert event.before is not None, "a move has the key before it"
            origin = places.setdefault(event.before, _Place())
            origin.enter(event.unit)
            gone = origin.depart(event.sequence)
            if gone is None and incomplete is not None and event.row.base.version == ABSENT_VERSION:
                incomplete.append(event)
            row = event.row if gone is None else gone.row.moved(event.sequence).join(event.row)
            place.occupants.append(_Occupant(row, event.sequence, event.sequence, event.unit))
    return {key: _state(place) for key, place in places.items()}


def _state(place: _Place) -> KeyState:
    if not place.occupants:
        return KeyState(place.deletion, "", place.last)
    newest = place.occupants[-1]
    return KeyState(place.deletion, newest.upsert, newest.row, place.deletion)
