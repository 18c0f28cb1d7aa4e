"""Consumer: the messages of a topic one by one, or some at a time, with offsets that are committed after the work.

    for message in consumer: body       committed when the next message is asked for, or the `with` body ends cleanly
    consumer.poll(); consumer.commit()  by hand

An exception in the body commits nothing of the message it was working on: it comes again.

With a group the consumer shares the topic's partitions with the group's other members: before it polls, and when a
commit tells that the group has changed, it reports what it has finished and learns what it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final

from headstream.client.ahead import FETCH_BYTES, FETCH_COUNT, Ahead
from headstream.client.arguments import StartInput, start_of
from headstream.client.fetching import Fetching
from headstream.client.listening import Listener, PartitionsCallback
from headstream.client.membership import Membership
from headstream.client.places import check_partitions, check_start, find_offset, place_of
from headstream.client.receiving import poll_checked
from headstream.client.transport import RemoteAccess, Transport
from headstream.errors import (
    ClosedError,
    CorruptSendError,
    HeadstreamError,
    InvalidInputError,
    InvalidOptionError,
    PartitionNotFoundError,
    RebalancedError,
)
from headstream.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, ReceivedMessage
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import ConsumerKind, Polled, PollingKind, PollingStrategy
from headstream.model.topology import Topic

__all__ = ["Consumer"]

_WAIT_MS: Final = 1000
"""A waiting consumer looks this often whether it has been closed, from another thread."""


class Consumer:
    """Reads one topic; one thread at a time. Made by Client.consumer(); use it in a `with` statement.

    Args:
        transport: What is behind the client.
        topic: The topic, as it is now.
        committer: Who commits, or None: then nothing is.
        partitions: Which partitions; None is all.
        start: Where to begin in a partition where nothing is committed: an offset, `first`, `last` (after the newest:
            what is appended from now on), or a PollingStrategy.
        states: State codes to deliver; None is all.
        timeout_ms: Iteration ends after so long without a message; None waits for ever.
        session_timeout_ms: How long a member of a group may be silent while others wait for its partitions.
        on_assigned: Called with the topic and the partitions that the consumer begins to read, by a call of the consumer.
        on_revoked: Called with those that it reads no longer, before another member begins with them where it can be.

    Raises:
        PartitionNotFoundError: the topic has no such partition.
        InvalidInputError: `start` cannot be understood.
    """

    def __init__(
        self,
        transport: Transport,
        topic: Topic,
        *,
        committer: Committer | None,
        partitions: Iterable[int] | None = None,
        start: StartInput = "first",
        states: frozenset[int] | None,
        timeout_ms: float | None = None,
        session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
    ) -> None:
        self._transport = transport
        self._name = TopicName(topic.stream, topic.name)
        self._committer = committer
        self._states = states
        self._timeout_ms = timeout_ms
        self._is_closed = False
        self._strategy = check_start(start_of(start), self._name)
        self._share: Membership | None = None
        self._damaged: dict[int, CorruptSendError] = {}
        self._ahead = Ahead(transport.messages, self._name, states)
        numbers = check_partitions(topic, partitions)
        self._listener = Listener(str(self._name), on_assigned, on_revoked)
        self._known = frozenset(numbers)
        if committer is not None and committer.kind is ConsumerKind.GROUP and partitions is None:
            self._fetching = Fetching({})
            self._share = Membership(transport, self._name, committer.name, session_timeout_ms)
            self._follow(is_resting=True)
        else:
            committed = transport.offsets.committed(self._name, committer) if committer is not None else {}
            self._fetching = Fetching(
                {number: committed[number] if number in committed else self._find(number) for number in numbers}
            )
            self._listener.begin(numbers)

    def _find(self, partition: int) -> int:
        return find_offset(self._transport, self._name, partition, self._strategy)

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset of the next message to fetch."""
        return dict(self._fetching.positions)

    @property
    def is_ready(self) -> bool:
        """Whether the next message is here already."""
        return not self._fetching.is_empty

    @property
    def may_wait(self) -> bool:
        """Whether to take a message that is ready may wait for a server: it commits the one before."""
        return self._committer is not None and isinstance(self._transport, RemoteAccess)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer is closed", where=str(self._name), advice="Make another with log.consumer()")

    # -- one by one -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        """Return the next message, having committed the one before; wait for it as long as timeout_ms says."""
        message = self.take()
        if message is None and self.fetch(self._timeout_ms):
            message = self._fetching.deliver()
        if message is None:
            raise StopIteration
        return message

    def take(self) -> ReceivedMessage | None:
        """Return the next message if it is here already, having committed the one before; else None."""
        self._fetching.settle_seeks()
        self.finish()
        if self._share is not None and (self._share.is_resting or self._share.is_due):
            self._follow()  # what was fetched may be another member's by now
        return self._fetching.deliver()

    def finish(self) -> None:
        """Commit the message that iteration delivered last; asking for the next one does this too."""
        self._check_open()
        self._fetching.finish()
        self._commit_done()

    def fetch(self, timeout_ms: float | None = 0) -> bool:
        """Have messages ready for iteration or poll(), without delivering any, and return whether there are some.

        Args:
            timeout_ms: How long to wait for the first one; None waits for ever.
        """
        self._check_open()
        self._follow()
        return not self._fetching.is_empty or self._fetch_within(timeout_ms)

    # -- by hand ----------------------------------------------------------------------------------------------

    def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[ReceivedMessage]:
        """Return up to so many messages; they are not committed until commit() is called.

        Args:
            count: The most messages, 1 or more.
            timeout_ms: How long to wait for the first one.

        Raises:
            CorruptSendError: the next messages of a partition are damaged; seek(error.partition, error.until_offset)
                goes on behind them. Until then other partitions are read on, and the error comes again when they have
                nothing more.
        """
        self._check_open()
        if count < 1:
            raise InvalidInputError(f"a poll asks for one message or more, not {count}", where=str(self._name))
        self.fetch(timeout_ms)
        messages = self._fetching.hand_out(count)
        with suppress(HeadstreamError):  # what is in hand is not lost by it: the next poll meets it again
            while messages and len(messages) < count and self._fetch():
                messages += self._fetching.hand_out(count - len(messages))
        return messages

    def commit(self, message: Message | None = None) -> None:
        """Commit everything that was delivered until now, the message in hand included; or up to one message.

        Args:
            message: One that this consumer has delivered: its partition is committed up to and with it, other partitions are
                not. None commits everything.

        Raises:
            InvalidInputError: the message is not from this topic.
            RebalancedError: another member of the group has one of the partitions by now, since this one was silent for
                longer than session_timeout_ms; what was delivered of it comes again to the other.
        """
        self._check_open()
        if self._committer is None:
            raise InvalidOptionError(
                "nobody commits: the consumer has no name and no group",
                where=str(self._name),
                advice='Say who it is, as in log.consumer("shop/orders", group="billing")',
            )
        if message is None:
            self._fetching.release()
        elif not self._fetching.finish_up_to(*place_of(message, self._name)):
            raise RebalancedError(
                f"the consumer does not read partition {message.partition} any more",
                where=str(self._name),
                advice="Another member of the group may have it: it gets the message again",
            )
        self._commit_done(is_by_hand=True)

    def seek(self, partition: int, offset: StartInput) -> None:
        """Continue at another place in a partition; the next commit makes it durable, and so does the next message of a loop.

        Args:
            partition: One of the consumer's.
            offset: An offset, `first`, `last` (after the newest), or a PollingStrategy.
        """
        self._check_open()
        self._follow()
        if partition not in self._fetching.positions:
            raise PartitionNotFoundError(
                f"the consumer does not read partition {partition}",
                where=str(self._name),
                advice=f"It reads {', '.join(map(str, self._fetching.positions)) or 'none'}",
            )
        self._damaged.pop(partition, None)
        strategy = start_of(offset)
        self._fetching.seek(partition, find_offset(self._transport, self._name, partition, strategy))

    # -- fetching and committing --------------------------------------------------------------------------------

    def _fetch_within(self, timeout_ms: float | None) -> bool:
        """Fetch, waiting as long as said, and return whether something came."""
        try:
            return self._fetch_or_wait(timeout_ms)
        except CorruptSendError as error:
            self._damaged[error.partition] = error
            raise

    def _fetch_or_wait(self, timeout_ms: float | None) -> bool:
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while not self._fetch():
            self._commit_done()  # what was stepped over
            rest_ms = _WAIT_MS if until is None else min(_WAIT_MS, (until - time.monotonic()) * 1000)
            if rest_ms <= 0:
                self._rest()
                return False
            self._wait(rest_ms)
            self._check_open()
            self._follow()
        return True

    def _wait(self, timeout_ms: float) -> None:
        """Wait for messages, or for a change in the group."""
        messages, share = self._transport.messages, self._share
        if share is None:
            messages.wait(self._name, self._fetching.positions, timeout_ms)
        else:
            self._rest()
            messages.wait(self._name, self._fetching.positions, timeout_ms, member=share.member, generation=share.generation)

    def _fetch(self) -> bool:
        """Poll the partitions in turn until one has something, and return whether one has.

        One that is known to be damaged is left out until somebody seeks in it: the error is raised again when the others
        have nothing more.
        """
        for partition, position in self._fetching.next_polls():
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
        return poll_checked(
            self._transport, self._name, partition, start, FETCH_COUNT, polled=polled, states=self._states, size_bytes=FETCH_BYTES
        )

    def _commit_done(self, *, is_by_hand: bool = False) -> None:
        done = self._fetching.committable()
        if not done or self._committer is None:
            return
        if self._share is None:
            self._transport.offsets.commit(self._name, self._committer, done, generations=self._fetching.generations)
            return
        is_resting = self._fetching.is_idle and (is_by_hand or self._fetching.is_empty)
        try:
            if self._share.commit(done, self._fetching.generations, is_resting=is_resting):
                self._follow(is_resting=is_resting)
        except RebalancedError:
            self._follow(is_resting=is_resting)
            if is_by_hand:
                raise

    # -- sharing the partitions of a group ----------------------------------------------------------------------

    def _follow(self, *, is_resting: bool = False) -> None:
        """Report to the group: give up what is asked for and not in hand, and begin with what is new."""
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

    def _report(self, share: Membership, released: Iterable[int] = (), *, is_resting: bool) -> tuple[list[int], list[int]]:
        """Report to the group and return what follows from it; see Fetching.follow()."""
        member, assignment = share.member, share.report(released, is_resting=is_resting)
        if share.member is not member:
            self._fetching.forget()
        return self._fetching.follow(assignment)

    def _begin(self, partition: int) -> int:
        """Return where the group begins in a partition where it has committed nothing.

        A place that is not the first message is committed at once, so that the next owner, too, begins there. What came
        to a partition since the topic had it is all new to the group.
        """
        if self._strategy.kind is PollingKind.FIRST or partition not in self._known:
            return find_offset(self._transport, self._name, partition, PollingStrategy.first())
        offset = self._find(partition)
        if self._share is not None:
            self._share.commit({partition: offset}, {}, is_resting=self._share.is_resting)
        return offset

    def _rest(self) -> None:
        """Let the group give away what it pleases, nothing being in hand."""
        if self._share is not None and self._fetching.is_idle and not self._share.is_resting:
            self._follow(is_resting=True)

    def close(self, *, commit: bool = True) -> None:
        """End; closing twice is fine.

        Args:
            commit: Whether the message that iteration delivered last is done.
        """
        if not self._is_closed:
            try:
                if commit:
                    self.finish()
                self._listener.end_others(())
            finally:
                self._is_closed = True
                self._ahead.cancel()
                if self._share is not None:
                    self._share.leave()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close(commit=error is None)
