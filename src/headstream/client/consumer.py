"""Consumer: reads the messages of a topic one by one or in lists, and commits offsets after processing.

    for message in consumer: body       committed when the next message is requested, or the `with` body ends without an error
    consumer.poll(); consumer.commit()  by hand

After an exception in the body its message is not committed: it is delivered again. With a group the consumer shares the topic's
partitions with other members: before each poll and after a change it reports finished partitions and receives its assignment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Final, Self

from headstream.client.ahead import FETCH_BYTES, FETCH_COUNT, Ahead, ConsumerPollOptions
from headstream.client.arguments import StartInput, start_of
from headstream.client.checks import Milliseconds, check_whole, milliseconds
from headstream.client.closing import closing
from headstream.client.fetching import Fetching
from headstream.client.filtering import Filtering
from headstream.client.listening import AssignmentListener, PartitionsCallback
from headstream.client.membership import GroupMembership
from headstream.client.positions import check_partitions, check_start, find_offset, position_of, unnamed
from headstream.client.receiving import poll_checked
from headstream.client.settling import Settling
from headstream.client.transport import OwnConnections, PreparedPolls, RemoteAccess, Transport
from headstream.errors import (
    ClosedError,
    CorruptSendError,
    HeadstreamError,
    InvalidInputError,
    PartitionNotFoundError,
    RebalancedError,
    ServerUnreachableError,
)
from headstream.filters.filter import Filter
from headstream.forks import closed_by_fork, tell_of_forks
from headstream.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, ReceivedMessage
from headstream.model.polling import ConsumerKind, OffsetOwner, Polled, PollingKind, PollingStrategy
from headstream.model.topology import Topic

__all__ = ["Consumer"]

_WAIT_MS: Final = 1000
"""How often a waiting consumer checks whether another thread has closed it."""


class Consumer(Filtering, Settling):
    """Reads one topic; one thread at a time. Created by Client.consumer(); use it in a `with` statement.

    Args:
        transport: The client's transport.
        topic: The topic's current metadata.
        committer: The group or name to commit for; None commits nothing.
        partitions: Partitions to read; None is all.
        start: Where to begin in a partition without a committed offset: an offset, `first`, `last` (after the newest:
            what is appended from now on), or a PollingStrategy.
        states: State codes to deliver; None is all.
        where: The filter that chooses among them, or None.
        timeout_ms: Iteration ends after this time without a message; None waits without limit.
        session_timeout_ms: How long a group member can be silent before it loses partitions that others wait for.
        on_assigned: Called with the topic and the partitions that the consumer starts to read, from a call of the consumer.
        on_revoked: Called with the partitions it stops reading, if possible before another member starts to read them.

    Raises:
        PartitionNotFoundError: the topic has no such partition.
        InvalidInputError: `start` is invalid.
    """

    def __init__(
        self,
        transport: Transport,
        topic: Topic,
        *,
        committer: OffsetOwner | None,
        partitions: Iterable[int] | None = None,
        start: StartInput = "first",
        states: frozenset[int] | None,
        where: Filter | None = None,
        timeout_ms: float | None = None,
        session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
    ) -> None:
        self._own = transport.for_consumer() if isinstance(transport, OwnConnections) else None
        transport = self._transport = self._own or transport
        self._name = TopicName(topic.stream, topic.name)
        self._committer = committer
        self._options: ConsumerPollOptions = {"states": states, "size_bytes": FETCH_BYTES, "where": where}
        self._timeout_ms = timeout_ms
        self._is_closed = self._is_parents = False
        tell_of_forks(self)
        self._strategy = check_start(start_of(start), self._name)
        self._share: GroupMembership | None = None
        self._damaged: dict[int, CorruptSendError] = {}
        self._prepared = transport.messages if isinstance(transport.messages, PreparedPolls) else None
        self._ahead = Ahead(transport.messages, self._name, self._options)
        numbers = check_partitions(topic, partitions)
        self._listener = AssignmentListener(str(self._name), on_assigned, on_revoked)
        self._known = frozenset(numbers)
        if committer is not None and committer.kind is ConsumerKind.GROUP and partitions is None:
            self._fetching = self._make_fetching({})
            self._share = GroupMembership(transport, self._name, committer.name, session_timeout_ms)
            with self._share.leaving_on_error():
                self._follow(is_resting=True)
        else:
            committed = transport.offsets.committed(self._name, committer) if committer is not None else {}
            positions = {number: committed[number] if number in committed else self._find(number) for number in numbers}
            self._fetching = self._make_fetching(positions)
            self._listener.begin(numbers)

    def _make_fetching(self, positions: Mapping[int, int]) -> Fetching:
        return Fetching(positions)

    def _find(self, partition: int) -> int:
        return find_offset(self._transport, self._name, partition, self._strategy)

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset of the next message to fetch."""
        return dict(self._fetching.positions)

    @property
    def is_ready(self) -> bool:
        """Whether the next message is already buffered."""
        return not self._fetching.is_empty

    @property
    def may_wait(self) -> bool:
        """Whether take() can block on a server although a message is buffered: it commits the previous one first."""
        return self._committer is not None and isinstance(self._transport, RemoteAccess)

    def after_fork(self) -> None:
        """Leave the messages, the membership and the leases to the parent."""
        self._is_parents = self._is_closed = True

    def _check_open(self) -> None:
        if self._is_parents:
            raise closed_by_fork("consumer")
        if self._is_closed:
            raise ClosedError("the consumer is closed", where=str(self._name), advice="Create another with log.consumer()")

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        """Commit the previous message and return the next one, waiting up to timeout_ms."""
        message = self.take()
        if message is None and self.fetch(self._timeout_ms):
            message = self._fetching.deliver()
        if message is None:
            raise StopIteration
        return message

    def take(self) -> ReceivedMessage | None:
        """Commit the previous message and return the next one if it is buffered, else None."""
        self._fetching.settle_seeks()
        self.finish()
        if self._share is not None and (self._share.is_resting or self._share.is_due):
            self._follow()  # fetched partitions can belong to another member by now
        return self._fetching.deliver()

    def finish(self) -> None:
        """Commit the message that iteration delivered last; requesting the next one does this too."""
        self._check_open()
        self._fetching.finish()
        self._commit_done()

    def fetch(self, timeout_ms: float | None = 0) -> bool:
        """Fetch messages for iteration or poll() without delivering any, and return whether some are buffered.

        Args:
            timeout_ms: How long to wait for the first one, milliseconds; None waits without limit.
        """
        self._check_open()
        if timeout_ms != 0 and self._has_read_everything:
            return self._fetch_within(timeout_ms, waits_first=True)
        self._follow()
        return not self._fetching.is_empty or self._fetch_within(timeout_ms)

    @property
    def _has_read_everything(self) -> bool:
        """Whether the next message has yet to come: a member that has none in progress waits without asking for it again."""
        can_wait = self._share is not None and self._share.can_wait and self._ahead.is_active
        return can_wait and self._fetching.is_idle and self._fetching.is_at_end and not self._damaged

    def poll(self, count: int = 100, *, timeout_ms: Milliseconds = 0) -> list[ReceivedMessage]:
        """Return up to `count` messages; commit() commits them.

        Args:
            count: Maximum number of messages, at least 1.
            timeout_ms: How long to wait for the first one, milliseconds or a timedelta.

        Raises:
            CorruptSendError: the next messages of a partition are damaged; seek(error.partition, error.until_offset) skips them.
                Until then the other partitions are read, and the error is raised again when they have no more messages.
        """
        self._check_open()
        if check_whole("count", count) < 1:
            raise InvalidInputError(f"a poll requests at least one message, not {count}", where=str(self._name))
        was_empty = self._fetching.is_empty
        self.fetch(milliseconds("timeout_ms", timeout_ms))
        messages = self._fetching.hand_out(count, is_first=True)
        with suppress(HeadstreamError):  # buffered messages are returned first: the next poll raises the error again
            while messages and len(messages) < count and not (was_empty and self._fetching.is_at_end) and self._fetch():
                messages += self._fetching.hand_out(count - len(messages))
        return messages

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of messages; see Settling.put_back()."""
        self._fetching.undeliver(messages)

    def commit(self, message: Message | None = None) -> None:
        """Commit everything delivered so far, including the message being processed; or up to one message.

        Args:
            message: A message that this consumer delivered: its partition is committed up to and including it, other
                partitions are not. None commits everything.

        Raises:
            InvalidInputError: the message is not from this topic.
            RebalancedError: this consumer was silent for longer than session_timeout_ms, and one of the partitions now
                belongs to another member of the group, which receives its uncommitted messages again.
        """
        self._check_open()
        if self._committer is None:
            raise unnamed(self._name)
        if message is None:
            self._fetching.release()
        elif not self._fetching.finish_up_to(*position_of(message, self._name)):
            raise RebalancedError(
                f"the consumer does not read partition {message.partition} any more",
                where=str(self._name),
                advice="Another member of the group may have it: it gets the message again",
            )
        self._commit_done(is_by_hand=True)

    def seek(self, partition: int, offset: StartInput) -> None:
        """Continue at another position in a partition; the next commit, or the next message of a loop, makes it durable.

        Args:
            partition: One of the consumer's partitions.
            offset: An offset, `first`, `last` (after the newest), or a PollingStrategy.
        """
        self._check_open()
        self._follow()
        if check_whole("partition", partition) not in self._fetching.positions:
            raise PartitionNotFoundError(
                f"the consumer does not read partition {partition}",
                where=str(self._name),
                advice=f"It reads {', '.join(map(str, self._fetching.positions)) or 'none'}",
            )
        self._damaged.pop(partition, None)
        strategy = start_of(offset)
        self._fetching.seek(partition, find_offset(self._transport, self._name, partition, strategy))

    def _fetch_within(self, timeout_ms: float | None, *, waits_first: bool = False) -> bool:
        """Fetch, waiting up to a timeout, and return whether messages are buffered."""
        try:
            return self._fetch_or_wait(timeout_ms, waits_first=waits_first)
        except CorruptSendError as error:
            self._damaged[error.partition] = error
            raise

    def _fetch_or_wait(self, timeout_ms: float | None, *, waits_first: bool) -> bool:
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while waits_first or not self._fetch():
            self._commit_done()  # skipped messages
            rest_ms = _WAIT_MS if until is None else min(_WAIT_MS, (until - time.monotonic()) * 1000)
            if not self._fetching.is_scanning:
                if rest_ms <= 0 and not waits_first:
                    self._rest()
                    return False
                self._wait(rest_ms)
            waits_first = False
            self._check_open()
            self._follow()
        return True

    def _wait(self, timeout_ms: float) -> None:
        """Wait for messages or a change of the group."""
        messages, share = self._transport.messages, self._share
        if share is None:
            messages.wait(self._name, self._fetching.positions, timeout_ms)
        else:
            self._rest()
            messages.wait(self._name, self._fetching.positions, timeout_ms, member=share.member, generation=share.generation)

    def _fetch(self) -> bool:
        """Poll the partitions in turn until one has messages, and return whether one has.

        A damaged partition is skipped until a seek in it; its error is raised again when the others have no more messages.
        """
        polls = self._fetching.next_polls()
        if self._prepared is not None:
            self._prepared.prepare(self._name, dict(polls))
        for partition, position in polls:
            if partition in self._damaged:
                continue
            polled, messages = self._poll(partition, position)
            self._fetching.feed(polled, messages)
            if messages:
                self._ahead.ask(self._fetching.expected())
                return True
        for partition, error in self._damaged.items():
            if partition in self._fetching.positions:
                raise error
        return False

    def _poll(self, partition: int, position: int) -> tuple[Polled, list[ReceivedMessage]]:
        start, polled = PollingStrategy.offset(position), self._ahead.take(partition, position)
        return poll_checked(self._transport, self._name, partition, start, FETCH_COUNT, polled=polled, **self._options)

    def _commit_done(self, *, is_by_hand: bool = False) -> None:
        done = self._fetching.committable()
        if not done or self._committer is None:
            return
        share, has_changed = self._share, False
        is_resting = self._fetching.is_idle and (is_by_hand or self._fetching.is_empty)
        try:
            if share is None:
                self._transport.offsets.commit(self._name, self._committer, done, generations=self._fetching.generations)
            else:
                has_changed = share.commit(done, self._fetching.generations, is_resting=is_resting)
        except ServerUnreachableError:
            self._fetching.put_back(done)
            raise
        except RebalancedError:
            self._follow(is_resting=is_resting)
            if is_by_hand:
                raise
            return
        self._on_committed(done)
        if has_changed:  # an error would be taken for the commit's; the next poll follows again
            with suppress(ServerUnreachableError) if is_by_hand else nullcontext():
                self._follow(is_resting=is_resting)

    def _on_committed(self, offsets: Mapping[int, int]) -> None:
        """Called after each commit; a consumer with interceptors reports it to them."""

    # -- sharing the partitions of a group ----------------------------------------------------------------------

    def _follow(self, *, is_resting: bool = False) -> None:
        """Report to the group: release revoked partitions without messages in progress, and start reading new ones."""
        share = self._share
        if share is None:
            return
        released, added = self._report(share, is_resting=is_resting)
        self._listener.end_others(self._fetching.positions)
        if released:
            _, added = self._report(share, released, is_resting=is_resting)
            self._listener.end_others(self._fetching.positions)
        if added and self._committer is not None:
            committed = self._transport.offsets.committed(self._name, self._committer)
            for partition in added:
                self._damaged.pop(partition, None)
                self._fetching.begin(partition, committed[partition] if partition in committed else self._begin(partition))
            self._listener.begin(added)

    def _report(self, share: GroupMembership, released: Iterable[int] = (), *, is_resting: bool) -> tuple[list[int], list[int]]:
        """Report to the group and return the changes; see Fetching.follow()."""
        member, assignment = share.member, share.report(released, is_resting=is_resting)
        if share.member is not member:
            self._fetching.forget()
        return self._fetching.follow(assignment)

    def _begin(self, partition: int) -> int:
        """Return the group's start position in a partition without a committed offset.

        A position other than the first message is committed at once, so that the next owner starts there too. A
        partition added to the topic later is read from its first message.
        """
        if self._strategy.kind is PollingKind.FIRST or partition not in self._known:
            return find_offset(self._transport, self._name, partition, PollingStrategy.first())
        offset = self._find(partition)
        if self._share is not None:
            self._share.commit({partition: offset}, {}, is_resting=self._share.is_resting)
        return offset

    def _rest(self) -> None:
        """Allow the group to reassign any partition: no message is in progress."""
        if self._share is not None and self._fetching.is_idle and not self._share.is_resting:
            self._follow(is_resting=True)

    def close(self, *, commit: bool = True) -> None:
        """Close the consumer, within about five seconds if its server is lost; a second call does nothing.

        Args:
            commit: Whether to commit the message that iteration delivered last.

        Raises:
            ServerUnreachableError: the message could not be committed: it is delivered again.
        """
        if self._is_closed:
            return
        with closing():
            try:
                if commit:
                    self.finish()
                self._listener.end_others(())
            finally:
                self._is_closed = True
                self._ahead.cancel()
                if self._share is not None:
                    self._share.leave()
                if self._own is not None:
                    self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close(commit=error is None)
