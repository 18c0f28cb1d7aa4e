"""Groups: members come, report, commit and go; and what is known of a group from outside."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from headstream.broker.backing import Backing
from headstream.broker.group_registry import LiveGroup, registry_of
from headstream.broker.offsets import Offsets
from headstream.broker.topics import Topics
from headstream.errors import (
    ClosedError,
    GroupInUseError,
    GroupNotFoundError,
    InvalidOptionError,
    OffsetOutOfRangeError,
    RebalancedError,
)
from headstream.log.administration import delete_group
from headstream.log.catalog import TopicRecord
from headstream.model.groups import DEFAULT_SESSION_TIMEOUT_MS, Assignment, Group, GroupPartition, Member
from headstream.model.identifiers import TopicName
from headstream.model.polling import Consumer, ConsumerKind

__all__ = ["Groups"]


class Groups:
    """What can be done with consumer groups.

    Members in one process, also of several clients, divide a topic's partitions between them. One process at a time
    reads for a group: members in another stand by, without partitions, until it has none any more or has died.
    """

    def __init__(self, backing: Backing, topics: Topics, offsets: Offsets) -> None:
        self._backing = backing
        self._topics = topics
        self._offsets = offsets
        self._registry = registry_of(backing.log)
        self._joined: dict[int, LiveGroup] = {}

    # -- for members ------------------------------------------------------------------------------------------

    def join(self, topic: TopicName, group: str, *, session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS) -> Member:
        """Take a new member into a group; report() says what it reads.

        Args:
            topic: Stream and topic.
            group: The group's name.
            session_timeout_ms: How long it may be silent while there are others, and keep what it is asked for.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: the time is not more than 0.
            GroupInUseError: it is held, see hold().
        """
        Consumer.group(group)  # checks the name
        if not session_timeout_ms > 0:
            raise InvalidOptionError(f"session_timeout_ms is {session_timeout_ms}", where=group, advice="Use more than 0")
        live = self._registry.group(self._backing.topic(topic), group)
        with self._changing(live):
            if live.is_held:
                raise self._in_use(topic, group, "connections of existing clients, which divide it in another way")
            member = Member(group, self._registry.next_member())
            live.membership.join(member.id, session_timeout_ms / 1000, self._backing.monotonic())
        self._joined[member.id] = live
        return member

    def leave(self, topic: TopicName, member: Member) -> None:
        """Let a member go; what it has not committed comes to others. Leaving twice is fine."""
        live = self._joined.pop(member.id, None)
        if live is not None:
            with self._changing(live):
                live.membership.leave(member.id, self._backing.monotonic())

    def abandon(self, topic: TopicName, member: Member) -> None:
        """Let a member go soon: what a finalizer may call, wherever it runs, since it waits for nothing."""
        live = self._joined.pop(member.id, None)
        if live is not None:
            live.abandoned.append(member.id)
            self._backing.log.ring_groups()

    def report(self, topic: TopicName, member: Member, *, released: Iterable[int] = (), is_resting: bool = False) -> Assignment:
        """Take note that a member is alive and what it gives up, and return what it reads.

        Args:
            topic: Stream and topic.
            member: Who.
            released: Partitions it was asked for and has finished.
            is_resting: Whether it has nothing in hand, and will report before it takes anything.

        Raises:
            RebalancedError: it is no member any more; it may join again.
            TopicNotFoundError: there is no such topic.
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
    ) -> int:
        """Commit where a group goes on, for one of its members.

        Args:
            topic: Stream and topic.
            member: Who commits.
            offsets: Partition -> offset of the next message.
            generation: That of its last report.
            generations: Partition -> the generation of the partition it was polled from.
            is_resting: As for report().

        Returns:
            The generation of the group: where it is not the member's, the member reports.

        Raises:
            RebalancedError: the member does not have one of the partitions any more; in the others it has committed.
            OffsetOutOfRangeError: a partition has been purged or made anew since; nothing of it is committed.
        """
        live = self._live(topic, member)
        with live.lock:  # as long as it is held, nobody else gets the partition
            membership = live.membership
            mine = {number: offset for number, offset in offsets.items() if membership.owns(member.id, number, generation)}
            self._offsets.commit(topic, Consumer.group(member.group), mine, generations=generations)
            membership.touch(member.id, self._backing.monotonic(), is_resting=is_resting)
            now = membership.generation
        if len(mine) < len(offsets):
            lost = ", ".join(str(number) for number in sorted(offsets) if number not in mine)
            raise RebalancedError(
                f"nothing is committed in partition {lost}: another member of group {member.group!r} reads there now",
                where=str(topic),
                advice="What was in hand there comes again to it; a longer session_timeout_ms leaves more time for a message",
            )
        return now

    def has_changed(self, topic: TopicName, member: Member, generation: int) -> bool:
        """Return whether there is something new for a member that knows a generation."""
        live = self._live(topic, member)
        return bool(live.abandoned) or live.membership.generation != generation

    # -- from outside -----------------------------------------------------------------------------------------

    def list(self, topic: TopicName) -> builtins.list[Group]:
        """Return the groups of a topic, by name: those made, those that have committed, those with members here."""
        record = self._backing.topic(topic)
        committed = [who.name for who in self._backing.log.offsets(record).consumers() if who.kind is ConsumerKind.GROUP]
        made = [group.name for group in record.groups]
        groups = [self._describe(record, name) for name in sorted({*made, *committed, *self._registry.names(record)})]
        return [group for group in groups if _exists(record, group)]

    def get(self, topic: TopicName, group: str) -> Group:
        """Return one group.

        Raises:
            TopicNotFoundError: there is no such topic.
            GroupNotFoundError: nobody has made such a group or committed anything for it, and nobody reads for it.
        """
        record = self._backing.topic(topic)
        found = self._describe(record, group)
        if not _exists(record, found):
            raise GroupNotFoundError(
                f"topic {str(topic)!r} has no group {group!r}",
                where=self._backing.log.root,
                advice="A group is there when somebody has made it, and from its first commit on",
            )
        return found

    def delete(self, topic: TopicName, group: str) -> None:
        """Forget a group, and everything it has committed.

        Raises:
            GroupNotFoundError: there is no such group.
            GroupInUseError: it has members, here or in another process.
            LogLockedError: an existing client has made it, and another process is the log's writer.
        """
        self.get(topic, group)
        with self._unused(topic, group) as record:
            for made in record.groups:
                if made.name == group:
                    delete_group(self._backing.writable_log(), record, made.id)
            store = self._backing.log.offsets(record)
            for number in range(1, record.partitions + 1):
                store.forget(Consumer.group(group), number)

    def seek(self, topic: TopicName, group: str, offsets: Mapping[int, int]) -> Group:
        """Say where a group goes on; it is made where there is none.

        Args:
            topic: Stream and topic.
            group: The group's name.
            offsets: Partition -> offset of the next message to read.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            OffsetOutOfRangeError: an offset is not between the partition's first and its end.
            GroupInUseError: the group has members, here or in another process.
        """
        consumer = Consumer.group(group)
        places = {place.number: place for place in self._topics.get(topic).partitions}
        for number, offset in offsets.items():
            self._backing.partition(topic, number)
            if not places[number].first_offset <= offset <= places[number].end_offset:
                raise OffsetOutOfRangeError(
                    f"offset {offset} is not in partition {number} of {str(topic)!r}",
                    advice=f"It has {places[number].first_offset} to {places[number].end_offset}, where the next message comes",
                )
        with self._unused(topic, group):
            self._offsets.commit(topic, consumer, offsets)
        return self.get(topic, group)

    def hold(self, topic: TopicName, group: str) -> Callable[[], None]:
        """Keep members out of a group, here and in other processes, while others read for it in a way of their own.

        Returns:
            What lets them in again.

        Raises:
            TopicNotFoundError: there is no such topic.
            GroupInUseError: it has members, here or in another process.
        """
        live = self._registry.group(self._backing.topic(topic), group)
        with self._unused(topic, group):
            live.is_held = True

        def let_go() -> None:
            with self._changing(live):
                live.is_held = False

        return let_go

    # -- what they share --------------------------------------------------------------------------------------

    def _live(self, topic: TopicName, member: Member) -> LiveGroup:
        try:
            return self._joined[member.id]
        except KeyError:
            raise ClosedError(
                f"the member has left group {member.group!r}", where=str(topic), advice="Make another with log.consumer()"
            ) from None

    @contextmanager
    def _changing(self, live: LiveGroup) -> Iterator[None]:
        """Hold a group for one thread at a time, and wake those that wait when it has changed."""
        with live.lock:
            before = live.membership.generation
            try:
                live.bury(self._backing.monotonic())
                yield
            finally:
                live.release_if_empty()
                is_changed = live.membership.generation != before
        if is_changed:
            self._backing.log.ring_groups()

    @contextmanager
    def _unused(self, topic: TopicName, group: str) -> Iterator[TopicRecord]:
        """Keep everybody from reading for a group, if nobody does."""
        record = self._backing.topic(topic)
        live = self._registry.group(record, group)
        with self._changing(live):
            if live.membership.is_empty and not live.is_held and live.try_acquire():
                yield record
                return
            process = live.other_process()
        who = "members in this process" if process is None else f"process {process}" if process else "another process"
        raise self._in_use(topic, group, who)

    def _in_use(self, topic: TopicName, group: str, who: str) -> GroupInUseError:
        return GroupInUseError(
            f"group {group!r} of {str(topic)!r} is being read for by {who}",
            where=self._backing.log.root,
            advice="Close its consumers first: they would commit over it",
        )

    def _describe(self, record: TopicRecord, name: str) -> Group:
        live = self._registry.group(record, name)
        with live.lock:
            live.bury(self._backing.monotonic())
            live.release_if_empty()
            members, generation, owners = live.membership.members(), live.membership.generation, live.membership.owners
        committed = self._offsets.committed(record.name, Consumer.group(name))
        partitions = tuple(
            GroupPartition(
                place.number, committed.get(place.number), place.first_offset, place.end_offset, owners.get(place.number)
            )
            for place in self._topics.get(record.name).partitions
        )
        return Group(str(record.name), name, generation if members else 0, members, partitions, live.other_process())


def _exists(record: TopicRecord, group: Group) -> bool:
    if group.members or group.process is not None or any(made.name == group.name for made in record.groups):
        return True
    return any(partition.committed is not None for partition in group.partitions)
