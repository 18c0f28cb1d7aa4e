"""Finding: one thing that verification has to say, with its coordinates; and what opening a log says of what it mended."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["SET_ASIDE", "Finding", "FindingKind", "report"]

SET_ASIDE: Final = ".set-aside-"
"""What stands in the name of a file that was set aside, before the time."""

_LOGGER: Final = logging.getLogger("headstream.log")


class FindingKind(StrEnum):
    """What a finding is; the value is what JSON says."""

    MARKER = "marker"
    CATALOG = "catalog"
    DIRECTORY_MISSING = "directory_missing"
    DIRECTORY_STRANGE = "directory_strange"
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
    FILE_STRANGE = "file_strange"
    FILE_SET_ASIDE = "file_set_aside"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Args:
        kind: What it is.
        path: The file or directory.
        what: What is wrong, and what it means.
        advice: What to do.
        topic: `stream/topic`, or None where it is not about a partition.
        partition: From 1, or None.
        from_offset: The first offset it is about, or None.
        until_offset: One past the last one, or None where that is not known.
        from_byte: The first byte of the file it is about, or None.
        until_byte: One past the last one, or None.
        is_damage: Whether something is lost or wrong; if not, it is what an ordinary crash leaves, or merely worth knowing.
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
    """Say what was found or done when a log was opened, as a warning of the logger `headstream.log`."""
    _LOGGER.warning("%s: %s", path, what)
