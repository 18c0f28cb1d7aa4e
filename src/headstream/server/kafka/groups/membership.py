"""Membership of one group of Kafka clients, which assign partitions themselves; sans-IO.

    empty --join--> preparing --all have joined, or timeout--> completing --the leader's assignment--> stable
                        ^---------- a member joins, leaves, changes, or times out -------------------------'

A static member, which has an instance id, does not leave when its client ends. If it returns before its session timeout, it
receives a new member id and its previous assignment; the generation and the other members are not affected.

A member lists its assignment protocols with metadata, which only members interpret. The response to a join or a sync is sent
later, with the function `respond`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headstream.server.kafka.groups.group_members import GroupState, Joining, KafkaMember, Respond
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError

MAX_MEMBERS: Final = 1000
"""Maximum members of a group, because each change is sent to all members."""

_FIRST_DELAY_S: Final = 0.25
"""Time that the first member of an empty group waits for other members, which usually start at the same time, seconds."""
_ID_LIFE_S: Final = 10.0
"""Time for which a member id stays reserved for a member that has not yet joined with the id, seconds."""


@dataclass(eq=False)
class KafkaGroup:
    """One group, which is owned by the user of its first member."""

    name: str
    user_id: int
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, KafkaMember] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    until_s: float = 0.0
    is_first: bool = False

    @property
    def is_unused(self) -> bool:
        """Whether the group has no members and no joining member."""
        return not self.members and not self.promised

    @property
    def size_bytes(self) -> int:
        """Stored bytes of metadata and assignments."""
        return sum(member.size_bytes for member in self.members.values())

    # -- member requests ------------------------------------------------------------------------------------

    def join(self, asked: Joining, make_id: Callable[[str], str], respond: Respond, now_s: float) -> None:
        """Add a member to the group, or let a member rejoin; the response is sent after all members have joined.

        Args:
            make_id: Returns the id for a new member, derived from the client id.

        Raises:
            ProtocolError: the member is rejected.
        """
        self._check_protocols(asked)
        static = None if asked.instance_id is None or asked.member_id else self._static(asked.instance_id)
        if static is not None:
            self._return(static, asked, make_id, respond, now_s)
            return
        member = self._find_joining(asked, make_id, respond, now_s)
        if member is None:
            return
        is_same = member.protocols == asked.protocols and member.joining is None and member.id in self.members
        is_known = member.id in self.members
        member.protocols, member.session_s, member.rebalance_s = asked.protocols, asked.session_s, asked.rebalance_s
        member.seen_s = now_s
        self.members[member.id] = member
        self.protocol_type = asked.protocol_type
        is_follower = is_known and is_same and member.id != self.leader
        if (self.state is GroupState.COMPLETING and is_known and is_same) or (self.state is GroupState.STABLE and is_follower):
            respond(self._joined(member))
            return
        if member.joining is not None:
            member.joining({"error_code": ErrorCode.REBALANCE_IN_PROGRESS, "member_id": member.id})
        member.joining = respond
        if self.state is not GroupState.PREPARING:
            self._prepare(now_s)
        self._complete_if_all(now_s)

    def _check_protocols(self, asked: Joining) -> None:
        if not asked.protocols or not asked.protocol_type:
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member must have at least one assignment protocol")
        others = [
            member
            for member in self.members.values()
            if member.id != asked.member_id and (asked.instance_id is None or member.instance_id != asked.instance_id)
        ]
        if not others:
            return
        common = set.intersection(*(set(member.protocols) for member in others)) & set(asked.protocols)
        if asked.protocol_type != self.protocol_type or not common:
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group's members use different assignment protocols")

    def _find_joining(self, asked: Joining, make_id: Callable[[str], str], respond: Respond, now_s: float) -> KafkaMember | None:
        """Return the joining member, new or known; None if the member received an id and must join again with this id."""
        if asked.instance_id is not None:
            if asked.member_id:
                return self._check_static(asked.member_id, asked.instance_id)
        elif asked.member_id in self.members:
            return self.members[asked.member_id]
        elif asked.member_id and asked.member_id not in self.promised:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "unknown member")
        elif not asked.member_id and asked.must_return:
            self._check_capacity()
            given = make_id(asked.client_id)
            self.promised[given] = now_s + _ID_LIFE_S
            respond({"error_code": ErrorCode.MEMBER_ID_REQUIRED, "member_id": given})
            return None
        self._check_capacity()
        self.promised.pop(asked.member_id, None)
        return asked.make_member(asked.member_id or make_id(asked.instance_id or asked.client_id), now_s)

    def _check_capacity(self) -> None:
        if len(self.members) + len(self.promised) >= MAX_MEMBERS:
            raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the limit of {MAX_MEMBERS} members is reached")

    def _static(self, instance_id: str) -> KafkaMember | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def _check_static(self, member_id: str, instance_id: str | None) -> KafkaMember:
        static = None if instance_id is None else self._static(instance_id)
        if static is not None and static.id != member_id:
            raise ProtocolError(ErrorCode.FENCED_INSTANCE_ID, "the member was fenced by another member with the same instance id")
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and static is None):
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "unknown member")
        return member

    def _return(self, before: KafkaMember, asked: Joining, make_id: Callable[[str], str], respond: Respond, now_s: float) -> None:
        """Assign a new id to a static member, which keeps its assignment; a client that uses the old id is fenced."""
        for waiting in (before.joining, before.syncing):
            if waiting is not None:
                waiting({"error_code": ErrorCode.FENCED_INSTANCE_ID, "member_id": before.id})
        member = asked.make_member(make_id(before.instance_id or ""), now_s)
        member.protocols, member.assignment = asked.protocols, before.assignment
        self.members = {each.id: each for each in (member if one is before else one for one in self.members.values())}
        leader = self.leader
        if leader == before.id:
            self.leader = member.id
        if self.state is GroupState.STABLE and self._choose() == self.protocol:
            answer = self._joined(member)
            if leader == before.id and asked.can_skip:
                answer["skip_assignment"] = True
            elif leader == before.id:  # the client then considers itself a follower, and assigns nothing
                answer |= {"leader": leader, "members": []}
            respond(answer)
            return
        member.joining = respond
        if self.state is not GroupState.PREPARING:
            self._prepare(now_s)
        self._complete_if_all(now_s)

    def sync(self, request: Mapping[str, Any], respond: Respond, now_s: float) -> None:
        """Store the leader's assignment; respond to a member when its part is available. ProtocolError if rejected."""
        member = self.check(request["member_id"], request["generation_id"], request.get("group_instance_id"), now_s)
        wanted = request.get("protocol_type"), request.get("protocol_name")
        if any(claimed not in (None, known) for claimed, known in zip(wanted, (self.protocol_type, self.protocol), strict=True)):
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group uses a different assignment protocol")
        if self.state is GroupState.PREPARING:
            raise ProtocolError(ErrorCode.REBALANCE_IN_PROGRESS, "the group is rebalancing")
        if self.state is GroupState.STABLE:
            respond(self._synced(member))
            return
        member.syncing = respond
        if member.id == self.leader:
            given = {each["member_id"]: each["assignment"] for each in request["assignments"]}
            self.state = GroupState.STABLE
            for each in self.members.values():
                each.assignment, each.seen_s = given.get(each.id, b""), now_s
                self._answer_sync(each, self._synced(each))

    def _synced(self, member: KafkaMember) -> dict[str, Any]:
        return {"protocol_type": self.protocol_type, "protocol_name": self.protocol, "assignment": member.assignment}

    @staticmethod
    def _answer_sync(member: KafkaMember, answer: dict[str, Any]) -> None:
        respond, member.syncing = member.syncing, None
        if respond is not None:
            respond(answer)

    def beat(self, request: Mapping[str, Any], now_s: float) -> ErrorCode:
        """Record a member's heartbeat; return whether the member must rejoin. ProtocolError if the member does not exist."""
        self.check(request["member_id"], request["generation_id"], request.get("group_instance_id"), now_s)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else ErrorCode.NONE

    def check(self, member_id: str, generation: int, instance_id: str | None, now_s: float) -> KafkaMember:
        """Return a member of a generation, and record a heartbeat; ProtocolError if the member does not exist."""
        member = self._check_static(member_id, instance_id)
        if generation != self.generation:
            raise ProtocolError(ErrorCode.ILLEGAL_GENERATION, f"the group is in generation {self.generation}, not {generation}")
        member.seen_s = now_s
        return member

    def leave(self, member_id: str, instance_id: str | None, now_s: float) -> None:
        """Remove a member; ProtocolError if the member does not exist."""
        if instance_id is not None and not member_id:
            static = self._static(instance_id)
            member_id = "" if static is None else static.id
        if self.promised.pop(member_id, None) is not None:
            self._complete_if_all(now_s)
            return
        self._remove([self._check_static(member_id, instance_id)], now_s)

    # -- time -----------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Remove members after their session timeout, and complete a rebalance that has timed out."""
        for member_id in [each for each, until_s in self.promised.items() if until_s <= now_s]:
            del self.promised[member_id]
        silent = [
            member
            for member in self.members.values()
            if member.joining is None and member.syncing is None and now_s - member.seen_s > member.session_s
        ]
        if silent:
            self._remove(silent, now_s)
        if self.state is GroupState.PREPARING and now_s >= self.until_s:
            self.is_first = False
            self._complete(now_s)
        elif self.state is GroupState.PREPARING:
            self._complete_if_all(now_s)
        elif self.state is GroupState.COMPLETING and now_s >= self.until_s:
            self._remove([member for member in self.members.values() if member.syncing is None], now_s)

    def _remove(self, gone: list[KafkaMember], now_s: float) -> None:
        for member in gone:
            for respond in (member.joining, member.syncing):
                if respond is not None:
                    respond({"error_code": ErrorCode.UNKNOWN_MEMBER_ID, "member_id": member.id})
            del self.members[member.id]
        if not gone:
            return
        if self.state is GroupState.PREPARING:
            self._complete_if_all(now_s)
        elif self.members:
            self._prepare(now_s)
        else:
            self.state = GroupState.EMPTY
            self.generation += 1

    def _prepare(self, now_s: float) -> None:
        """Start a rebalance, in which all members must rejoin."""
        for member in self.members.values():
            self._answer_sync(member, {"error_code": ErrorCode.REBALANCE_IN_PROGRESS})
        self.is_first = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        wait_s = max((member.rebalance_s for member in self.members.values()), default=0.0)
        self.until_s = now_s + (min(_FIRST_DELAY_S, wait_s) if self.is_first else wait_s)

    def _complete_if_all(self, now_s: float) -> None:
        is_all = not self.promised and all(member.joining is not None for member in self.members.values())
        if self.state is GroupState.PREPARING and not self.is_first and is_all:
            self._complete(now_s)

    def _complete(self, now_s: float) -> None:
        """Start a generation with the joined members."""
        for member in [each for each in self.members.values() if each.joining is None]:
            del self.members[member.id]
        self.generation += 1
        if not self.members:
            self.state = GroupState.EMPTY
            return
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol = self._choose()
        self.state = GroupState.COMPLETING
        self.until_s = now_s + max(member.rebalance_s for member in self.members.values())
        for member in self.members.values():
            respond, member.joining, member.seen_s, member.assignment = member.joining, None, now_s, b""
            if respond is not None:
                respond(self._joined(member))

    def _choose(self) -> str:
        """Return the protocol that all members support and most members prefer."""
        common = set.intersection(*(set(member.protocols) for member in self.members.values()))
        votes = Counter(next(name for name in member.protocols if name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _joined(self, member: KafkaMember) -> dict[str, Any]:
        members = self.members.values() if member.id == self.leader else ()
        return {
            "error_code": ErrorCode.NONE,
            "generation_id": self.generation,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "leader": self.leader,
            "member_id": member.id,
            "members": [
                {"member_id": each.id, "group_instance_id": each.instance_id, "metadata": each.protocols[self.protocol]}
                for each in members
            ],
        }
