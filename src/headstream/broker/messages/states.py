"""Selects the ranges of stored bytes that a poll delivers, by message state.

select(chunk, frozenset({1}))  ->  [(0, 4200), (4300, 9000)]     skipping the message at byte 4200
"""

from __future__ import annotations

from headstream.core.codec.batch.stored.scan import find_states, take
from headstream.core.model.message import MessageState

__all__ = ["select"]

_AVAILABLE = MessageState.AVAILABLE.value


def select(stored: memoryview, count: int, states: frozenset[int] | None) -> tuple[list[memoryview], int]:
    """Return the ranges of the messages in one of these states, and their number.

    Args:
        stored: Whole stored messages.
        count: Number of messages.
        states: State codes; None is all of them.
    """
    if states is None:
        return [stored], count
    others = find_states(stored)
    if not others:
        return ([stored], count) if _AVAILABLE in states else ([], 0)
    parts: list[memoryview] = []
    selected = start = 0
    ends = [(at, take(stored, at, 1, len(stored))[0], state in states) for at, _, state in others]
    if _AVAILABLE in states:
        for at, end, is_wanted in ends:
            if not is_wanted:
                parts.append(stored[start:at])
                start = end
        parts.append(stored[start:])
        selected = count - sum(not is_wanted for _, _, is_wanted in ends)
    else:
        for at, end, is_wanted in ends:
            if is_wanted:
                parts.append(stored[at:end])
                selected += 1
    return [part for part in parts if len(part)], selected
