"""Transitions of messages, per consumer group or for all groups, as counted by metrics and recorded by audit rows."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TransitionKind(enum.StrEnum):
    """Kind of a transition; paused and resumed concern the entire group, state_set no group."""

    LEASED = "leased"
    EXTENDED = "extended"
    EXPIRED = "expired"
    RELEASED = "released"
    DEFERRED = "deferred"
    ACKED = "acked"
    RETRIED = "retried"
    REJECTED = "rejected"
    POISONED = "poisoned"
    PAUSED = "paused"
    RESUMED = "resumed"
    STATE_SET = "state_set"


class Transition(NamedTuple):
    """An event of messages of a partition, or of a group.

    Args:
        until_offset: One past the last offset.
        delay_us: How long it waits, the lease lasts, or the group is paused; microseconds.
        state: The name of the state that was set; empty for other transitions.
    """

    kind: TransitionKind
    from_offset: int = 0
    until_offset: int = 0
    worker: str = ""
    failures: int = 0
    delay_us: int = 0
    reason: str = ""
    error: str = ""
    state: str = ""

    @property
    def size(self) -> int:
        """Number of messages, or groups, that it concerns."""
        return max(self.until_offset - self.from_offset, 1)
