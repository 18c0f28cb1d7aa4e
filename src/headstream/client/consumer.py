"""Consumer: the messages of a topic one by one, or some at a time, with offsets that are committed after the work.

    for message in consumer: body       committed when the next message is asked for, or the `with` body ends cleanly
    consumer.poll(); consumer.commit()  by hand

An exception in the body commits nothing of the message it was working on: it comes again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final

from headstream.client.fetching import Fetching
from headstream.client.transport import Transport
from headstream.codec.binary import decode_polled
from headstream.errors import ClosedError, InvalidInputError, InvalidOptionError, PartitionNotFoundError
from headstream.model.identifiers import TopicName
from headstream.model.message import Message
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import PollingKind, PollingStrategy
from headstream.model.topology import Topic

__all__ = ["Consumer", "StartInput"]

StartInput = PollingStrategy | int | str
"""Where to begin: an offset, `first`, `last`, or a PollingStrategy."""

_FETCH_COUNT: Final = 1000
_FETCH_BYTES: Final = 1 << 20
"""A fetch: enough that its fixed cost vanishes, little enough that the first message comes soon."""

_WAIT_MS: Final = 250
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
    ) -> None:
        self._transport = transport
        self._name = TopicName(topic.stream, topic.name)
        self._committer = committer
        self._states = states
        self._timeout_ms = timeout_ms
        self._is_closed = False
        committed = transport.offsets.committed(self._name, committer) if committer is not None else {}
        numbers = self._check_partitions(topic, partitions)
        strategy = PollingStrategy.parse(start) if not isinstance(start, PollingStrategy) else start
        self._fetching = Fetching(
            {number: committed.get(number, -1) if number in committed else self._find(number, strategy) for number in numbers}
        )

    def _check_partitions(self, topic: Topic, partitions: Iterable[int] | None) -> list[int]:
        known = [partition.number for partition in topic.partitions]
        if partitions is None:
            return known
        wanted = sorted(set(partitions))
        for number in wanted:
            if number not in known:
                raise PartitionNotFoundError(
                    f"topic {str(self._name)!r} has no partition {number}", advice=f"Its partitions are 1 to {len(known)}"
                )
        if not wanted:
            raise InvalidOptionError("no partition is named", where=str(self._name), advice="Leave the option out for all")
        return wanted

    def _find(self, partition: int, strategy: PollingStrategy) -> int:
        """Return the offset that a strategy stands for."""
        if strategy.kind is PollingKind.OFFSET:
            return strategy.value
        if strategy.kind is PollingKind.TIMESTAMP:
            polled = self._transport.messages.poll(self._name, partition, strategy, 1, states=None)
            return polled.next_offset - polled.count
        places = {place.number: place for place in self._transport.topics.get(self._name).partitions}
        if strategy.kind is PollingKind.FIRST:
            return places[partition].first_offset
        if strategy.kind is PollingKind.LAST:
            return places[partition].end_offset
        raise InvalidInputError(
            "a consumer begins where it has committed to; 'next' says nothing for the first time",
            where=str(self._name),
            advice="Use 'first' or 'last'",
        )

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset of the next message to fetch."""
        return dict(self._fetching.positions)

    @property
    def is_ready(self) -> bool:
        """Whether the next message is here already."""
        return not self._fetching.is_empty

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer is closed", where=str(self._name), advice="Make another with log.consumer()")

    # -- one by one -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """Return the next message, having committed the one before; wait for it as long as timeout_ms says."""
        self.finish()
        if self._fetching.is_empty:
            self.fetch(self._timeout_ms)
        message = self._fetching.deliver()
        if message is None:
            raise StopIteration
        return message

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
        return not self._fetching.is_empty or self._fetch_within(timeout_ms)

    # -- by hand ----------------------------------------------------------------------------------------------

    def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[Message]:
        """Return up to so many messages; nothing of them is committed until commit() is called.

        Args:
            count: The most messages, 1 or more.
            timeout_ms: How long to wait for the first one.
        """
        self._check_open()
        if count < 1:
            raise InvalidInputError(f"a poll asks for one message or more, not {count}", where=str(self._name))
        self.fetch(timeout_ms)
        messages = self._fetching.hand_out(count)
        while messages and len(messages) < count and self._fetch():
            messages += self._fetching.hand_out(count - len(messages))
        return messages

    def commit(self) -> None:
        """Commit everything that was delivered until now, the message in hand included."""
        self._check_open()
        if self._committer is None:
            raise InvalidOptionError(
                "nobody commits: the consumer has no name and no group",
                where=str(self._name),
                advice='Say who it is, as in log.consumer("shop/orders", group="billing")',
            )
        self._fetching.release()
        self._commit_done()

    def seek(self, partition: int, offset: StartInput) -> None:
        """Go on from another place in a partition; commit() or the next message done makes it last.

        Args:
            partition: One of the consumer's.
            offset: An offset, `first`, `last` (after the newest), or a PollingStrategy.
        """
        self._check_open()
        if partition not in self._fetching.positions:
            raise PartitionNotFoundError(
                f"the consumer does not read partition {partition}",
                where=str(self._name),
                advice=f"It reads {', '.join(map(str, self._fetching.positions))}",
            )
        strategy = offset if isinstance(offset, PollingStrategy) else PollingStrategy.parse(offset)
        self._fetching.seek(partition, self._find(partition, strategy))

    # -- fetching and committing --------------------------------------------------------------------------------

    def _fetch_within(self, timeout_ms: float | None) -> bool:
        """Fetch, waiting as long as said, and return whether something came."""
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while not self._fetch():
            rest_ms = _WAIT_MS if until is None else min(_WAIT_MS, (until - time.monotonic()) * 1000)
            self._commit_done()  # what was stepped over
            if rest_ms <= 0:
                return False
            self._transport.messages.wait(self._name, self._fetching.positions, rest_ms)
            self._check_open()
        return True

    def _fetch(self) -> bool:
        """Poll the partitions in turn until one has something, and return whether one has."""
        for partition, position in self._fetching.next_polls():
            polled = self._transport.messages.poll(
                self._name,
                partition,
                PollingStrategy.offset(position),
                _FETCH_COUNT,
                states=self._states,
                size_bytes=_FETCH_BYTES,
            )
            topic = str(self._name)
            messages = [message for chunk in polled.chunks for message in decode_polled(chunk, topic=topic, partition=partition)]
            self._fetching.feed(polled, messages)
            if messages:
                return True
        return False

    def _commit_done(self) -> None:
        done = self._fetching.committable()
        if done and self._committer is not None:
            self._transport.offsets.commit(self._name, self._committer, done, generations=self._fetching.generations)

    def close(self, *, commit: bool = True) -> None:
        """End; closing twice is fine.

        Args:
            commit: Whether the message that iteration delivered last is done.
        """
        if not self._is_closed:
            if commit:
                self.finish()
            self._is_closed = True

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close(commit=error is None)
