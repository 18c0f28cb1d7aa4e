"""The merge of changes into rows: a join of facts, so that a row depends only on which changes were applied. Pure.

The known facts about one key of a table are

    for each column     the value with the highest version, a version being the place of the change that wrote it
    its existence       the highest place of an insert or update, and the highest place of a deletion

Joining two of these takes the higher one of each pair. A maximum is commutative, associative and idempotent, so the join is,
and the result does not depend on the order of changes, on their micro-batches, or on repeats. The rest follows:

    the row exists      if its highest insert or update is not below its highest deletion
    a column's value    counts if its version is not below the highest deletion; otherwise the column is null
    an insert           writes every column (as does a full load's row), with null in columns that its schema does not have
    an update           writes the columns that it carries, if its schema has them: columns dropped at the source remain

One complete image wrote most columns of a row, so a KnownRow has the place of its newest complete image (`base`), and the other
changes with the columns that each wrote. Columns are joined in these groups: rows of 1,000 columns have few of them.

A key update moves a row from one key to another, so it concerns two keys. The keys that key updates connect are replayed
together: replay() sorts all their changes and applies them once, so the result also depends only on their set.

    departure   takes the row that has been at the key longest, including a row from before the transaction
    arrival     puts it to the new key with its columns; the change's own columns are newer
    in between  a key can have several rows within one transaction (`id = id + 1`, a swap); the newest row remains
    unknown     below the state that a key had when its changes were first logged, a row can have been replaced without a trace.
                So a departure does not take the columns of a row that arrived in its transaction: it can be another row

Values are not read here: `source` is the number of the row, in the caller's table, that a value is taken from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.replicate.columns.versions import ABSENT_VERSION, MAX_SEQUENCE_CHARACTERS, moved_version

Key: TypeAlias = tuple[Any, ...]
"""The values of a row's key columns."""
NO_SOURCE: Final = -1
"""The source of a value that no change has written: null."""
KNOWN_STATE: Final = -1
"""The number of an event that is the state of a key when its changes were first logged: older ones may have been replaced."""
_FILL: Final = "-"
_MANY_PAIRS: Final = 64
"""Number of pairs of groups above which a join by column is faster than one by group."""


class Written(NamedTuple):
    """Which change wrote a value (see versions.py), and the number of the row that has it."""

    version: str
    source: int


_ABSENT: Final = Written(ABSENT_VERSION, NO_SOURCE)


@dataclass(frozen=True, slots=True)
class KnownRow:
    """The known columns of a row.

    Args:
        base: The newest whole image.
        groups: The changes that wrote columns after the image, or columns that it omits, each with its columns: at least one,
            and no column twice. No change has the image's version.
    """

    base: Written = _ABSENT
    groups: dict[Written, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of_columns(cls, base: Written, columns: Mapping[str, Written]) -> KnownRow:
        """Return a row from the change that wrote each column; of the other columns that is the image."""
        named: dict[Written, list[str]] = {}
        for name, written in columns.items():
            if written.version != base.version:
                named.setdefault(written, []).append(name)
        return cls(base, {written: frozenset(names) for written, names in named.items()})

    @property
    def columns(self) -> dict[str, Written]:
        """The columns that another change than the image wrote."""
        return {name: written for written, names in self.groups.items() for name in names}

    def at(self, name: str) -> Written:
        """Return the change that wrote a column."""
        return next((written for written, names in self.groups.items() if name in names), self.base)

    @property
    def version(self) -> str:
        """The highest version among its columns."""
        return max([self.base.version, *(written.version for written in self.groups)])

    def join(self, other: KnownRow) -> KnownRow:
        """Return the newer version of each column; of equal versions the version of this row."""
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
        """Return the row without the columns older than a deletion; a column written at the same sequence is newer."""
        if not deletion:
            return self
        floor = deletion.ljust(MAX_SEQUENCE_CHARACTERS, _FILL)  # below the versions that a key update of that sequence writes
        return self._rewritten(lambda written: written if written.version >= floor else _ABSENT)

    def moved(self, sequence: str) -> KnownRow:
        """Return the row at its new key, after a change of its key of that sequence."""
        return self._rewritten(lambda written: Written(moved_version(written.version, sequence), written.source))

    def shifted(self, offset: int) -> KnownRow:
        """Return the row with the numbers of its sources raised by an offset."""
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
    """Return the place of the change that a version names; "" for a column that no change has written."""
    return (
        version[:MAX_SEQUENCE_CHARACTERS].rstrip(f"{_FILL} ")
        if version[MAX_SEQUENCE_CHARACTERS] == " "
        else version.rstrip(_FILL)
    )


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """One change of one key, or of a row's key.

    Args:
        kind: The kind of change. An upsert is an insert, an update, a row of a full load, or a stored row as far as known.
        key: The row's key; of a move the new key.
        before: The key before a move.
        transaction: Id of the transaction; "" if unknown.
        number: Number of the change within the transaction, from 1; 0 if unknown; KNOWN_STATE.
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
        """The order in which events take effect: at one sequence deletions are first."""
        return self.sequence, self.kind != "delete", self.number, repr((self.before, self.key))

    @property
    def unit(self) -> str:
        """Names the changes that take effect together. Transaction ids can be reused; the commit time distinguishes them."""
        return f"{self.transaction} {self.sequence[:16]}" if self.transaction else self.sequence


@dataclass(frozen=True, slots=True)
class KeyState:
    """The merged state of one key.

    Args:
        deletion: The place of the highest deletion; "" for none.
        upsert: The place of the highest insert or update of the row; "" if there is no row.
        row: The row's columns; of a deleted row the last columns.
        floor: The highest deletion, or end of a load, before the row's columns; "" for none.
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
    """Join the places of facts about one key; None if there are no facts.

    Args:
        ended: The places below which full loads have replaced rows: a row's columns do not reach across a load.
    """
    deleted = sorted(filter(None, deletions))
    found = list(upserts)
    newest = max((place for place, _ in found), default="")
    highest = deleted[-1] if deleted else ""
    if not found and not highest:
        return None
    # Of a deleted row the last columns are those since the deletion before that one.
    floor = max((place for place in (*deleted, *ended) if place <= newest), default="") if found else ""
    row = KnownRow()
    for _, other in found:
        row = row.join(other.since(floor))
    exists = bool(found) and newest >= highest
    return KeyState(highest, newest if exists else "", row, floor)


@dataclass(slots=True)
class _KeyHolder:
    """A row at a key: its place of arrival, its newest upsert, the unit in which it arrived, and whether from another key."""

    row: KnownRow
    inserted: str
    upsert: str
    unit: str
    moved: bool = False


@dataclass(slots=True)
class _Place:
    """A key during replay: its rows, oldest first, its highest deletion, and the row that left it last."""

    holders: list[_KeyHolder] = field(default_factory=list)
    deletion: str = ""
    last: KnownRow = KnownRow()

    def enter(self, unit: str) -> None:
        """Begin or continue a unit: of the rows from before it only the newest remains."""
        others = [one for one in self.holders if one.unit != unit]
        if len(others) > 1:
            self.holders = [others[-1], *(one for one in self.holders if one.unit == unit)]

    def delete(self, sequence: str) -> None:
        if self.holders:
            self.last = self.holders[-1].row
        self.holders, self.deletion = [], sequence

    def depart(self, sequence: str) -> _KeyHolder | None:
        """Remove and return the row that has been here longest; rows that arrived after it in the same unit remain."""
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
    """Return the merged states of the given keys from all of their changes, key updates among them.

    Args:
        incomplete: Receives the key updates that omit columns of a row without a known complete image at the old key, and the
            resulting row.
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
