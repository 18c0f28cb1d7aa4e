"""Members: maps members of Headstream's groups to sessions; the end of a session removes its members.

A client can use several connections; a member is removed when the connection that last reported for it is closed. Over HTTP,
which has no connections, a member is removed after its session timeout without a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headstream.broker.accounts.sessions import Session
from headstream.broker.groups.groups import Groups
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.errors import ClosedError, HeadstreamError


@dataclass(slots=True)
class _KnownMember:
    topic: TopicName
    member: Member
    user_id: int
    session: Session
    timeout_s: float
    seen_s: float


class Members:
    """The members that clients have created; thread-safe. `monotonic` returns seconds."""

    def __init__(self, groups: Groups, monotonic: Callable[[], float]) -> None:
        self._groups = groups
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[int, _KnownMember] = {}

    def enter(self, session: Session, topic: TopicName, group: str, timeout_ms: int, *, is_shared: bool = False) -> Member:
        """Add a new member to a group; see Groups.join()."""
        member = self._groups.join(topic, group, session_timeout_ms=timeout_ms, is_shared=is_shared)
        known = _KnownMember(topic, member, session.user_id, session, timeout_ms / 1000, self._monotonic())
        with self._lock:
            self._known[member.id] = known
        return member

    def find(self, session: Session, member_id: int) -> Member:
        """Return a member of the session's user; record a heartbeat. ClosedError if the member or connection has ended."""
        with self._lock:
            known = self._known.get(member_id)
            if known is not None and known.user_id == session.user_id:
                known.session, known.seen_s = session, self._monotonic()
                return known.member
        raise ClosedError(f"the member {member_id} no longer exists", advice="Join the group again")

    def exit(self, session: Session, member_id: int) -> None:
        """Remove a member; ClosedError if it does not exist."""
        self.find(session, member_id)
        with self._lock:
            known = self._known.pop(member_id, None)
        if known is not None:
            self._groups.leave(known.topic, known.member)

    def end(self, session: Session) -> None:
        """Remove the members whose last report came from a session."""
        self._let_go(lambda known: known.session is session)

    def end_all(self) -> None:
        """Remove all members at shutdown, so that other processes can read for their groups."""
        self._let_go(lambda known: True)

    def sweep(self) -> None:
        """Remove HTTP members that have exceeded their session timeout."""
        now_s = self._monotonic()
        self._let_go(lambda known: known.session.transport is None and now_s - known.seen_s > known.timeout_s)

    def _let_go(self, has_left: Callable[[_KnownMember], bool]) -> None:
        with self._lock:
            left = [number for number, known in self._known.items() if has_left(known)]
            members = [self._known.pop(number) for number in left]
        for known in members:
            with suppress(HeadstreamError):  # the log is closing, or the member's topic was deleted
                self._groups.leave(known.topic, known.member)
