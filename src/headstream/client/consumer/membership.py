"""A consumer's membership of its group, over any transport."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from headstream.client.transports.transport import Transport
from headstream.core.model.groups import Assignment, Member
from headstream.core.model.identifiers import TopicName
from headstream.errors import HeadstreamError, RebalancedError
from headstream.forks import register_for_forks

_REPORTS_A_SESSION: Final = 3
"""Number of reports per session timeout while a member delivers buffered messages."""
_MOST_JOINS: Final = 10
"""Maximum attempts to join: a member whose connection breaks can be removed before its first report."""


class GroupMembership:
    """One member of a group; the member also leaves when the object is garbage-collected.

    Args:
        session_timeout_ms: Maximum time between reports of the member while other members wait for its partitions.
        is_shared: Whether the member leases messages and owns no partitions.
    """

    def __init__(
        self, transport: Transport, topic: TopicName, group: str, session_timeout_ms: float, *, is_shared: bool = False
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._group = group
        self._session_timeout_ms = session_timeout_ms
        self._is_shared = is_shared
        self.generation = -1
        self.is_resting = True
        self._reported_s = time.monotonic()
        self._join()
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: leave the member to the parent process; leave() and garbage collection do not remove it."""
        self._finalizer.detach()

    @property
    def is_due(self) -> bool:
        """Whether the member must report before it delivers buffered messages, because its last report is too old."""
        return (time.monotonic() - self._reported_s) * 1000 * _REPORTS_A_SESSION > self._session_timeout_ms

    @property
    def can_wait(self) -> bool:
        """Whether the member can wait without a report: the group can reassign its partitions during the wait."""
        return self.is_resting and not self.is_due

    def _join(self) -> None:
        groups = self._transport.groups
        timeout_ms, is_shared = self._session_timeout_ms, self._is_shared
        self.member: Member = groups.join(self._topic, self._group, session_timeout_ms=timeout_ms, is_shared=is_shared)
        self._finalizer = weakref.finalize(self, groups.abandon, self._topic, self.member)
        self._finalizer.atexit = False  # at exit the process's membership ends anyway

    def report(self, released: Iterable[int] = (), *, is_resting: bool = False) -> Assignment:
        """Send a heartbeat and return the assignment; a member removed from its group joins again.

        Args:
            is_resting: Whether no message is in progress and the member reports before it takes the next message.
        """
        self.is_resting = is_resting
        for _ in range(_MOST_JOINS):
            try:
                return self._report(released)
            except RebalancedError:
                self.join_again()
                released = ()
        return self._report(released)

    def _report(self, released: Iterable[int]) -> Assignment:
        groups = self._transport.groups
        self._reported_s = time.monotonic()  # before the request: the group starts the timeout when the request arrives
        assignment = groups.report(self._topic, self.member, released=released, is_resting=self.is_resting)
        self.generation = assignment.generation
        return assignment

    def commit(self, offsets: Mapping[int, int], generations: Mapping[int, int], *, is_resting: bool) -> bool:
        """Commit offsets; return whether the member must report. RebalancedError if a partition was lost."""
        self.is_resting = is_resting
        now = self._transport.groups.commit(
            self._topic, self.member, offsets, generation=self.generation, generations=generations, is_resting=is_resting
        )
        return now != self.generation

    def join_again(self) -> None:
        """Join the group as a new member after the group has removed this member."""
        self.leave()
        self._join()

    @contextmanager
    def leaving_on_error(self) -> Iterator[None]:
        """Leave the group if the block raises an error, so that a consumer that cannot start keeps no partitions."""
        try:
            yield
        except BaseException:
            with suppress(HeadstreamError):
                self.leave()
            raise

    def leave(self) -> None:
        """Leave the group; a second call does nothing."""
        if self._finalizer.detach() is not None:
            self._transport.groups.leave(self._topic, self.member)
