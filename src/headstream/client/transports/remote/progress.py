"""Committed offsets and consumer groups of a server."""

from __future__ import annotations

import builtins
import math
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from types import MappingProxyType

from headstream.client.closing import CLOSE_S, limited
from headstream.client.transports.remote.caller import Caller
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS, Assignment, Group, GroupMember, GroupPartition, Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.wire.commands.groups import DeleteGroup
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.groups import (
    CommitMember,
    CommitOffsets,
    EnterGroup,
    ExitGroup,
    GetGroupLag,
    GroupLag,
    ListGroupLags,
    ListOffsets,
    ReportMember,
    SeekGroup,
)
from headstream.errors import ClosedError, HeadstreamError, InvalidOptionError, RebalancedError, ServerUnreachableError
from headstream.forks import register_for_forks


class RemoteOffsets:
    """Commands for committed offsets."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def committed(self, topic: TopicName, consumer: OffsetOwner) -> dict[int, int]:
        owner = ConsumerRef(consumer.kind, consumer.name)
        return dict(self._caller.call(ListOffsets(topic.stream, topic.topic, owner)).offsets)

    def commit(
        self,
        topic: TopicName,
        consumer: OffsetOwner,
        offsets: Mapping[int, int],
        *,
        generations: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Commit the offsets of a consumer's next messages."""
        owner = ConsumerRef(consumer.kind, consumer.name)
        self._caller.call(CommitOffsets(topic.stream, topic.topic, owner, offsets, generations))


class RemoteGroups:
    """Consumer group commands.

    A member that the server has removed, because of a restart or a timeout, receives RebalancedError and joins again.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        register_for_forks(self)
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: start without a thread or members, which belong to the parent process."""
        self._abandoned: SimpleQueue[ExitGroup | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def join(
        self, topic: TopicName, group: str, *, session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS, is_shared: bool = False
    ) -> Member:
        """Add a new member to a group; see Groups.join()."""
        OffsetOwner.group(group)  # checks the name
        if not session_timeout_ms > 0:
            raise InvalidOptionError(f"session_timeout_ms must be above 0, not {session_timeout_ms}", where=group)
        timeout_ms = min(math.ceil(session_timeout_ms), (1 << 32) - 1)
        entered = self._caller.call(EnterGroup(topic.stream, topic.topic, group, timeout_ms, is_shared))
        if self._thread is None:
            self._thread = threading.Thread(target=self._let_go, name="headstream-groups", daemon=True)
            self._thread.start()
        return Member(group, entered.member_id)

    def leave(self, topic: TopicName, member: Member) -> None:
        """Remove a member; idempotent."""
        with suppress(ClosedError, ServerUnreachableError):  # the server has removed the member, or removes it after a timeout
            self._caller.call(ExitGroup(topic.stream, topic.topic, member.group, member.id), may_reconnect=False)

    def abandon(self, topic: TopicName, member: Member) -> None:
        """Remove a member in the background; never blocks, so that finalizers can call it."""
        self._abandoned.put(ExitGroup(topic.stream, topic.topic, member.group, member.id))

    def _let_go(self) -> None:
        """Remove the members that finalizers have abandoned."""
        while (command := self._abandoned.get()) is not None:
            with suppress(HeadstreamError):  # the server removes the member after a timeout
                self._caller.call(command, may_reconnect=False)

    def report(self, topic: TopicName, member: Member, *, released: Iterable[int] = (), is_resting: bool = False) -> Assignment:
        """Send a member's heartbeat and released partitions; return the member's assignment."""
        command = ReportMember(topic.stream, topic.topic, member.group, member.id, tuple(released), is_resting)
        try:
            found = self._caller.call(command)
        except ClosedError as error:
            raise as_rebalanced(error) from None
        return Assignment(found.generation, found.partitions, found.revoked)

    def commit(
        self,
        topic: TopicName,
        member: Member,
        offsets: Mapping[int, int],
        *,
        generation: int,
        generations: Mapping[int, int] = MappingProxyType({}),
        is_resting: bool = False,
    ) -> int:
        """Commit offsets of a group for one of its members; return the group's generation."""
        known = {number: now for number, now in generations.items() if number in offsets}
        command = CommitMember(topic.stream, topic.topic, member.group, member.id, max(generation, 0), offsets, known, is_resting)
        try:
            return self._caller.call(command).generation
        except ClosedError as error:
            raise as_rebalanced(error) from None

    def list(self, topic: TopicName) -> builtins.list[Group]:
        return [_group(topic, found) for found in self._caller.call(ListGroupLags(topic.stream, topic.topic))]

    def get(self, topic: TopicName, group: str) -> Group:
        """Return one group; GroupNotFoundError if it does not exist."""
        return _group(topic, self._caller.call(GetGroupLag(topic.stream, topic.topic, group)))

    def delete(self, topic: TopicName, group: str) -> None:
        """Delete a group and its committed offsets; GroupInUseError if it has members."""
        self._caller.call(DeleteGroup(topic.stream, topic.topic, group))

    def seek(self, topic: TopicName, group: str, offsets: Mapping[int, int]) -> Group:
        """Set the offsets of a group."""
        OffsetOwner.group(group)  # checks the name
        return _group(topic, self._caller.call(SeekGroup(topic.stream, topic.topic, group, offsets)))

    def close(self) -> None:
        """Remove abandoned members."""
        if self._thread is not None:
            self._abandoned.put(None)
            self._thread.join(limited(CLOSE_S))  # otherwise, the server removes the members after a timeout


def as_rebalanced(error: ClosedError) -> HeadstreamError:
    """Return RebalancedError if the member is unknown to the server, else the error."""
    if error.status is None:
        return error
    return RebalancedError(
        error.what, where=error.where, advice="Uncommitted messages of the member are delivered again, to another member"
    )


def _group(topic: TopicName, found: GroupLag) -> Group:
    return Group(
        str(topic),
        found.name,
        found.generation,
        tuple(GroupMember(member.id, tuple(member.partitions)) for member in found.members),
        tuple(GroupPartition(**part.values()) for part in found.partitions),
        found.process,
    )
