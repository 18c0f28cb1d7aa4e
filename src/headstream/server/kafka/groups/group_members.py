"""Members and states of the groups of Kafka clients."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Respond: TypeAlias = Callable[[dict[str, Any]], None]
"""Sends the response to a request that waits for other members."""


class GroupState(enum.StrEnum):
    """The state of a group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class KafkaMember:
    """One member.

    Args:
        instance_id: The id of a static member, which keeps its assignment if it rejoins in time.
        rebalance_s: Maximum time that other members wait for this member to rejoin, seconds.
        protocols: Assignment protocol -> metadata, preferred protocol first.
    """

    id: str
    instance_id: str | None
    client_id: str
    host: str
    session_s: float
    rebalance_s: float
    protocols: dict[str, bytes]
    seen_s: float
    assignment: bytes = b""
    joining: Respond | None = None
    syncing: Respond | None = None

    @property
    def size_bytes(self) -> int:
        """Stored bytes of metadata and assignments."""
        return len(self.assignment) + sum(map(len, self.protocols.values()))


@dataclass(slots=True)
class Joining:
    """A join request of a member.

    Args:
        member_id: Empty for a new member.
        instance_id: The id of a static member.
        protocol_type: The group's type, for example `consumer`.
        protocols: Assignment protocol -> metadata, preferred protocol first.
        rebalance_s: Maximum time that other members wait for this member to rejoin, seconds.
        must_return: Whether a new member first receives an id and must join again with this id.
        can_skip: Whether the member, if it is the leader, supports a join response that does not request an assignment.
    """

    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: dict[str, bytes]
    session_s: float
    rebalance_s: float
    client_id: str
    host: str
    must_return: bool
    can_skip: bool = False

    def make_member(self, member_id: str, now_s: float) -> KafkaMember:
        """Return the joining member, which has no protocols yet."""
        named = member_id, self.instance_id, self.client_id, self.host
        return KafkaMember(*named, self.session_s, self.rebalance_s, {}, now_s)
