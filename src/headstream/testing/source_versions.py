"""Every version of a simulated table's rows, valid from one change sequence to another: a test oracle for SCD type 2.

full load, insert    opens a version of the key, valid from the change's sequence (for a full load: the empty string)
update               closes the version and opens another version; an update without changes has no effect
change of the key    closes the old key's version and opens a version of the new key, at the same sequence
delete               closes the version
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headstream.testing.source_history import Key, SourceChange
from headstream.testing.source_tables import Row


class RowVersion(NamedTuple):
    """A row between two changes of the row's key.

    `valid_from` is the sequence of the change that opened the version; `valid_to` of the change that closed the version, or None.
    """

    row: Row
    valid_from: str
    valid_to: str | None


def list_versions(changes: Iterable[SourceChange], keys: Sequence[str]) -> list[RowVersion]:
    """Return the versions that result from a table's changes (given in source order), in order of validity start."""
    found: list[RowVersion] = []
    open_places: dict[Key, int] = {}
    for change in changes:
        before, after, sequence = change.before, change.after, change.change_sequence
        if before is not None and after is not None and before == after:
            continue
        if before is not None:
            place = open_places.pop(tuple(before[name] for name in keys))
            found[place] = found[place]._replace(valid_to=sequence)
        if after is not None:
            open_places[tuple(after[name] for name in keys)] = len(found)
            found.append(RowVersion(after, sequence, None))
    return found
