"""Members: which session a member of one of our own groups came by, so that it goes with it.

A client may use several connections; a member goes with the last one that spoke for it. One that came over HTTP, where
nothing ends, goes when it has been silent for its session timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headstream.broker.groups import Groups
from headstream.broker.sessions import Session
from headstream.errors import ClosedError, HeadstreamError
from headstream.model.groups import Member
from headstream.model.identifiers import TopicName

__all__ = ["Members"]


@dataclass(slots=True)
class _Known:
    topic: TopicName
    member: Member
    user_id: int
    session: Session
    timeout_s: float
    seen_s: float


class Members:
    """The members that clients have entered; any thread.

    Args:
        groups: What they are members of.
        monotonic: Returns seconds that never go back.
    """

    def __init__(self, groups: Groups, monotonic: Callable[[], float]) -> None:
        self._groups = groups
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[int, _Known] = {}

    def enter(self, session: Session, topic: TopicName, group: str, timeout_ms: int) -> Member:
        """Take a new member into a group; see Groups.join()."""
        member = self._groups.join(topic, group, session_timeout_ms=timeout_ms)
        known = _Known(topic, member, session.user_id, session, timeout_ms / 1000, self._monotonic())
        with self._lock:
            self._known[member.id] = known
        return member

    def find(self, session: Session, member_id: int) -> Member:
        """Return a member that this user has entered, and note that it is alive.

        Raises:
            ClosedError: there is none such; it may have gone with its connection.
        """
        with self._lock:
            known = self._known.get(member_id)
            if known is not None and known.user_id == session.user_id:
                known.session, known.seen_s = session, self._monotonic()
                return known.member
        raise ClosedError(f"there is no member {member_id} any more", advice="Enter the group again")

    def exit(self, session: Session, member_id: int) -> None:
        """Let a member go.

        Raises:
            ClosedError: there is none such.
        """
        self.find(session, member_id)
        with self._lock:
            known = self._known.pop(member_id, None)
        if known is not None:
            self._groups.leave(known.topic, known.member)

    def end(self, session: Session) -> None:
        """Let the members go that a session spoke for last."""
        self._let_go(lambda known: known.session is session)

    def end_all(self) -> None:
        """Let all members go: the server ends, and others may read for their groups."""
        self._let_go(lambda known: True)

    def sweep(self) -> None:
        """Let the members go that came over HTTP and have been silent for too long."""
        now_s = self._monotonic()
        self._let_go(lambda known: known.session.transport is None and now_s - known.seen_s > known.timeout_s)

    def _let_go(self, is_gone: Callable[[_Known], bool]) -> None:
        with self._lock:
            gone = [number for number, known in self._known.items() if is_gone(known)]
            members = [self._known.pop(number) for number in gone]
        for known in members:
            with suppress(HeadstreamError):  # the log is closing, or its topic is gone
                self._groups.leave(known.topic, known.member)
