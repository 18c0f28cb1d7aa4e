"""LogFinding: one result of verification, with its position; also logs warnings about repairs when a log is opened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

QUARANTINE_MARK: Final = ".set-aside-"
"""Infix, before the time, in the name of a file that was renamed because it is invalid or not part of the log."""

_LOGGER: Final = logging.getLogger("headstream.log")


class FindingKind(StrEnum):
    """Kind of a finding; JSON output contains the value."""

    MARKER = "marker"
    CATALOG = "catalog"
    DIRECTORY_MISSING = "directory_missing"
    DIRECTORY_UNKNOWN = "directory_strange"
    OFFSETS = "consumer_offsets"
    INDEX_MISSING = "index_missing"
    INDEX_HEAD = "index_head"
    INDEX_ENTRY = "index_entry"
    INDEX_ORDER = "index_order"
    INDEX_SHORT = "index_short"
    DATA_MISSING = "data_missing"
    DATA_CUT = "data_cut"
    SEND = "send"
    STATE = "state"
    GAP = "gap"
    TAIL = "tail"
    FILE_UNKNOWN = "file_strange"
    FILE_SET_ASIDE = "file_set_aside"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class LogFinding:
    """One fault or note.

    Args:
        topic: `stream/topic`, or None if the finding is not about a partition.
        partition: From 1, or None.
        from_offset: The first affected offset, or None.
        until_offset: One past the last affected offset, or None.
        from_byte: The first affected byte of the file, or None.
        until_byte: One past the last affected byte, or None if unknown.
        is_damage: Whether data is lost or wrong; otherwise the finding is a note or a trace of an ordinary crash.
    """

    kind: FindingKind
    path: str
    what: str
    advice: str
    topic: str | None = None
    partition: int | None = None
    from_offset: int | None = None
    until_offset: int | None = None
    from_byte: int | None = None
    until_byte: int | None = None
    is_damage: bool = True


def report(path: str, what: str) -> None:
    """Log a finding or repair during a log's opening as a warning of the logger `headstream.log`."""
    _LOGGER.warning("%s: %s", path, what)
