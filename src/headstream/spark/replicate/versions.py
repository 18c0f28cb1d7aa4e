"""Versions of columns: which change wrote which column of a row, where changes that carry only some columns can overtake
each other.

A row has one change sequence, `_hs_sequence`. Only where its columns come from different changes does it also have
`_hs_versions`: the version of each column, VERSION_CHARACTERS each, in the order of the table's columns. Versions
are compared as text, filled up to one length with '-':

    "                                                    "   nobody has written the column yet
    ".1690000000000000-----------------------------------"   the first full load: a point, and when its row was logged
    "20230321213416580000000000000000017-----------------"   a change
    "20230321213416580000000000000000017.1690000000000000"   a later load, above every change before it (see loads.py)

A change of key that does not carry every column brings the others along from the key before. There they are newer than all that
the new key has had before, however old they are, and older than what that change itself carries; among each other they keep
their order: the change's sequence, a space, and the version that they had.

    "20230321213416580000000000000000031 20230321213416580000000000000000017-----------------"
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ABSENT_VERSION",
    "AGAIN_MARK",
    "LATE_MARK",
    "LOAD_MARK",
    "LOAD_TIME_CHARACTERS",
    "MAX_SEQUENCE_CHARACTERS",
    "VERSION_CHARACTERS",
    "load_floor",
    "moved_version",
    "version_of",
]

MAX_SEQUENCE_CHARACTERS: Final = 35
"""A change sequence is 35 characters: 16 of time, 19 of a number."""

LOAD_MARK: Final = "."
LATE_MARK: Final = ","
"""Between the floor of a load and the sequence of a change that was logged before that load and is read too late to count for
its floor: sorts below LOAD_MARK, so below the load's rows, and above the floor. See loads.py."""
AGAIN_MARK: Final = "/"
"""At the end of a floor: a load begun by hand while nothing had changed since the one before; sorts above LOAD_MARK."""
LOAD_TIME_CHARACTERS: Final = 16
_OWN_CHARACTERS: Final = MAX_SEQUENCE_CHARACTERS + len(LOAD_MARK) + LOAD_TIME_CHARACTERS
_MOVED_MARK: Final = " "  # sorts below _FILL, so below the change's own version
VERSION_CHARACTERS: Final = MAX_SEQUENCE_CHARACTERS + len(_MOVED_MARK) + _OWN_CHARACTERS

ABSENT_VERSION: Final = " " * VERSION_CHARACTERS
_FILL: Final = "-"  # sorts below every digit and LOAD_MARK, and above the space


def load_floor(sequence: str) -> str | None:
    """Return the highest change sequence before the load that a row came by; None for a change.

    Args:
        sequence: The row's effective sequence, see loads.py.
    """
    floor, mark, _ = sequence.rpartition(LOAD_MARK)
    return floor if mark else None


def version_of(sequence: str) -> str:
    """Return the version of a column that the change of this sequence wrote."""
    return sequence.ljust(VERSION_CHARACTERS, _FILL)


def moved_version(version: str, sequence: str) -> str:
    """Return the version of a column that a change of key brought along.

    Args:
        version: The version that it had under the key before.
        sequence: That of the change of key.
    """
    if version == ABSENT_VERSION:
        return version
    was_moved = version[MAX_SEQUENCE_CHARACTERS] == _MOVED_MARK
    own = version[MAX_SEQUENCE_CHARACTERS + len(_MOVED_MARK) :] if was_moved else version[:_OWN_CHARACTERS]
    return f"{sequence.ljust(MAX_SEQUENCE_CHARACTERS, _FILL)}{_MOVED_MARK}{own}"
