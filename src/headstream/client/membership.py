"""Membership: a consumer's part in its group, over any transport."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping
from typing import Final

from headstream.client.transport import Transport
from headstream.errors import RebalancedError
from headstream.model.groups import Assignment, Member
from headstream.model.identifiers import TopicName

__all__ = ["Membership"]

_REPORTS_A_SESSION: Final = 3
"""So often a member reports while it hands out what it has fetched: as long as it has been silent for less than its session's
timeout, nobody else has its partitions."""
_MOST_JOINS: Final = 10
"""A member may be gone again before its first report: over a network it goes with its connection."""


class Membership:
    """One member of a group; dropped without leave(), it leaves all the same.

    Args:
        transport: What is behind the client.
        topic: Stream and topic.
        group: The group's name.
        session_timeout_ms: How long the member may be silent while others wait.
    """

    def __init__(self, transport: Transport, topic: TopicName, group: str, session_timeout_ms: float) -> None:
        self._transport = transport
        self._topic = topic
        self._group = group
        self._session_timeout_ms = session_timeout_ms
        self.generation = -1
        self.is_resting = True
        self._reported_s = time.monotonic()
        self._join()

    @property
    def is_due(self) -> bool:
        """Whether it has been silent for so long that it has to report before it delivers what it fetched earlier."""
        return (time.monotonic() - self._reported_s) * 1000 * _REPORTS_A_SESSION > self._session_timeout_ms

    def _join(self) -> None:
        groups = self._transport.groups
        self.member: Member = groups.join(self._topic, self._group, session_timeout_ms=self._session_timeout_ms)
        self._finalizer = weakref.finalize(self, groups.abandon, self._topic, self.member)
        self._finalizer.atexit = False  # with the process everything ends

    def report(self, released: Iterable[int] = (), *, is_resting: bool = False) -> Assignment:
        """Say that the consumer is alive, and return what it reads; one that was taken out of its group joins again.

        Args:
            released: Partitions it was asked for and has finished.
            is_resting: Whether it has nothing in hand, and will report before it takes anything.
        """
        self.is_resting = is_resting
        for _ in range(_MOST_JOINS):
            try:
                return self._report(released)
            except RebalancedError:
                self.leave()
                self._join()
                released = ()
        return self._report(released)

    def _report(self, released: Iterable[int]) -> Assignment:
        groups = self._transport.groups
        self._reported_s = time.monotonic()  # before it is sent: the group has it later, so it counts from later
        assignment = groups.report(self._topic, self.member, released=released, is_resting=self.is_resting)
        self.generation = assignment.generation
        return assignment

    def commit(self, offsets: Mapping[int, int], generations: Mapping[int, int], *, is_resting: bool) -> bool:
        """Commit, and return whether the group has changed, so that the consumer is to report.

        Args:
            offsets: Partition -> offset of the next message.
            generations: Partition -> the generation it was polled from.
            is_resting: As for report().

        Raises:
            RebalancedError: another member has one of the partitions by now.
        """
        self.is_resting = is_resting
        now = self._transport.groups.commit(
            self._topic, self.member, offsets, generation=self.generation, generations=generations, is_resting=is_resting
        )
        return now != self.generation

    def leave(self) -> None:
        """Leave the group; leaving twice is fine."""
        if self._finalizer.detach() is not None:
            self._transport.groups.leave(self._topic, self.member)
