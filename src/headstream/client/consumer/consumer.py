"""Consumer: reads the messages of a topic singly or in lists, and commits offsets after processing.

    for message in consumer: body       commits when the next message is requested or the `with` body ends without an error
    consumer.poll(); consumer.commit()  commits explicitly

If the body raises an exception, its message is not committed and is delivered again. The consumer's Reading (reading.py) fetches
messages and records which messages are done; the loops in this module are the same for all Readings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from headstream.client.arguments import Milliseconds, StartInput, start_of
from headstream.client.checks import check_whole, milliseconds
from headstream.client.closing import closing
from headstream.client.consumer.base import BaseConsumer, lease_settler
from headstream.client.consumer.filtering import FilterCounts
from headstream.client.consumer.partitions import PartitionReading
from headstream.client.consumer.reading import Reading
from headstream.client.consumer.settling import Settler, warning_of_lost_leases
from headstream.client.transports.transport import Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import HeadstreamError, InvalidInputError, InvalidOptionError

_WAIT_MS: Final = 1000
"""Interval at which a waiting consumer checks whether another thread has closed it, milliseconds."""


class Consumer(BaseConsumer):
    """Reads one topic; not thread-safe. Created by Client.consumer(); use it in a `with` statement.

    Args:
        topic: Stream and topic.
        reading: Fetches messages and records which messages are done.
        timeout_ms: Iteration ends after this time without a message; None waits without limit.
        own: A transport that only this consumer uses and closes, or None.
    """

    def __init__(self, topic: TopicName, reading: Reading, timeout_ms: float | None, own: Transport | None = None) -> None:
        super().__init__(timeout_ms, str(topic))
        self._name = topic
        self._reading = reading
        self._settler = reading if isinstance(reading, Settler) else None
        self._own = own

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset of the next message to fetch; empty with `mode="shared"` (see log.group(topic, group))."""
        return dict(self._reading.positions)

    @property
    def filter_counts(self) -> FilterCounts:
        """The number of messages that the filter has examined, and the number of messages to which it could not be applied."""
        return self._reading.filter_counts

    @property
    def is_ready(self) -> bool:
        """Whether the next message is already buffered."""
        return self._reading.is_ready

    @property
    def may_wait(self) -> bool:
        """Whether take() can wait for a server although a message is buffered: take() first commits the previous message."""
        return self._reading.may_wait

    def _find_settler(self, message: Message) -> Settler | None:
        self._check_open()
        return self._settler

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Begin a loop. With `on_error`, InvalidInputError if the last message of an earlier loop is not yet settled."""
        current = None if self._settler is None else self._settler.current
        if current is not None:
            raise InvalidInputError(
                f"the previous loop ended at message {current[1]} of partition {current[0]} before the outcome of the message "
                "was recorded",
                where=str(self._name),
                advice="Call ack(message) or retry(message) before the next loop; leaving the `with` block, run() and "
                "`with consumer.attempting(message):` record the outcome themselves",
            )
        return self

    def take(self) -> ReceivedMessage | None:
        """Commit the previous message; return the next message if it is buffered, else None."""
        self._check_open()
        return self._reading.take()

    def finish(self) -> None:
        """Commit the message that iteration delivered last; requesting the next message also does this."""
        self._check_open()
        self._reading.finish()

    def fetch(self, timeout_ms: float | None = 0) -> bool:
        """Fetch messages for iteration or poll() without delivering any; return whether messages are buffered.

        Args:
            timeout_ms: Maximum wait for the first message, milliseconds; None waits without limit.
        """
        return self._fetch_within(timeout_ms, None)

    def _fetch_within(self, timeout_ms: float | None, wanted: int | None) -> bool:
        self._check_open()
        reading, until_s = self._reading, None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        waits_first = timeout_ms != 0 and reading.has_read_everything
        while waits_first or not reading.fetch(wanted):
            if not reading.is_scanning:
                rest_ms = _WAIT_MS if until_s is None else min(_WAIT_MS, (until_s - time.monotonic()) * 1000)
                reading.wait(max(0.0, rest_ms))
                if rest_ms <= 0:
                    return False
            waits_first = False
            self._check_open()
        return True

    def poll(self, count: int = 100, *, timeout_ms: Milliseconds = 0) -> list[ReceivedMessage]:
        """Return up to `count` messages; call commit() after processing the messages.

        Args:
            count: Maximum number of messages, at least 1.
            timeout_ms: Maximum wait for the first message, milliseconds or a timedelta.

        Raises:
            CorruptSendError: the next messages of a partition are damaged; seek(error.partition, error.until_offset) skips the
                damage. Until then, poll() reads the other partitions, and raises the error again at their ends.
        """
        self._check_open()
        if check_whole("count", count) < 1:
            raise InvalidInputError(f"a poll must request at least one message, not {count}", where=str(self._name))
        until_s = time.monotonic() + milliseconds("timeout_ms", timeout_ms) / 1000
        while self._fetch_within(max(0.0, until_s - time.monotonic()) * 1000, count):
            messages = self._reading.hand_out(count)
            if messages:
                return messages
        return []

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of all messages that the last take() or poll() returned; the next call delivers them again."""
        self._reading.put_back(messages)

    def commit(self, message: Message | None = None) -> None:
        """Commit all delivered messages, including the message being processed, or the messages up to one message.

        Args:
            message: A message that this consumer delivered: only its partition is committed, up to and including the message;
                with `mode="shared"`, only the message itself. Committed messages stay committed; seek() reads them again.
                None commits all delivered messages.

        Raises:
            InvalidInputError: the message is not from this topic.
            RebalancedError: this consumer sent no request for longer than session_timeout_ms, and another member of the group
                took over a partition. That member receives the uncommitted messages again.
            LeaseLostError: the lease of a message has ended; all other messages are done.
        """
        self._check_open()
        self._reading.commit(message)

    def seek(self, partition: int, offset: StartInput) -> None:
        """Continue at a different position in a partition. The next commit, or the next message of a loop, stores the position.

        Args:
            partition: One of the consumer's partitions.
            offset: An offset, `first`, `last` (after the newest message), or a PollingStrategy.

        Raises:
            PartitionNotFoundError: the consumer does not read the partition.
            InvalidOptionError: the consumer has `mode="shared"`.
        """
        if not isinstance(self._reading, PartitionReading):
            raise InvalidOptionError(
                "a consumer with mode='shared' has no position",
                where=str(self._name),
                advice="Close the group's consumers, and use log.seek_group() or `headstream group seek`",
            )
        self._check_open()
        self._reading.partitions.seek(check_whole("partition", partition), start_of(offset))

    def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage:
        """Return a deferred message with a new lease; the caller settles it like any other message.

        Raises:
            InvalidOptionError: the consumer does not have `mode="shared"`.
            InvalidInputError: the message is not deferred; the error contains its status.
        """
        settler = lease_settler(self._settler)
        self._check_open()
        message = settler.fetch_deferred(check_whole("partition", partition), check_whole("an offset", offset))
        if message is None:
            raise InvalidInputError(
                f"message {offset} of partition {partition} cannot be delivered",
                where=str(self._name),
                advice="The message was removed, is not available or cannot be decoded, or another process reads for the group",
            )
        return message

    def record_failure(self, error: BaseException) -> None:
        """Record that the loop body raised an error, as leaving the `with` block does; no effect without `on_error`.

        Args:
            error: Counted as a failure only if it is an Exception.
        """
        settler = self._settler
        current = None if settler is None or self._is_closed else settler.current
        if settler is None or current is None or not isinstance(error, Exception):
            return
        try:
            with warning_of_lost_leases():
                settler.fail(current, error)
        except HeadstreamError as also:
            error.add_note(f"The failure of message {current[1]} of partition {current[0]} could not be recorded: {also}")

    def close(self, *, commit: bool = True) -> None:
        """Close the consumer; takes at most about five seconds if the server is unreachable. A second call does nothing.

        With `on_error` or leases, messages in progress are released without counting a failure.

        Args:
            commit: Whether to commit the message that iteration delivered last.

        Raises:
            ServerUnreachableError: the message could not be committed and is delivered again.
        """
        if self._is_closed:
            return
        with closing():
            try:
                self._reading.end(commit=commit)
            finally:
                self._is_closed = True
                try:
                    self._reading.close()
                finally:
                    if self._own is not None:
                        self._own.close()
