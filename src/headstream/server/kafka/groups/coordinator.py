"""Coordinator: the groups of Kafka clients that have members; runs in the event loop.

Members are stored only in memory, and join again after a restart of the server. Committed offsets are stored in the log and
shared with groups of the other transports.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, Protocol

from headstream.broker.accounts.permissions import Rights
from headstream.broker.accounts.sessions import Session
from headstream.errors import PermissionDeniedError
from headstream.server.kafka.groups.group_members import Joining, Respond
from headstream.server.kafka.groups.membership import KafkaGroup
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError

_MAX_GROUPS: Final = 10_000
"""Maximum number of groups with members; each group has at least one connection."""
_MAX_BYTES: Final = 64 << 20
"""Maximum size of the metadata and assignments of all members, bytes."""
_ID_BYTES: Final = 16


class Caller(Protocol):
    """The sender of a request for a group."""

    @property
    def session(self) -> Session:
        """The session that sent the request."""

    @property
    def rights(self) -> Rights:
        """The rights of the session's user."""


class Coordinator:
    """All groups that have members. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.groups: dict[str, KafkaGroup] = {}

    def join(self, caller: Caller, name: str, asked: Joining, respond: Respond) -> None:
        """Add a member to a group; see KafkaGroup.join(). ProtocolError if the member is rejected."""
        group = self.groups.get(name)
        if group is None:
            if len(self.groups) >= _MAX_GROUPS:
                raise ProtocolError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED, f"the limit of {_MAX_GROUPS} groups with members is reached"
                )
            group = self.groups[name] = KafkaGroup(name, caller.session.user_id)
        self.check_user(caller, group)
        if sum(map(len, asked.protocols.values())) + sum(each.size_bytes for each in self.groups.values()) > _MAX_BYTES:
            raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the metadata of all group members is too large")
        try:
            group.join(asked, lambda client: f"{client}-{secrets.token_hex(_ID_BYTES)}", respond, self.monotonic())
        finally:
            self._forget_unused(group)

    def find(self, caller: Caller, name: str) -> KafkaGroup | None:
        """Return a group with members, or None; ProtocolError if the group belongs to another user."""
        group = self.groups.get(name)
        if group is not None:
            self.check_user(caller, group)
        return group

    def get(self, caller: Caller, name: str) -> KafkaGroup:
        """Return a group with members; ProtocolError if the group belongs to another user or has no members."""
        group = self.find(caller, name)
        if group is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no members")
        return group

    @staticmethod
    def check_user(caller: Caller, group: KafkaGroup) -> None:
        """Raise an error unless the user owns the group or is allowed to read the server's statistics."""
        if group.user_id == caller.session.user_id:
            return
        try:
            caller.rights.read_servers()
        except PermissionDeniedError:
            raise ProtocolError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "the group belongs to another user") from None

    def leave(self, group: KafkaGroup, member_id: str, instance_id: str | None) -> None:
        """Remove a member of a group; ProtocolError if the member does not exist."""
        group.leave(member_id, instance_id, self.monotonic())
        self._forget_unused(group)

    def tick(self) -> None:
        """Remove members after their session timeout, and complete rebalances that have timed out; called every _TICK_S."""
        now_s = self.monotonic()
        for group in tuple(self.groups.values()):
            group.tick(now_s)
            self._forget_unused(group)

    def _forget_unused(self, group: KafkaGroup) -> None:
        if group.is_unused and self.groups.get(group.name) is group:
            del self.groups[group.name]
