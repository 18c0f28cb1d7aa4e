"""The history of one key: its events in their order, and the versions of the row that they come to. Pure.

An event is what one change says of the row: the columns it carries, or that the row is gone. Versions are stored, and
events are read back from them, so a history can be told again when an older event comes late: it splits the version
that was valid then, and its columns flow forward until a newer change of each column, or until the row's deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headstream.spark.replicate.versions import ABSENT_VERSION, VERSION_CHARACTERS, load_floor, version_of

__all__ = ["Event", "Version", "replay", "stored_events", "stored_version"]


@dataclass(slots=True)
class Event:
    """What the changes of one sequence say of a row.

    Args:
        sequence: Their change sequence.
        deletes: Whether the row is gone; an upsert of the same sequence comes after that.
        upserts: Whether the row is there.
        values: Column -> value, of the columns that are carried.
        versions: Column -> version, where columns were written by older changes than this.
    """

    sequence: str
    deletes: bool = False
    upserts: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, other: Event) -> None:
        """Add what another change of the same sequence says; of what both say, this stays."""
        self.deletes |= other.deletes
        if self.upserts and not other.upserts:
            return  # a deletion's values are those of the row that is gone
        if other.upserts and not self.upserts:
            self.upserts, self.values, self.versions = True, dict(other.values), dict(other.versions)
            return
        for name, value in other.values.items():
            if name not in self.values:
                self.values[name] = value
                if name in other.versions:
                    self.versions[name] = other.versions[name]


@dataclass(slots=True)
class Version:
    """The row between two changes.

    Args:
        valid_from: Sequence of the change that opened it.
        valid_to: Sequence of the change that closed it; None while it is open. A version that ends where it begins
            was never valid: it remembers a deletion that found no row.
        values: Column -> value.
        versions: Column -> version; ABSENT_VERSION where nobody has written it.
        deleted: Whether it says that the row is gone.
    """

    valid_from: str
    valid_to: str | None
    values: dict[str, Any]
    versions: dict[str, str]
    deleted: bool = False


def replay(events: Iterable[Event], columns: list[str], keys: list[str], *, soft: bool) -> list[Version]:
    """Return the versions that events come to.

    Args:
        events: In the order of their sequences, one a sequence.
        columns: The table's columns.
        keys: Those that identify a row.
        soft: Whether a deletion opens a version that says so, in place of leaving nothing open.
    """
    found: list[Version] = []
    last: Version | None = None  # the one that is open
    for event in events:
        if last is not None and _is_loaded_again(event, last):
            continue
        if last is not None:
            last.valid_to = event.sequence
        if event.deletes:
            was_there = last is not None and not last.deleted
            own = {name: value for name, value in event.values.items() if soft or name in keys}
            values = dict(last.values) if last is not None else dict.fromkeys(columns) | own
            last = None
            if not event.upserts and (soft or not was_there):
                absent = dict.fromkeys(columns, ABSENT_VERSION)
                version = Version(event.sequence, None if soft else event.sequence, values, absent, deleted=True)
                found.append(version)
                last = version if soft else None
        if event.upserts:
            last = _overlaid(event, last, columns)
            found.append(last)
    return found


def _is_loaded_again(event: Event, last: Version) -> bool:
    """Say whether a row of a load comes once more as it is: sent twice, or by a load that began anew."""
    floor = load_floor(event.sequence)
    if floor is None or event.deletes or last.deleted or floor != load_floor(last.valid_from):
        return False
    return all(last.values.get(name) == value for name, value in event.values.items())


def _overlaid(event: Event, last: Version | None, columns: list[str]) -> Version:
    version = version_of(event.sequence)
    if last is None or last.deleted:
        values, versions = dict.fromkeys(columns), dict.fromkeys(columns, ABSENT_VERSION)
    else:
        values, versions = dict(last.values), dict(last.versions)
    for name, value in event.values.items():
        own = event.versions.get(name, version)
        if own >= versions[name]:
            values[name], versions[name] = value, own
    return Version(event.sequence, None, values, versions)


def stored_version(row: Mapping[str, Any], columns: list[str]) -> Version:
    """Return a row of the table as a version.

    Args:
        row: Its columns and bookkeeping.
        columns: The table's columns, in its order.
    """
    text, uniform = row["_hs_versions"], version_of(row["_hs_valid_from"])
    versions = dict.fromkeys(columns, uniform)
    if row["_hs_deleted"]:
        versions = dict.fromkeys(columns, ABSENT_VERSION)
    elif text is not None:
        for place, name in enumerate(columns):  # a column added since has no version yet
            first = place * VERSION_CHARACTERS
            versions[name] = text[first : first + VERSION_CHARACTERS] or ABSENT_VERSION
    values = {name: row[name] for name in columns}
    return Version(row["_hs_valid_from"], row["_hs_valid_to"], values, versions, deleted=bool(row["_hs_deleted"]))


def stored_events(versions: list[Version]) -> list[Event]:
    """Return the events that stored versions of one key came from.

    Args:
        versions: Sorted; the first is taken whole, since the events that its older columns came from are before it.
    """
    events: dict[str, Event] = {}
    for place, version in enumerate(versions):
        if version.deleted:
            event = Event(version.valid_from, deletes=True, values=dict(version.values))
        else:
            own = version_of(version.valid_from)
            carried = [name for name, at in version.versions.items() if at == own or (place == 0 and at != ABSENT_VERSION)]
            event = Event(version.valid_from, upserts=True, values={name: version.values[name] for name in carried})
            event.versions = {name: version.versions[name] for name in carried}
        events[version.valid_from] = event
    for version in versions:  # a version that nothing follows was ended by a deletion
        if version.valid_to is not None and version.valid_to not in events:
            events[version.valid_to] = Event(version.valid_to, deletes=True, values=dict(version.values))
    return [events[sequence] for sequence in sorted(events)]
