"""Versions of columns: which change wrote which column of a row, where changes that carry only some columns can overtake
each other.

A row has one change sequence, `_hs_sequence`. Only where its columns come from different changes does it also have
`_hs_versions`: the version of each column, VERSION_CHARACTERS each, in the order of the table's columns. Versions
are compared as text, filled up to one length with '-':

    "                                                    "   nobody has written the column yet
    ".1690000000000000-----------------------------------"   the first full load: a point, and when its row was logged
    "20230321213416580000000000000000017-----------------"   a change
    "20230321213416580000000000000000017.1690000000000000"   a later load, above every change before it (see loads.py)
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ABSENT_VERSION",
    "LOAD_MARK",
    "LOAD_TIME_CHARACTERS",
    "MAX_SEQUENCE_CHARACTERS",
    "VERSION_CHARACTERS",
    "version_of",
    "version_sql",
]

MAX_SEQUENCE_CHARACTERS: Final = 35
"""A change sequence is 35 characters: 16 of time, 19 of a number."""

LOAD_MARK: Final = "."
LOAD_TIME_CHARACTERS: Final = 16
VERSION_CHARACTERS: Final = MAX_SEQUENCE_CHARACTERS + len(LOAD_MARK) + LOAD_TIME_CHARACTERS

ABSENT_VERSION: Final = " " * VERSION_CHARACTERS
_FILL: Final = "-"  # sorts below every digit and LOAD_MARK, and above the space


def version_of(sequence: str) -> str:
    """Return the version of a column that the change of this sequence wrote."""
    return sequence.ljust(VERSION_CHARACTERS, _FILL)


def version_sql(alias: str, index: int) -> str:
    """Return SQL for the version of a row's column.

    Args:
        alias: The row's table alias in the statement.
        index: The column's place among the table's columns, from 0.
    """
    first = index * VERSION_CHARACTERS + 1
    row = f"rpad({alias}._hs_sequence, {VERSION_CHARACTERS}, '{_FILL}')"
    # A row written before the column was added has versions for fewer columns than the table: nobody has written it yet.
    column = f"rpad(substr({alias}._hs_versions, {first}, {VERSION_CHARACTERS}), {VERSION_CHARACTERS}, ' ')"
    return f"CASE WHEN {alias}._hs_versions IS NULL THEN {row} ELSE {column} END"
