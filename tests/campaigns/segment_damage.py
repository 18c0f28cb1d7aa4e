"""Damages the two files of a segment: one is truncated, altered or lost, or both are lost."""

from __future__ import annotations

import random
from typing import Final

from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES

LOST: Final = "lost"
"""Both files are lost."""
KINDS: Final = (
    "index cut", "index cut", "index torn", "index deleted", "index flipped", "index zeroed",
    "log flipped", "log cut", "log deleted",
)  # fmt: skip
"""Damage to one of the files; truncation of an index at an entry is the likeliest."""

_STATE_AT: Final = 8
"""The state's byte in a stored message, which checksums skip."""
_STORED_HEAD_BYTES: Final = 41


def damage_segment(what: str, index: str, data: str, files: dict[str, bytes], rng: random.Random) -> dict[str, bytes | None]:
    """Return the changed files of a damaged segment; None for a lost one.

    Args:
        what: One of KINDS, or LOST.
        index: The path of its index.
        data: The path of its .log.
    """
    rows, stored = files[index], files[data]
    count = (len(rows) - INDEX_HEADER_BYTES) // INDEX_ENTRY_BYTES
    changed: dict[str, bytes | None] = {}
    match what:
        case "index cut":
            changed[index] = rows[: INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES * rng.randint(0, max(0, count - 1))]
        case "index torn":
            changed[index] = rows[: rng.randint(INDEX_HEADER_BYTES, len(rows))]
        case "index flipped":
            changed[index] = _flip(rows, rng.randrange(len(rows)), rng)
        case "index zeroed" if count:
            at = INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES * rng.randrange(count)
            changed[index] = rows[:at] + bytes(INDEX_ENTRY_BYTES) + rows[at + INDEX_ENTRY_BYTES :]
        case "log flipped" if stored:
            at = rng.randrange(len(stored))
            if at not in _state_places(stored):
                changed[data] = _flip(stored, at, rng)
        case "log cut" if stored:
            changed[data] = stored[: rng.randrange(len(stored))]
        case "index deleted":
            changed[index] = None
        case "log deleted":
            changed[data] = None
        case "lost":
            changed = {index: None, data: None}
    return {path: content for path, content in changed.items() if files[path] != content}


def _flip(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _state_places(stored: bytes) -> set[int]:
    """Return the byte positions of the states."""
    places, at = set(), 0
    while at < len(stored):
        places.add(at + _STATE_AT)
        at += _STORED_HEAD_BYTES + int.from_bytes(stored[at + 37 : at + 41], "little")
        at += 4 + int.from_bytes(stored[at : at + 4], "little")
    return places
