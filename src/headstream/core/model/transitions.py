"""Transitions: what happens to messages, for a consumer group or for all, as metrics count it and audit rows record it."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TransitionKind(enum.StrEnum):
    """What has happened; paused and resumed are about a group as a whole, state_set about no group."""

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
    """What has happened to messages of a partition, or to a group.

    Args:
        until_offset: One past the last one.
        delay_us: How long it waits, the lease lasts, or the group is paused; microseconds.
        state: The name of the state that was set; empty for all others.
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
        """How many messages, or groups, it is about."""
        return max(self.until_offset - self.from_offset, 1)
