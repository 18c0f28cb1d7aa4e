"""Partitions: the partitions of a topic (all, named or group-assigned) that one consumer reads in order.

A consumer with a group shares the topic's partitions with other members: before each poll and after each change, it reports the
partitions that it has released and receives its assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from headstream.client.closing import unlimited
from headstream.client.consumer.ahead import FETCH_COUNT, Ahead, fetch_request
from headstream.client.consumer.fetching import Fetching
from headstream.client.consumer.filtering import FilterCounts
from headstream.client.consumer.listening import AssignmentListener
from headstream.client.consumer.membership import GroupMembership
from headstream.client.consumer.positions import check_partitions, check_start, find_offset, not_read, position_of
from headstream.client.consumer.reading import Reading, ReadingOptions
from headstream.client.consumer.receiving import poll_checked
from headstream.client.transports.transport import PreparedPolls, Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import ConsumerKind, PollingKind, PollingStrategy
from headstream.core.model.topology import Topic
from headstream.errors import CorruptSendError, PartitionNotFoundError


class Partitions:
    """The partitions of one consumer; begin() starts reading.

    Attributes:
        share: The membership of the group; None if the group does not assign partitions.

    Raises:
        PartitionNotFoundError: the topic has no such partition.
        InvalidInputError: the start is `next`.
    """

    def __init__(self, transport: Transport, topic: Topic, fetching: Fetching, options: ReadingOptions) -> None:
        self._transport = transport
        self.topic = TopicName(topic.stream, topic.name)
        self.fetching = fetching
        self._options = options
        self.request = fetch_request(options.states, options.where)
        check_start(options.start, self.topic)
        self.share: GroupMembership | None = None
        self._damaged: dict[int, CorruptSendError] = {}
        self._prepared = transport.messages if isinstance(transport.messages, PreparedPolls) else None
        self._ahead = Ahead(transport.messages, self.topic, self.request)
        self._listener = AssignmentListener(str(self.topic), options.on_assigned, options.on_revoked)
        self._numbers = check_partitions(topic, options.partitions)

    def begin(self) -> None:
        """Join the group, or start reading at the committed offsets."""
        committer = self._options.committer
        if committer is not None and committer.kind is ConsumerKind.GROUP and self._options.partitions is None:
            timeout_ms = self._options.session_timeout_ms
            self.share = GroupMembership(self._transport, self.topic, committer.name, timeout_ms)
            with self.share.leaving_on_error():
                self.follow(is_resting=True)
            return
        committed = {} if committer is None else self._transport.offsets.committed(self.topic, committer)
        start = self._options.start
        positions = {number: committed[number] if number in committed else self.find(number, start) for number in self._numbers}
        for number, offset in positions.items():
            self.fetching.begin(number, offset)
        self._listener.begin(self._numbers)

    def find(self, partition: int, strategy: PollingStrategy) -> int:
        """Resolve a strategy to an offset in a partition; see find_offset()."""
        return find_offset(self._transport, self.topic, partition, strategy)

    # -- messages -----------------------------------------------------------------------------------------------------

    @property
    def has_read_everything(self) -> bool:
        """Whether all stored messages are done: the group member can then wait without sending a new request."""
        can_wait = self.share is not None and self.share.can_wait and self._ahead.is_active
        return can_wait and self.fetching.is_idle and self.fetching.is_at_end and not self._damaged

    @contextmanager
    def noting_damage(self) -> Iterator[None]:
        """If the next messages of a partition are damaged, exclude the partition from polls until the user seeks in it."""
        try:
            yield
        except CorruptSendError as error:
            self._damaged[error.partition] = error
            raise

    def poll(self) -> bool:
        """Poll the partitions until one returns messages; return whether messages were found.

        Raises:
            CorruptSendError: a partition is damaged and all other partitions are read to their ends.
        """
        polls = self.fetching.next_polls()
        if self._prepared is not None:
            self._prepared.prepare(self.topic, dict(polls))
        for partition, position in polls:
            if partition in self._damaged:
                continue
            request, polled = self.request.from_offset(position, FETCH_COUNT), self._ahead.take(partition, position)
            try:
                polled, messages = poll_checked(self._transport, self.topic, partition, request, polled=polled)
            except PartitionNotFoundError:
                if not self._was_deleted(partition):
                    raise
                self.fetching.end(partition)
                continue
            self.fetching.feed(polled, messages)
            if messages:
                self._ahead.ask(self.fetching.expected())
                return True
        for partition, error in self._damaged.items():
            if partition in self.fetching.positions:
                raise error
        return False

    def _was_deleted(self, partition: int) -> bool:
        """Return whether a partition was deleted and the user did not name it."""
        is_named = self._options.partitions is not None
        return not is_named and partition not in {each.number for each in self._transport.topics.get(self.topic).partitions}

    def wait(self, timeout_ms: float, positions: Mapping[int, int]) -> None:
        """Wait for messages at `positions` or a change of the group; the group can reassign partitions meanwhile."""
        self.rest()
        messages, share = self._transport.messages, self.share
        if timeout_ms <= 0:
            return
        if share is None:
            with suppress(PartitionNotFoundError):  # the next poll drops a deleted partition, or raises
                messages.wait(self.topic, positions, timeout_ms)
        else:
            messages.wait(self.topic, positions, timeout_ms, member=share.member, generation=share.generation)

    def seek(self, partition: int, strategy: PollingStrategy) -> None:
        """Continue at another position; see Consumer.seek()."""
        self.follow()
        if partition not in self.fetching.positions:
            raise PartitionNotFoundError(
                f"the consumer does not read partition {partition}",
                where=str(self.topic),
                advice=f"Use one of {', '.join(map(str, self.fetching.positions)) or 'none'}",
            )
        self._damaged.pop(partition, None)
        self.fetching.seek(partition, self.find(partition, strategy))

    # -- offsets ------------------------------------------------------------------------------------------------------

    def mark_done(self, message: Message | None) -> None:
        """Mark all delivered messages as done, or one message and its partition's earlier messages; RebalancedError."""
        if message is None:
            self.fetching.release()
            return
        partition, offset = position_of(message, self.topic)
        if not self.fetching.finish_up_to(partition, offset):
            raise not_read(partition, self.topic)

    def commit(self, offsets: Mapping[int, int], *, is_resting: bool) -> bool:
        """Commit offsets; return whether the group has changed. See GroupMembership.commit()."""
        if self.share is not None:
            return self.share.commit(offsets, self.fetching.generations, is_resting=is_resting)
        assert self._options.committer is not None
        self._transport.offsets.commit(self.topic, self._options.committer, offsets, generations=self.fetching.generations)
        return False

    def report_commit(self, offsets: Mapping[int, int]) -> None:
        """Call the commit hooks of the interceptors."""
        if self._options.chain is not None:
            with unlimited():  # also for tasks that an interceptor starts, which inherit the context
                self._options.chain.commit(str(self.topic), dict(offsets))

    # -- sharing a group's partitions ---------------------------------------------------------------------------------

    def follow(self, *, is_resting: bool = False) -> None:
        """Report to the group, release revoked partitions without messages in progress, and start reading new partitions."""
        share = self.share
        if share is None:
            return
        released, added = self._report(share, is_resting=is_resting)
        self._listener.end_others(self.fetching.positions)
        if released:
            _, added = self._report(share, released, is_resting=is_resting)
            self._listener.end_others(self.fetching.positions)
        if added and self._options.committer is not None:
            committed = self._transport.offsets.committed(self.topic, self._options.committer)
            for partition in added:
                self._damaged.pop(partition, None)
                self.fetching.begin(partition, committed[partition] if partition in committed else self._begin_at(partition))
            self._listener.begin(added)

    def follow_if_due(self) -> None:
        """Report before a buffered message is delivered if its partition may already belong to another member."""
        if self.share is not None and (self.share.is_resting or self.share.is_due):
            self.follow()

    def _report(self, share: GroupMembership, released: Iterable[int] = (), *, is_resting: bool) -> tuple[list[int], list[int]]:
        """Report to the group and return the changes; see Fetching.follow()."""
        member, assignment = share.member, share.report(released, is_resting=is_resting)
        if share.member is not member:
            self.fetching.forget()
        return self.fetching.follow(assignment)

    def _begin_at(self, partition: int) -> int:
        """Return the group's start position in a partition without a committed offset.

        A position other than the first message is committed immediately, so that the next owner starts at the same position. A
        partition added to the topic later is read from its first message.
        """
        start = self._options.start
        if start.kind is PollingKind.FIRST or partition not in self._numbers:
            return self.find(partition, PollingStrategy.first())
        offset = self.find(partition, start)
        if self.share is not None:
            self.share.commit({partition: offset}, {}, is_resting=self.share.is_resting)
        return offset

    def rest(self) -> None:
        """Report that no message is in progress, so that the group can reassign every partition."""
        if self.share is not None and self.fetching.is_idle and not self.share.is_resting:
            self.follow(is_resting=True)

    def end(self) -> None:
        """Notify the user that the consumer has stopped reading all partitions."""
        self._listener.end_others(())

    def close(self) -> None:
        self._ahead.cancel()
        if self.share is not None:
            self.share.leave()


class PartitionReading(Reading):
    """Base class of Readings that read partitions in order."""

    def __init__(self, partitions: Partitions) -> None:
        self.partitions = partitions

    @property
    def positions(self) -> Mapping[int, int]:
        """Partition -> offset of the next message to fetch."""
        return self.partitions.fetching.positions

    @property
    def is_ready(self) -> bool:
        return not self.partitions.fetching.is_empty

    @property
    def is_scanning(self) -> bool:
        return self.partitions.fetching.is_scanning

    @property
    def has_read_everything(self) -> bool:
        return self.partitions.has_read_everything

    @property
    def filter_counts(self) -> FilterCounts:
        return FilterCounts(self.partitions.fetching.scanned_count, self.partitions.fetching.failed_count)

    def close(self) -> None:
        self.partitions.close()
