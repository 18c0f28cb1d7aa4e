"""Merges changes into rows by joining facts, so that a row depends only on the set of applied changes. No I/O.

The known facts about a key of a table are:

    for each column     the value with the highest version; the version is the position of the change that wrote it
    its existence       the highest position of an insert or update, and the highest position of a deletion

A join takes the maximum of each fact. A maximum is commutative, associative and idempotent, so the result of joins does not
depend on the order of changes, on their micro-batches, or on repetitions. It follows that:

    the row exists      if its highest insert or update is not below its highest deletion
    a column's value    is used if its version is not below the highest deletion; otherwise the column is null
    an insert           writes every column, with null if its schema lacks a column; likewise a row of a full load
    an update           writes each of its columns that its schema has; columns dropped at the source keep their values

Usually one complete image wrote most columns of a row. So a KnownRow has the position of its newest complete image (`base`), and
the other changes with the groups of columns that they wrote. Groups are joined, since a row of 1,000 columns has few groups.

A key update moves a row from one key to another. The keys that key updates connect are replayed together: replay() sorts all
changes of these keys and applies each change once, so the result also depends only on the set of changes.

    departure   moves the oldest row of the key, including a row from before the transaction
    arrival     adds this row with its columns to the new key; the columns of the key update are newer
    in between  a key can have several rows within one transaction (`id = id + 1`, a swap); the newest row remains
    unknown     before the changes of a key were first logged, a row may have been replaced without a record.
                Thus, a departure does not move the columns of a row that arrived in its transaction, which may be another row

This module does not read values: `source` is the number of the row in the caller's table that has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.replicate.columns.versions import ABSENT_VERSION, MAX_SEQUENCE_CHARACTERS, moved_version

Key: TypeAlias = tuple[Any, ...]
"""The values of a row's key columns."""
NO_SOURCE: Final = -1
"""The source of a value that no change has written, which is null."""
KNOWN_STATE: Final = -1
"""The number of an event that has the state of a key when its changes were first logged, and can replace older events."""
_FILL: Final = "-"
_MANY_PAIRS: Final = 64
"""Number of group pairs above which a join by column is faster than a join by group."""


class Written(NamedTuple):
    """The version of a value (see versions.py), and the number of the row that has the value."""

    version: str
    source: int


_ABSENT: Final = Written(ABSENT_VERSION, NO_SOURCE)


@dataclass(frozen=True, slots=True)
class KnownRow:
    """The known columns of a row.

    Args:
        base: The newest complete image.
        groups: The changes that wrote other columns, with these columns. A change has at least one column and a version that
            differs from the image's version; a column belongs to one change.
    """

    base: Written = _ABSENT
    groups: dict[Written, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of_columns(cls, base: Written, columns: Mapping[str, Written]) -> KnownRow:
        """Return a row from the changes that wrote `columns` and the image that wrote all other columns."""
        named: dict[Written, list[str]] = {}
        for name, written in columns.items():
            if written.version != base.version:
                named.setdefault(written, []).append(name)
        return cls(base, {written: frozenset(names) for written, names in named.items()})

    @property
    def columns(self) -> dict[str, Written]:
        """The columns that were not written by the image, with the changes that wrote them."""
        return {name: written for written, names in self.groups.items() for name in names}

    def at(self, name: str) -> Written:
        """Return the change that wrote a column."""
        return next((written for written, names in self.groups.items() if name in names), self.base)

    @property
    def version(self) -> str:
        """The highest version of the columns."""
        return max([self.base.version, *(written.version for written in self.groups)])

    def join(self, other: KnownRow) -> KnownRow:
        """Return the row with the newer version of each column; if versions are equal, this row's column is used."""
        base = _newer(self.base, other.base)
        if not self.groups and not other.groups:
            return self if base is self.base else other
        if len(self.groups) * len(other.groups) > _MANY_PAIRS:
            mine, theirs = self.columns, other.columns
            joined = {name: _newer(mine.get(name, self.base), theirs.get(name, other.base)) for name in {**mine, **theirs}}
            return KnownRow.of_columns(base, joined)
        found: dict[Written, frozenset[str]] = {}

        def add(written: Written, names: frozenset[str]) -> None:
            if names and written.version != base.version:
                found[written] = found[written] | names if written in found else names

        left = dict(other.groups)
        for own, names in self.groups.items():
            rest = names
            for written, others in other.groups.items():
                common = names if others is names else names & others
                if common:
                    add(_newer(own, written), common)
                    rest, left[written] = rest - common, left[written] - common
            add(_newer(own, other.base), rest)
        for written, names in left.items():
            add(_newer(self.base, written), names)
        return KnownRow(base, found)

    def since(self, deletion: str) -> KnownRow:
        """Return the row without columns older than a deletion; a column written at the same sequence is newer."""
        if not deletion:
            return self
        floor = deletion.ljust(MAX_SEQUENCE_CHARACTERS, _FILL)  # below the versions that a key update of that sequence writes
        return self._rewritten(lambda written: written if written.version >= floor else _ABSENT)

    def moved(self, sequence: str) -> KnownRow:
        """Return the row at its new key, after a key update with this sequence."""
        return self._rewritten(lambda written: Written(moved_version(written.version, sequence), written.source))

    def shifted(self, offset: int) -> KnownRow:
        """Return the row with an offset added to the numbers of its sources."""
        return self._rewritten(lambda w: Written(w.version, w.source + offset) if w.source >= 0 else w)

    def _rewritten(self, change: Callable[[Written], Written]) -> KnownRow:
        base = change(self.base)
        found: dict[Written, frozenset[str]] = {}
        for written, names in self.groups.items():
            other = change(written)
            if other.version != base.version:
                found[other] = found[other] | names if other in found else names
        return KnownRow(base, found)


def _newer(one: Written, other: Written) -> Written:
    return one if one.version >= other.version else other


def sequence_of(version: str) -> str:
    """Return the position of the change in a version; "" for a column that no change has written."""
    return (
        version[:MAX_SEQUENCE_CHARACTERS].rstrip(f"{_FILL} ")
        if version[MAX_SEQUENCE_CHARACTERS] == " "
        else version.rstrip(_FILL)
    )


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A change of the row at a key, or a move of a row to another key.

    Args:
        kind: The kind of change. An upsert is an insert, an update, a row of a full load, or the known part of a stored row.
        key: The row's key; for a move, the new key.
        before: The key before a move.
        transaction: Id of the transaction; "" if unknown.
        number: Number of the change in the transaction, from 1; 0 if unknown; or KNOWN_STATE.
    """

    kind: Literal["delete", "move", "upsert"]
    key: Key
    sequence: str
    row: KnownRow = KnownRow()
    before: Key | None = None
    transaction: str = ""
    number: int = 0

    @property
    def order(self) -> tuple[str, bool, int, str]:
        """The order in which events take effect; at the same sequence, deletions are first."""
        return self.sequence, self.kind != "delete", self.number, repr((self.before, self.key))

    @property
    def unit(self) -> str:
        """An id of the changes that take effect together; includes the commit time, because transaction ids can be reused."""
        return f"{self.transaction} {self.sequence[:16]}" if self.transaction else self.sequence


@dataclass(frozen=True, slots=True)
class KeyState:
    """The merged state of one key.

    Args:
        deletion: The position of the highest deletion; "" if there is none.
        upsert: The position of the highest insert or update of the row; "" if there is no row.
        row: The row's columns; for a deleted row, its last columns.
        floor: The highest deletion or end of a load before the row's columns; "" if there is none.
    """

    deletion: str
    upsert: str
    row: KnownRow
    floor: str = ""

    @property
    def exists(self) -> bool:
        """Whether the row exists."""
        return bool(self.upsert)


def join_key(deletions: Iterable[str], upserts: Iterable[tuple[str, KnownRow]], ended: Sequence[str] = ()) -> KeyState | None:
    """Join facts about one key; None if there are no facts.

    Args:
        ended: The positions below which full loads have replaced rows; a row keeps no columns from before a load.
    """
    deleted = sorted(filter(None, deletions))
    found = list(upserts)
    newest = max((place for place, _ in found), default="")
    highest = deleted[-1] if deleted else ""
    if not found and not highest:
        return None
    # The last columns of a deleted row are the columns written since the previous deletion.
    floor = max((place for place in (*deleted, *ended) if place <= newest), default="") if found else ""
    row = KnownRow()
    for _, other in found:
        row = row.join(other.since(floor))
    exists = bool(found) and newest >= highest
    return KeyState(highest, newest if exists else "", row, floor)


@dataclass(slots=True)
class _KeyHolder:
    """A row at a key: its position of arrival, newest upsert and unit of arrival, and whether it was moved from another key."""

    row: KnownRow
    inserted: str
    upsert: str
    unit: str
    moved: bool = False


@dataclass(slots=True)
class _Place:
    """A key during replay: its rows, oldest first, its highest deletion, and the last row that left the key."""

    holders: list[_KeyHolder] = field(default_factory=list)
    deletion: str = ""
    last: KnownRow = KnownRow()

    def enter(self, unit: str) -> None:
        """Begin or continue a unit: of the rows from earlier units, only the newest remains."""
        others = [one for one in self.holders if one.unit != unit]
        if len(others) > 1:
            self.holders = [others[-1], *(one for one in self.holders if one.unit == unit)]

    def delete(self, sequence: str) -> None:
        if self.holders:
            self.last = self.holders[-1].row
        self.holders, self.deletion = [], sequence

    def depart(self, sequence: str) -> _KeyHolder | None:
        """Remove and return the oldest row of the key; rows that arrived later remain."""
        departed = self.holders.pop(0) if self.holders else None
        if departed is not None:
            self.last = departed.row
        self.deletion = max(self.deletion, self.holders[0].inserted) if self.holders else sequence
        return departed

    def arrive(self, arrived: _KeyHolder) -> KnownRow:
        """Add a row and return its columns, including columns known from an earlier arrival of the same change."""
        for holder in self.holders:
            if holder.inserted == arrived.inserted:
                holder.row = holder.row.join(arrived.row)
                return holder.row
        self.holders.append(arrived)
        return arrived.row

    def upsert(self, event: KeyEvent) -> None:
        row = event.row.since(self.deletion)
        if self.holders:
            holder = self.holders[-1]
            holder.row, holder.upsert = holder.row.join(row), event.sequence
        else:
            self.holders.append(_KeyHolder(row, event.sequence, event.sequence, event.unit))


def replay(events: Iterable[KeyEvent], incomplete: list[tuple[KeyEvent, KnownRow]] | None = None) -> dict[Key, KeyState]:
    """Return the merged states of keys from all their changes, including key updates.

    Args:
        incomplete: Receives key updates that omit columns, with the resulting row, if the row at the old key has no known
            complete image.
    """
    places: dict[Key, _Place] = {}
    ordered = sorted(events, key=lambda event: event.order)
    known_from = {event.key: event.sequence for event in ordered if event.number == KNOWN_STATE}  # the highest of each key
    for event in ordered:
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
            departed = origin.depart(event.sequence)
            if departed is None or (
                departed.moved and departed.unit == event.unit and event.sequence < known_from.get(event.before, "")
            ):
                row = event.row
            else:
                row = departed.row.moved(event.sequence).join(event.row)
            row = place.arrive(_KeyHolder(row, event.sequence, event.sequence, event.unit, moved=True))
            if incomplete is not None and row.base.version == ABSENT_VERSION:
                incomplete.append((event, row))
    return {key: _state(place) for key, place in places.items()}


def _state(place: _Place) -> KeyState:
    if not place.holders:
        return KeyState(place.deletion, "", place.last)
    newest = place.holders[-1]
    return KeyState(place.deletion, newest.upsert, newest.row, place.deletion)
