"""Transitions of messages, for one consumer group or for all groups. Metrics count them, and audit rows record them."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TransitionKind(enum.StrEnum):
    """The kind of a transition. PAUSED and RESUMED concern the entire group; STATE_SET concerns no group."""

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
    """An event that concerns messages of a partition, or a group.

    Args:
        until_offset: One past the last offset.
        delay_us: How long the message waits, the lease lasts or the group is paused, microseconds.
        state: The name of the new state for STATE_SET; empty for other transitions.
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
        """Number of messages or groups that the transition concerns."""
        return max(self.until_offset - self.from_offset, 1)
