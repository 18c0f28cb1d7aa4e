"""Listening: notifies users of the partitions that a consumer starts and stops reading."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from headstream.client.closing import unlimited

PartitionsCallback: TypeAlias = Callable[[str, frozenset[int]], object]
"""Called with `stream/topic` and at least one partition."""


class AssignmentListener:
    """Calls the user's callbacks of one consumer with `stream/topic` and partitions."""

    def __init__(self, topic: str, on_assigned: PartitionsCallback | None, on_revoked: PartitionsCallback | None) -> None:
        self._topic = topic
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._reported: frozenset[int] = frozenset()

    def begin(self, partitions: Iterable[int]) -> None:
        """Report partitions that the consumer starts reading."""
        new = frozenset(partitions) - self._reported
        self._reported |= new
        if new and self._on_assigned is not None:
            self._on_assigned(self._topic, new)

    def end_others(self, kept: Collection[int]) -> None:
        """Report partitions that the consumer stops reading: all except `kept`."""
        revoked = self._reported.difference(kept)
        self._reported -= revoked
        if revoked and self._on_revoked is not None:
            with unlimited():  # also for tasks that the function starts, which inherit the context
                self._on_revoked(self._topic, revoked)
