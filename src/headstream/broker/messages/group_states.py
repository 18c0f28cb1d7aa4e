"""GroupStates: the state byte of messages for the group that asks: the stricter one of the message's own and of its delivery.

    leased, delayed, deferred    at least unavailable
    given up                     at least poisoned, as long as its story is kept: the newest 100 of a partition
    pending, done                the message's own

Only polls that ask for states get it. A poll for available messages alone gets all that are available for all groups: its offset
is committed as a whole, so that a message that was left out would never be tried again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headstream.core.codec.batch.stored.scan import take
from headstream.core.model.message import MessageState
from headstream.core.model.polling import Polled
from headstream.log.partition.delivery_state import DeliveryState

__all__ = ["in_group"]

_STATE_AT: Final = 8
_AVAILABLE: Final = MessageState.AVAILABLE.value
_UNAVAILABLE: Final = MessageState.UNAVAILABLE.value
_POISONED: Final = MessageState.POISONED.value
_KNOWN: Final = frozenset(state.value for state in MessageState)


def in_group(polled: Polled, state: DeliveryState, states: frozenset[int] | None) -> Polled:
    """Return a poll with the states that its messages have for a group.

    Args:
        polled: Messages in any state.
        state: What the group has not finished in the partition.
        states: The states to return; None is all.
    """
    given_up = {each.offset for each in state.given_up}
    parts: list[memoryview] = []
    count = 0
    for chunk in polled.chunks:
        shown, at = memoryview(bytearray(chunk)), 0
        while at < len(shown):
            end = take(shown, at, 1, len(shown))[0]
            offset, own = int.from_bytes(shown[at : at + _STATE_AT], "little"), shown[at + _STATE_AT]
            code = _POISONED if offset in given_up else _state_of(state, offset)
            shown[at + _STATE_AT] = code = max(own, code) if own in _KNOWN else own  # the codes rise with their strictness
            if states is None or code in states:
                parts.append(shown[at:end])
                count += 1
            at = end
    return replace(polled, chunks=tuple(parts), count=count)


def _state_of(state: DeliveryState, offset: int) -> int:
    """Return the state that corresponds to a delivery."""
    each = state.failing.get(offset)
    if each is not None and each.reason:
        return _POISONED
    is_held = each is not None or any(offset in ranges for ranges in (state.leased, state.deferred, state.expired))
    return _UNAVAILABLE if is_held else _AVAILABLE
