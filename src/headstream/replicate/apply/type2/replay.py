"""The history of one key: its events in order, and the resulting versions of the row. No I/O.

An event has the columns of one change, or deletes the row. Versions are stored, and events can be derived from them. So a history
can be replayed when an older event arrives late. The late event splits the version that was valid at its sequence, and each of
its columns is carried forward until the column changes again, the row is deleted, or a load without the row ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headstream.replicate.columns.versions import ABSENT_VERSION, VERSION_CHARACTERS, load_floor, version_of


@dataclass(slots=True)
class SequenceEvent:
    """The combined changes to a row at one sequence.

    Args:
        deletes: Whether the row is deleted; an upsert at the same sequence is applied after the deletion.
        values: Column -> value, for the carried columns.
        versions: Column -> version, for columns that older changes wrote.
    """

    sequence: str
    deletes: bool = False
    upserts: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, other: SequenceEvent) -> None:
        """Add another change at the same sequence; if both have a value for a column, this event's value stays."""
        self.deletes |= other.deletes
        if self.upserts and not other.upserts:
            return  # a deletion has the values of the deleted row
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
    """A version of a row: its state between two changes.

    Args:
        valid_from: Sequence of the change that opened the version.
        valid_to: Sequence of the change that closed the version; None if it is open. A version with equal `valid_from` and
            `valid_to` was never valid; it records the deletion of a missing row.
        versions: Column -> version; ABSENT_VERSION for a column that was never written.
    """

    valid_from: str
    valid_to: str | None
    values: dict[str, Any]
    versions: dict[str, str]
    deleted: bool = False


def replay(
    events: Iterable[SequenceEvent], columns: list[str], keys: list[str], *, soft: bool, ends: Sequence[str] = ()
) -> list[Version]:
    """Return the versions that result from events.

    Args:
        events: Events in sequence order, one per sequence.
        soft: Whether a deletion opens a version marked as deleted; otherwise it leaves no open version.
        ends: The sorted positions at which loads have ended earlier rows; no column is carried forward across a load.
    """
    found: list[Version] = []
    last: Version | None = None  # the open version
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
            last = _overlaid(event, None if last is None or _is_ended(last, event.sequence, ends) else last, columns)
            found.append(last)
    return found


def _is_loaded_again(event: SequenceEvent, last: Version) -> bool:
    """Return whether a row of a load repeats an unchanged row, because the row was sent twice or the load was restarted."""
    floor = load_floor(event.sequence)
    if floor is None or event.deletes or last.deleted or floor != load_floor(last.valid_from):
        return False
    return all(last.values.get(name) == value for name, value in event.values.items())


def _is_ended(version: Version, before: str, ends: Sequence[str]) -> bool:
    """Return whether a load ended between the start of a version and a sequence."""
    place = bisect_right(ends, version.valid_from)
    return place < len(ends) and ends[place] < before


def _overlaid(event: SequenceEvent, last: Version | None, columns: list[str]) -> Version:
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


def reopen(versions: list[Version], ends: Iterable[str]) -> list[Version]:
    """Return the sorted stored versions of one key, reopening versions that loads have closed."""
    known = set(ends) - {version.valid_from for version in versions}
    found = []
    for number, version in enumerate(versions):
        if version.valid_to in known and not version.deleted:
            following = versions[number + 1].valid_from if number + 1 < len(versions) else None
            version = replace(version, valid_to=following)
        found.append(version)
    return found


def close_again(versions: list[Version], ends: Sequence[str]) -> list[Version]:
    """Close the versions from before a load that have no later change and no row of the load."""
    for version in versions:
        following = version.valid_to
        end = next((end for end in ends if version.valid_from < end), None)
        if end is None or version.deleted:
            continue
        if following is None or load_floor(following) not in (None, load_floor(end)):
            version.valid_to = end if following is None or following > end else following
    return versions


def stored_version(row: Mapping[str, Any], columns: list[str]) -> Version:
    """Return a row of the table as a version."""
    text, uniform = row["_hs_versions"], version_of(row["_hs_valid_from"])
    versions = dict.fromkeys(columns, uniform)
    if row["_hs_deleted"]:
        versions = dict.fromkeys(columns, ABSENT_VERSION)
    elif text is not None:
        for number, name in enumerate(columns):  # a column added since has no version yet
            first = number * VERSION_CHARACTERS
            versions[name] = text[first : first + VERSION_CHARACTERS] or ABSENT_VERSION
    values = {name: row[name] for name in columns}
    return Version(row["_hs_valid_from"], row["_hs_valid_to"], values, versions, deleted=bool(row["_hs_deleted"]))


def stored_events(versions: list[Version]) -> list[SequenceEvent]:
    """Derive the events of sorted stored versions of one key; events of older columns precede the first version."""
    events: dict[str, SequenceEvent] = {}
    for number, version in enumerate(versions):
        if version.deleted:
            event = SequenceEvent(version.valid_from, deletes=True, values=dict(version.values))
        else:
            own = version_of(version.valid_from)
            carried = [name for name, at in version.versions.items() if at == own or (number == 0 and at != ABSENT_VERSION)]
            event = SequenceEvent(version.valid_from, upserts=True, values={name: version.values[name] for name in carried})
            event.versions = {name: version.versions[name] for name in carried}
        events[version.valid_from] = event
    for version in versions:  # a version without a successor was closed by a deletion
        if version.valid_to is not None and version.valid_to not in events:
            events[version.valid_to] = SequenceEvent(version.valid_to, deletes=True, values=dict(version.values))
    return [events[sequence] for sequence in sorted(events)]
