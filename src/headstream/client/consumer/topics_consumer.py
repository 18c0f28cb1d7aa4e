"""TopicsConsumer: one consumer of several topics, and of topics that match a pattern as they are created and deleted.

A TopicsConsumer has a Consumer for each topic, and delivers their messages in rotation. Patterns are matched again every few
seconds.
"""

from __future__ import annotations

import fnmatch
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from headstream.client.arguments import Milliseconds
from headstream.client.checks import check_whole, milliseconds
from headstream.client.closing import closing
from headstream.client.consumer.base import BaseConsumer
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.settling import Settler
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import (
    HeadstreamError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    PartitionNotFoundError,
    StreamNotFoundError,
    TopicNotFoundError,
)

_CHECK_EVERY_S: Final = 5.0
"""Interval at which patterns are matched against the existing topics, seconds."""

_FIRST_WAIT_MS: Final = 5.0
_LAST_WAIT_MS: Final = 100.0
"""Maximum wait on one topic before the other topics are polled, milliseconds; the first waits are shorter."""
_NOT_FOUND: Final = (TopicNotFoundError, StreamNotFoundError, PartitionNotFoundError)
"""Errors of calls for a topic that is being deleted."""


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern; patterns contain characters that topic names cannot contain."""
    return any(character in name for character in "*?[")


class TopicsConsumer(BaseConsumer):
    """Reads several topics; not thread-safe. Created by Client.consumer(); use it in a `with` statement.

    Args:
        names: `stream/topic`, or patterns with `*`, `?` and `[...]`.
        make: Creates the consumer of one topic; a topic created later is read from its first message.
        list_names: Returns the names of all topics.
        timeout_ms: Iteration ends after this time without a message; None waits without limit.

    Raises:
        TopicNotFoundError: a named topic does not exist.
        InvalidOptionError: the list of names is empty.
    """

    def __init__(
        self,
        names: Iterable[str],
        make: Callable[[TopicName, bool], Consumer],
        list_names: Callable[[], list[str]],
        timeout_ms: float | None,
    ) -> None:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            raise InvalidOptionError("the list of topics is empty", advice="Specify one or more topics, or a pattern")
        self._patterns = [name for name in wanted if is_pattern(name)]
        self._make = make
        self._list_names = list_names
        super().__init__(timeout_ms)
        self._consumers: dict[str, Consumer] = {}
        self._cycle: deque[str] = deque()
        self._in_hand: Consumer | None = None
        self._next: Consumer | None = None
        self._checked_s = 0.0
        try:
            for name in wanted:
                if not is_pattern(name):
                    self._add(name)
            self._find_topics()
        except BaseException:
            self.close(commit=False)
            raise

    @property
    def topics(self) -> list[str]:
        """The topics being read."""
        return sorted(self._consumers)

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> offset of the next message to fetch."""
        return {name: self._consumers[name].positions for name in self.topics}

    @property
    def is_ready(self) -> bool:
        """Whether the next message is already buffered."""
        return any(consumer is not None and consumer.is_ready for consumer in (self._in_hand, self._next))

    @property
    def may_wait(self) -> bool:
        """Whether take() can wait for a server although a message is buffered: take() first commits the previous message."""
        return any(consumer is not None and consumer.may_wait for consumer in (self._in_hand, self._next))

    def _add(self, name: str) -> None:
        if name not in self._consumers:
            self._consumers[name] = self._make(TopicName.parse(name), self._checked_s > 0)
            self._cycle.append(name)

    def _find_topics(self) -> None:
        """Start reading new topics that match a pattern; stop reading deleted topics."""
        now_s = time.monotonic()
        if not self._patterns or (self._checked_s and now_s < self._checked_s + _CHECK_EVERY_S):
            return
        there = self._list_names()
        for name in there:
            if self._matches(name):
                with suppress(*_NOT_FOUND):  # deleted since it was listed
                    self._add(name)
        for name in set(self._consumers).difference(there):
            self._drop(name)
        self._checked_s = now_s

    def _matches(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns)

    def _drop(self, name: str) -> None:
        consumer = self._consumers.pop(name)
        self._cycle.remove(name)
        self._in_hand = None if self._in_hand is consumer else self._in_hand
        self._next = None if self._next is consumer else self._next
        with suppress(*_NOT_FOUND):  # deleted together with its group
            consumer.close(commit=False)

    def _find_ready(self, timeout_ms: float | None) -> Consumer | None:
        """Wait until a consumer has buffered messages; return the next of these consumers in rotation."""
        until_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        wait_ms = _FIRST_WAIT_MS
        while True:
            self._check_open()
            self._find_topics()
            for _ in range(len(self._cycle)):
                name = self._cycle[0]
                self._cycle.rotate(-1)
                if self._fetch(name, 0):
                    return self._consumers[name]
            left_ms = wait_ms if until_s is None else min(wait_ms, (until_s - time.monotonic()) * 1000)
            if left_ms <= 0:
                return None
            if not self._cycle:
                time.sleep(left_ms / 1000)
            elif self._fetch(self._cycle[0], left_ms):
                return self._consumers[self._cycle[0]]
            wait_ms = min(2 * wait_ms, _LAST_WAIT_MS)

    def _fetch(self, name: str, timeout_ms: float) -> bool:
        """Fetch messages of a topic; return whether messages are buffered. A deleted topic is dropped if it matched a pattern."""
        try:
            return self._consumers[name].fetch(timeout_ms)
        except _NOT_FOUND as error:
            self._drop_missing(self._consumers[name], error)
            return False

    def _drop_missing(self, consumer: Consumer, error: NotFoundError) -> None:
        """Stop reading a deleted topic that a pattern matched; raise the error for a named topic or a missing partition."""
        name = next(name for name, each in self._consumers.items() if each is consumer)
        is_there = isinstance(error, PartitionNotFoundError) and name in self._list_names()
        if is_there or not self._matches(name):
            raise error
        self._drop(name)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        if self._in_hand is not None:
            iter(self._in_hand)
        return self

    def take(self) -> ReceivedMessage | None:
        """Commit the previous message; return the next message if it is buffered, else None."""
        self._check_open()
        for _ in range(2):
            if self._in_hand is not None:
                message = self._take_from(self._in_hand)
                if message is not None:
                    return message
            self._in_hand, self._next = self._next, None
        return None

    def _take_from(self, consumer: Consumer) -> ReceivedMessage | None:
        """Take a message of one topic; None if the topic matched a pattern and was deleted."""
        try:
            return consumer.take()
        except _NOT_FOUND as error:
            self._drop_missing(consumer, error)
            return None

    def finish(self) -> None:
        """Commit the message that iteration delivered last; requesting the next message also does this."""
        self._check_open()
        if self._in_hand is not None:
            try:
                self._in_hand.finish()
            except _NOT_FOUND as error:
                self._drop_missing(self._in_hand, error)

    def fetch(self, timeout_ms: float | None = 0) -> bool:
        """Fetch messages for iteration or poll() without delivering any; return whether messages are buffered.

        Args:
            timeout_ms: Maximum wait for the first message, milliseconds; None waits without limit.
        """
        self._check_open()
        if not self.is_ready:
            self._next = self._find_ready(timeout_ms)
        return self.is_ready

    def poll(self, count: int = 100, *, timeout_ms: Milliseconds = 0) -> list[ReceivedMessage]:
        """Return up to `count` messages of all topics in rotation; call commit() after processing the messages.

        Args:
            count: Maximum number of messages, at least 1.
            timeout_ms: Maximum wait for the first message, milliseconds or a timedelta.
        """
        check_whole("count", count)
        messages: list[ReceivedMessage] = []
        consumer = self._find_ready(milliseconds("timeout_ms", timeout_ms))
        try:
            while consumer is not None:
                try:
                    messages += consumer.poll(count - len(messages))
                except _NOT_FOUND as error:
                    self._drop_missing(consumer, error)
                consumer = self._find_ready(0) if len(messages) < count else None
        except HeadstreamError:
            if not messages:  # otherwise the next poll raises it again
                raise
        return messages

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of all messages that the last take() or poll() returned; the next call delivers them again."""
        taken: dict[str, list[ReceivedMessage]] = {}
        for message in messages:
            taken.setdefault(message.topic or "", []).append(message)
        for name, messages in taken.items():
            if name in self._consumers:
                self._consumers[name].put_back(messages)

    def commit(self, message: Message | None = None) -> None:
        """Commit all delivered messages, or the messages up to one message; see Consumer.commit()."""
        self._check_open()
        if message is None:
            for consumer in list(self._consumers.values()):
                try:
                    consumer.commit()
                except _NOT_FOUND as error:
                    self._drop_missing(consumer, error)
            return
        self._consumer_of(message).commit(message)

    def _consumer_of(self, message: Message) -> Consumer:
        self._check_open()
        if not isinstance(message, Message):
            raise InvalidInputError(f"{message!r} is not a message", advice="Commit a message that this consumer has delivered")
        consumer = self._consumers.get(message.topic or "")
        if consumer is None:
            raise TopicNotFoundError(
                f"the consumer does not read {message.topic}", advice="Commit a message that this consumer has delivered"
            )
        return consumer

    def _find_settler(self, message: Message) -> Settler | None:
        return self._consumer_of(message)._find_settler(message)

    def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage:
        """Raise InvalidOptionError, because no topic is given; use `consumer(topic).fetch_deferred()`."""
        raise InvalidOptionError(
            "the consumer reads several topics", advice="Use consumer(topic).fetch_deferred(partition, offset)"
        )

    def consumer(self, topic: str) -> Consumer:
        """Return the Consumer of a topic, for seek() and positions.

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError: the consumer does not read the topic.
        """
        self._check_open()
        if topic not in self._consumers:
            raise TopicNotFoundError(f"the consumer does not read {topic}", advice=f"It reads {', '.join(self.topics) or 'none'}")
        return self._consumers[topic]

    def close(self, *, commit: bool = True) -> None:
        """Close the consumer; a second call does nothing.

        Args:
            commit: Whether to commit the message that iteration delivered last.
        """
        self._is_closed = True
        errors: list[Exception] = []
        with closing():
            for consumer in self._consumers.values():
                try:
                    consumer.close(commit=commit and consumer is self._in_hand)
                except Exception as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def record_failure(self, error: BaseException) -> None:
        """Record that the loop body raised an error; see Consumer.record_failure()."""
        if self._in_hand is not None:
            self._in_hand.record_failure(error)
