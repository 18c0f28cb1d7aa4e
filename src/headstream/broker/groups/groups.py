"""Groups: members join, report, commit and leave; groups are listed and deleted, and their offsets are set."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from headstream.broker.backing import Backing
from headstream.broker.deliveries.transitions import GroupPlace, Transitions
from headstream.broker.groups.group_registry import LiveGroup, registry_of
from headstream.broker.messages.offsets import BrokerOffsets
from headstream.broker.topics import Topics
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS, Assignment, Group, GroupPartition, Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import ConsumerKind, OffsetOwner
from headstream.core.model.topology import Partition
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.errors import (
    ClosedError,
    GroupInUseError,
    GroupNotFoundError,
    InvalidOptionError,
    OffsetOutOfRangeError,
    RebalancedError,
)
from headstream.log.administration import delete_group
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.delivery_journal import remove_journals
from headstream.log.partition.offset_file_counts import NO_USER
from headstream.log.partition.pause_state import pause_name


class Groups:
    """Commands for consumer groups. TopicNotFoundError if the topic does not exist.

    Members in one process, even of several clients, share a topic's partitions. Only one process at a time reads for a group:
    members in other processes wait without partitions until the reading process has ended or has no members.
    """

    def __init__(self, backing: Backing, topics: Topics, offsets: BrokerOffsets, transitions: Transitions) -> None:
        self._transitions = transitions
        self._backing = backing
        self._topics = topics
        self._offsets = offsets
        self._registry = registry_of(backing.log)
        self._joined: dict[int, LiveGroup] = {}

    # -- for members ------------------------------------------------------------------------------------------

    def join(
        self, topic: TopicName, group: str, *, session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS, is_shared: bool = False
    ) -> Member:
        """Add a new member to a group; report() returns its assignment.

        Args:
            session_timeout_ms: Maximum time between reports, and for holding a revoked partition, if there are other members.
            is_shared: Whether the group's members lease messages; such members own no partitions and never time out.

        Raises:
            InvalidOptionError: the timeout is not positive.
            GroupInUseError: the group is held (see hold()) or has members of the other mode.
        """
        OffsetOwner.group(group)  # checks the name
        if not session_timeout_ms > 0:
            raise InvalidOptionError(f"session_timeout_ms must be above 0, not {session_timeout_ms}", where=group)
        live = self._registry.group(self._backing.topic(topic), group)
        with self._changing(live):
            if live.is_held:
                raise self._in_use(topic, group, "connections of Iggy clients, which divide the partitions differently")
            if not live.use_mode(is_shared=is_shared):
                other = "ordered" if is_shared else "shared"
                raise self._in_use(topic, group, f"members in this process, with mode {other!r}")
            member = Member(group, self._registry.next_member())
            timeout_s = math.inf if is_shared else session_timeout_ms / 1000
            live.membership.join(member.id, timeout_s, self._backing.monotonic())
        self._joined[member.id] = live
        return member

    def leave(self, topic: TopicName, member: Member) -> None:
        """Remove a member; other members receive its uncommitted messages. A second call does nothing."""
        live = self._joined.pop(member.id, None)
        if live is not None:
            with self._changing(live):
                live.membership.leave(member.id, self._backing.monotonic())

    def abandon(self, topic: TopicName, member: Member) -> None:
        """Remove a member in the background; never blocks, so that finalizers can call it."""
        live = self._joined.pop(member.id, None)
        if live is not None:
            live.abandoned.append(member.id)
            self._backing.log.notify_groups()

    def report(self, topic: TopicName, member: Member, *, released: Iterable[int] = (), is_resting: bool = False) -> Assignment:
        """Record a member's heartbeat and released partitions; return the member's assignment.

        Args:
            released: Revoked partitions that the member has finished.
            is_resting: Whether no message is in progress and the member reports before it takes the next message.

        Raises:
            RebalancedError: the member was removed; it can join again.
        """
        record = self._backing.topic(topic)
        live = self._live(topic, member)
        with self._changing(live):
            partitions = range(1, record.partitions + 1) if live.try_acquire() else range(0)
            now_s = self._backing.monotonic()
            return live.membership.report(member.id, partitions, now_s, released=released, is_resting=is_resting)

    def commit(
        self,
        topic: TopicName,
        member: Member,
        offsets: Mapping[int, int],
        *,
        generation: int,
        generations: Mapping[int, int] = MappingProxyType({}),
        is_resting: bool = False,
        user_id: int = NO_USER,
    ) -> int:
        """Commit a group's offsets for a member; return the group's generation. If it has changed, the member must report.

        Args:
            offsets: Partition -> offset of the next message.
            generation: The group's generation at the member's last report.
            generations: Partition -> the partition's generation when its messages were polled.

        Raises:
            RebalancedError: the member has lost a partition; all other offsets are committed.
            OffsetOutOfRangeError: a partition was purged or recreated meanwhile; nothing is committed in this partition.
        """
        live = self._live(topic, member)
        with live.lock:  # while the lock is held, no other member gets the partition
            membership = live.membership
            owned = {number: offset for number, offset in offsets.items() if membership.owns(member.id, number, generation)}
            store = self._backing.log.offsets(self._backing.topic(topic))
            before = live.reached_offsets(owned, lambda number: store.committed(OffsetOwner.group(member.group), number))
            self._offsets.commit(topic, OffsetOwner.group(member.group), owned, generations=generations, user_id=user_id)
            live.reached |= owned
            membership.touch(member.id, self._backing.monotonic(), is_resting=is_resting)
            now = membership.generation
        for number, offset in owned.items():
            if before[number] < offset:
                done = Transition(TransitionKind.ACKED, before[number], offset, f"member {member.id}")
                self._transitions.record(GroupPlace(topic, member.group, number, user_id), [done])
        if len(owned) < len(offsets):
            raise _lost(topic, member.group, [number for number in sorted(offsets) if number not in owned])
        return now

    @contextmanager
    def locked(self, topic: TopicRecord, group: str) -> Iterator[None]:
        """Hold the lock of a group, so that no other thread commits the group's offsets."""
        live = self._registry.group(topic, group)  # kept while the lock is held: the registry refers to groups weakly
        with live.lock, self._backing.naming_deletions(topic):
            yield

    @contextmanager
    def leasing(self, topic: TopicRecord, group: str, member: Member | None = None) -> Iterator[bool]:
        """Lock a group while its messages are leased or settled; yield whether no other process reads for the group."""
        live = self._registry.group(topic, group) if member is None else self._live(topic.name, member)
        with self._changing(live), self._backing.naming_deletions(topic):
            yield live.try_acquire()

    @contextmanager
    def fenced(
        self, topic: TopicRecord, group: str, member: Member | None, partition: int, generation: int, *, is_resting: bool
    ) -> Iterator[int]:
        """Lock a group while the owner of a partition settles messages in the partition; yield the group's generation.

        Args:
            member: None for a consumer without a group.
            generation: The group's generation at the member's last report.

        Raises:
            RebalancedError: the member has lost the partition.
        """
        if member is None:
            with self.locked(topic, group):
                yield 0
            return
        live = self._live(topic.name, member)
        with live.lock, self._backing.naming_deletions(topic):
            if not live.membership.owns(member.id, partition, generation):
                raise _lost(topic.name, member.group, [partition])
            live.reached.pop(partition, None)
            yield live.membership.generation
            live.membership.touch(member.id, self._backing.monotonic(), is_resting=is_resting)

    def has_changed(self, topic: TopicName, member: Member, generation: int) -> bool:
        """Return whether a member's group has changed since a generation."""
        live = self._live(topic, member)
        return bool(live.abandoned) or live.membership.generation != generation

    # -- administration --------------------------------------------------------------------------------------

    def list(self, topic: TopicName) -> builtins.list[Group]:
        """Return a topic's groups by name: created groups, groups with commits, and groups with members in this process."""
        record = self._backing.topic(topic)
        committed = [owner.name for owner in self._backing.log.offsets(record).consumers() if owner.kind is ConsumerKind.GROUP]
        made = [group.name for group in record.groups]
        names, partitions = sorted({*made, *committed, *self._registry.names(record)}), self._topics.get(topic).partitions
        groups = [self._describe(record, name, partitions) for name in names]
        return [group for group in groups if _exists(record, group)]

    def get(self, topic: TopicName, group: str) -> Group:
        """Return one group; GroupNotFoundError if the group was not created and has neither commits nor members."""
        record = self._backing.topic(topic)
        found = self._describe(record, group, self._topics.get(topic).partitions)
        if not _exists(record, found):
            raise GroupNotFoundError(
                f"topic {str(topic)!r} has no group {group!r}",
                where=self._backing.log.root,
                advice="A group exists from its creation or its first commit",
            )
        return found

    def delete(self, topic: TopicName, group: str) -> None:
        """Delete a group and its committed offsets.

        Raises:
            GroupInUseError: the group has members in any process.
            LogLockedError: an Iggy client created the group and another process is the log's writer.
        """
        self.get(topic, group)
        with self._unused(topic, group) as record:
            for made in record.groups:
                if made.name == group:
                    delete_group(self._backing.writable_log(), record, made.id)
            store = self._backing.log.offsets(record)
            for number in range(1, record.partitions + 1):
                store.forget(OffsetOwner.group(group), number)
            self._backing.log.files.remove(f"{store.directory}/{pause_name(OffsetOwner.group(group))}")

    def seek(self, topic: TopicName, group: str, offsets: Mapping[int, int], *, user_id: int = NO_USER) -> Group:
        """Set a group's committed offsets; a missing group is created.

        Args:
            offsets: Partition -> offset of the next message to read.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            OffsetOutOfRangeError: an offset is not between the partition's first offset and end offset.
            GroupInUseError: the group has members in any process.
        """
        consumer = OffsetOwner.group(group)
        partitions = {number: self._topics.partition(self._backing.partition(topic, number), number) for number in offsets}
        for number, offset in offsets.items():
            first, end = partitions[number].first_offset, partitions[number].end_offset
            if not first <= offset <= end:
                raise OffsetOutOfRangeError(
                    f"offset {offset} is not in partition {number} of {str(topic)!r}",
                    advice=f"Use {first} to {end}, the offset of the next message",
                )
        with self._unused(topic, group) as record:
            directory, files = self._backing.log.offsets(record).directory, self._backing.log.files
            remove_journals(directory, files, consumer, offsets)
            files.remove(f"{directory}/{pause_name(consumer)}")
            generations = {number: each.generation for number, each in partitions.items()}
            self._offsets.commit(topic, consumer, offsets, generations=generations, user_id=user_id)
        return self.get(topic, group)

    def hold(self, topic: TopicName, group: str) -> Callable[[], None]:
        """Keep members out of a group while connections of Iggy clients read for it, until the returned function is called.
        GroupInUseError: the group has members in any process.
        """
        live = self._registry.group(self._backing.topic(topic), group)
        with self._unused(topic, group):
            live.is_held = True

        def let_go() -> None:
            with self._changing(live):
                live.is_held = False

        return let_go

    # -- shared helpers --------------------------------------------------------------------------------------

    def _live(self, topic: TopicName, member: Member) -> LiveGroup:
        try:
            return self._joined[member.id]
        except KeyError:
            raise ClosedError(
                f"the member has left group {member.group!r}", where=str(topic), advice="Create a consumer with log.consumer()"
            ) from None

    @contextmanager
    def _changing(self, live: LiveGroup) -> Iterator[None]:
        """Lock a group; wake waiting members if the group has changed."""
        with live.lock:
            before = live.membership.generation
            try:
                live.remove_abandoned(self._backing.monotonic())
                yield
            finally:
                live.release_if_empty()
                is_changed = live.membership.generation != before
        if is_changed:
            self._backing.log.notify_groups()

    @contextmanager
    def _unused(self, topic: TopicName, group: str) -> Iterator[TopicRecord]:
        """Block all readers of a group that has no members."""
        record = self._backing.topic(topic)
        live = self._registry.group(record, group)
        with self._changing(live), self._backing.naming_deletions(record):
            if live.membership.is_empty and not live.is_held and live.try_acquire():
                yield record
                return
            process = live.other_process()
        holder = "members in this process" if process is None else f"process {process}" if process else "another process"
        raise self._in_use(topic, group, holder)

    def _in_use(self, topic: TopicName, group: str, holder: str) -> GroupInUseError:
        return GroupInUseError(
            f"group {group!r} of {str(topic)!r} is in use by {holder}",
            where=self._backing.log.root,
            advice="Close the group's consumers first",
        )

    def _describe(self, record: TopicRecord, name: str, partitions: Iterable[Partition]) -> Group:
        live = self._registry.group(record, name)
        with live.lock:
            live.remove_abandoned(self._backing.monotonic())
            live.release_if_empty()
            members, generation, owners = live.membership.members(), live.membership.generation, live.membership.owners
        committed = self._offsets.committed(record.name, OffsetOwner.group(name))
        found = tuple(
            GroupPartition(each.number, committed.get(each.number), each.first_offset, each.end_offset, owners.get(each.number))
            for each in partitions
        )
        return Group(str(record.name), name, generation if members else 0, members, found, live.other_process())


def _lost(topic: TopicName, group: str, partitions: Iterable[int]) -> RebalancedError:
    return RebalancedError(
        f"nothing is committed in partition {', '.join(map(str, partitions))}, which another member of group {group!r} owns now",
        where=str(topic),
        advice="Uncommitted messages are delivered again; set a longer session_timeout_ms if messages take longer",
    )


def _exists(record: TopicRecord, group: Group) -> bool:
    if group.members or group.process is not None or any(made.name == group.name for made in record.groups):
        return True
    return any(partition.committed is not None for partition in group.partitions)
