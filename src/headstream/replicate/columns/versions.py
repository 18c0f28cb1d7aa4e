"""Versions of columns: identify the change that wrote each column of a row, since partial changes can arrive out of order.

A row has one change sequence, `_hs_sequence`. If different changes wrote its columns, the row also has `_hs_versions`, with a
version of VERSION_CHARACTERS per column, in the order of the table's columns. Versions are compared as strings, and are padded
with '-' to the same length:

    "                                                    "   the column was not written yet
    ".1690000000000000-----------------------------------"   the first full load: a period and the row's log time
    "20230321213416580000000000000000017-----------------"   a change
    "20230321213416580000000000000000017.1690000000000000"   a later load, above every change before it (see loads.py)

A key update that omits columns moves these columns from the old key. At the new key they are newer than all earlier values and
older than the columns of the key update itself, and they retain their order. Thus, their version is the key update's sequence, a
space, and the previous version.

    "20230321213416580000000000000000031 20230321213416580000000000000000017-----------------"
"""

from __future__ import annotations

from typing import Final

MAX_SEQUENCE_CHARACTERS: Final = 35
"""Length of a change sequence: 16 characters of time and 19 of a number."""

LOAD_MARK: Final = "."
LATE_MARK: Final = ","
"""Separates the floor of a load and the sequence of a late change, logged before the load but read after its floor was fixed.
Sorts above the floor and below LOAD_MARK, so below the load's rows. See loads.py."""
AGAIN_MARK: Final = "/"
"""Ends the floor of an announced load without changes since the previous load; sorts above LOAD_MARK."""
LOAD_TIME_CHARACTERS: Final = 16
_OWN_CHARACTERS: Final = MAX_SEQUENCE_CHARACTERS + len(LOAD_MARK) + LOAD_TIME_CHARACTERS
_MOVED_MARK: Final = " "  # sorts below _FILL, so below the change's own version
VERSION_CHARACTERS: Final = MAX_SEQUENCE_CHARACTERS + len(_MOVED_MARK) + _OWN_CHARACTERS

ABSENT_VERSION: Final = " " * VERSION_CHARACTERS
_FILL: Final = "-"  # sorts below every digit and LOAD_MARK, and above the space


def load_floor(sequence: str) -> str | None:
    """Return the highest change sequence before a load from a position of its row (see loads.py); None for a change."""
    floor, mark, _ = sequence.rpartition(LOAD_MARK)
    return floor if mark else None


def version_of(sequence: str) -> str:
    """Return the version that the change with this sequence gives to the columns that it writes."""
    return sequence.ljust(VERSION_CHARACTERS, _FILL)


def moved_version(version: str, sequence: str) -> str:
    """Return the version, at the new key, of a column that a key update moved."""
    if version == ABSENT_VERSION:
        return version
    was_moved = version[MAX_SEQUENCE_CHARACTERS] == _MOVED_MARK
    own = version[MAX_SEQUENCE_CHARACTERS + len(_MOVED_MARK) :] if was_moved else version[:_OWN_CHARACTERS]
    return f"{sequence.ljust(MAX_SEQUENCE_CHARACTERS, _FILL)}{_MOVED_MARK}{own}"
