"""Stored rows of a table as events for the merge, and the rows that a change displaces.

A row leaves its key by a deletion or a key update. A key update that omits columns takes the omitted values from the row at the
old key. This row must still be known if the key update arrives after another row was written to the old key. So the changes of a
key are logged (key_log.py) as soon as a change implies that a deletion or key update is missing:

    an insert over an existing row              the change that removed that row has not arrived yet
    a change that is older than the row         the change can belong to an earlier row
    a complete update of a partly known row     its insert and the changes after the insert have not arrived yet
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headstream.replicate.columns.row_merge import KNOWN_STATE, Key, KeyEvent, KeyState, KnownRow, Written, join_key, sequence_of
from headstream.replicate.columns.row_versions import write_versions
from headstream.replicate.columns.versions import ABSENT_VERSION, load_floor

Bookkeeping: TypeAlias = tuple[bool, str, str | None]
"""Whether a row exists, its position, and its versions as a string."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of the table with its number among the rows read. `floor` is the newest deletion before the row's columns, or ""."""

    sequence: str
    row: KnownRow
    deleted: bool
    floor: str
    number: int

    @property
    def upsert(self) -> str:
        """The position of the row's newest insert or update; "" if unknown."""
        if not self.deleted:
            return self.sequence
        place = sequence_of(self.row.version)
        return place if place < self.sequence else ""

    @property
    def bookkeeping(self) -> Bookkeeping:
        """Whether the row exists, its position, and its versions as a string."""
        return not self.deleted, self.sequence, write_versions(self.row, self.sequence, self.floor)

    def deletions(self, key: Key, ended: Iterable[str]) -> list[KeyEvent]:
        """Return the known deletions of the row as events; `ended`: positions below which full loads have replaced rows."""
        places = [self.sequence if self.deleted else "", self.floor]
        places += [end for end in ended if self.upsert < end < self.sequence] if self.deleted else []
        return [KeyEvent("delete", key, place, number=KNOWN_STATE) for place in places if place]

    def upserts(self, key: Key, names: frozenset[str]) -> list[KeyEvent]:
        """Return the events that wrote the row's columns, one per position, since a key update moves only older columns."""
        if not self.upsert:
            return []
        if not self.row.groups:
            return [KeyEvent("upsert", key, self.upsert, self.row, number=KNOWN_STATE)]
        parts: dict[str, dict[Written, frozenset[str]]] = {self.upsert: {}}
        image = "" if self.row.base.version == ABSENT_VERSION else min(sequence_of(self.row.base.version), self.upsert)
        if image:  # the row existed by then, even if newer changes have replaced all its columns
            parts.setdefault(image, {})
        of_base = names.difference(*self.row.groups.values())  # values that a newer change has replaced are unknown
        for written, columns in [(self.row.base, of_base), *self.row.groups.items()]:
            known = columns if columns <= names else columns & names
            if known and written.version != ABSENT_VERSION:
                parts.setdefault(min(sequence_of(written.version), self.upsert), {})[written] = known
        numbers = {image: KNOWN_STATE}  # changes that omit columns replace no row
        return [KeyEvent("upsert", key, at, KnownRow(groups=groups), number=numbers.get(at, 0)) for at, groups in parts.items()]


def joined(facts: Collection[KeyEvent], known: StoredRow | None, tombstoned: str, ended: Sequence[str]) -> KeyState | None:
    """Join changes of one key, without key updates, to its stored row and tombstone (or ""); None if nothing results."""
    deletions = [event.sequence for event in facts if event.kind == "delete"]
    upserts = [(event.sequence, event.row) for event in facts if event.kind != "delete"]
    if known is not None:
        upserts.insert(0, (known.upsert, known.row))
        deletions += [known.floor, *([known.sequence] if known.deleted else [])]
    return join_key([*deletions, tombstoned], upserts, ended)


def without_ended(known: StoredRow, bound: str, *, soft: bool) -> KeyState | None:
    """Return a row without columns older than an ended full load that did not contain the row; None if nothing remains.

    Args:
        soft: Whether changes below `bound` are still merged; the row then records the bound.
    """
    deletions = [bound, known.floor, *([known.sequence] if known.deleted else [])]
    state = join_key(deletions, [(known.upsert, known.row)])
    assert state is not None, "there is a row"
    if state.row == known.row:
        return None
    return state if soft else replace(state, deletion="")


def displaced_keys(
    incoming: Iterable[KeyEvent],
    inserts: Collection[tuple[Key, str]],
    stored: Mapping[Key, StoredRow],
    tombstoned: Mapping[Key, str],
) -> set[Key]:
    """Return the keys with a change that implies a missing deletion or key update; `inserts`: key and position of each insert."""
    upserts: dict[Key, dict[str, bool]] = {}
    deletions: dict[Key, set[str]] = {}
    for event in incoming:
        if event.kind == "delete":
            deletions.setdefault(event.key, set()).add(event.sequence)
        else:
            upserts.setdefault(event.key, {})[event.sequence] = event.row.base.version != ABSENT_VERSION
    found = set()
    for key, upserted_at in upserts.items():
        known = stored.get(key)
        newest = "" if known is None else known.upsert
        gone = {tombstoned.get(key, ""), *deletions.get(key, ())}
        if known is not None:
            gone |= {known.floor, known.sequence if known.deleted else ""}
        places = dict(upserted_at)
        if known is not None and newest:
            places[newest] = places.get(newest, False) or known.row.base.version != ABSENT_VERSION
        for place in upserted_at:
            older = [other for other in places if other < place and not any(other < one <= place for one in gone)]
            inserted = (key, place) in inserts
            replaces = places[place] and load_floor(place) is None and not any(places[other] for other in older)
            is_late = _is_older(place, newest) and not any(place < one <= newest for one in gone)
            if is_late or (older and (inserted or replaces)):
                found.add(key)
                break
    return found


def _is_older(place: str, newest: str) -> bool:
    """Return whether a change is older than a row and does not belong to the same load."""
    floor = load_floor(place)
    return place < newest and (floor is None or floor != load_floor(newest))
