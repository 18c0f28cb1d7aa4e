"""TopicsConsumer: one consumer of several topics, those that a pattern matches included, as they come and go.

It has a Consumer for each topic, and takes turns: whatever has messages is delivered, one topic after the other. A pattern
is looked up again every few seconds.
"""

from __future__ import annotations

import fnmatch
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final

from headstream.client.consumer import Consumer
from headstream.errors import ClosedError, InvalidOptionError, TopicNotFoundError
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, ReceivedMessage

__all__ = ["TopicsConsumer", "is_pattern"]

_LOOK_S: Final = 5.0
"""How often topics are looked up that a pattern may match."""

_FIRST_WAIT_MS: Final = 5.0
_LAST_WAIT_MS: Final = 100.0
"""So long one topic is waited for while none has messages, before the others are asked again: soon at first."""


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern: no topic's name has these characters."""
    return any(character in name for character in "*?[")


class TopicsConsumer:
    """Reads several topics; one thread at a time. Made by Client.consumer(); use it in a `with` statement.

    Args:
        names: `stream/topic`, or patterns of it with `*`, `?` and `[...]`.
        make: Makes the consumer of one topic, which is new or not: of a new one everything is new.
        list_names: Returns the names of all topics.
        timeout_ms: Iteration ends after so long without a message; None waits until there is one.

    Raises:
        TopicNotFoundError: there is no topic of a name.
        InvalidOptionError: no name is given.
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
            raise InvalidOptionError("no topic is named", advice="Name one or more, or a pattern")
        self._patterns = [name for name in wanted if is_pattern(name)]
        self._make = make
        self._list_names = list_names
        self._timeout_ms = timeout_ms
        self._consumers: dict[str, Consumer] = {}
        self._turn: deque[str] = deque()
        self._in_hand: Consumer | None = None
        self._looked_s = 0.0
        self._is_closed = False
        try:
            for name in wanted:
                if not is_pattern(name):
                    self._add(name)
            self._look()
        except BaseException:
            self.close(commit=False)
            raise

    @property
    def topics(self) -> list[str]:
        """The topics that are read now."""
        return sorted(self._consumers)

    def _add(self, name: str) -> None:
        if name not in self._consumers:
            self._consumers[name] = self._make(TopicName.parse(name), self._looked_s > 0)
            self._turn.append(name)

    def _look(self) -> None:
        """Begin with topics that a pattern matches now, and let go of those that are gone."""
        now_s = time.monotonic()
        if not self._patterns or (self._looked_s and now_s < self._looked_s + _LOOK_S):
            return
        there = self._list_names()
        for name in there:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns):
                self._add(name)
        for name in set(self._consumers).difference(there):
            self._drop(name)
        self._looked_s = now_s

    def _drop(self, name: str) -> None:
        consumer = self._consumers.pop(name)
        self._turn.remove(name)
        if self._in_hand is consumer:
            self._in_hand = None
        with suppress(TopicNotFoundError):  # and its group with it
            consumer.close(commit=False)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer is closed", advice="Make another with log.consumer()")

    def _find_ready(self, timeout_ms: float | None) -> Consumer | None:
        """Return a consumer that has messages, the next one in turn, having waited for it."""
        until_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        wait_ms = _FIRST_WAIT_MS
        while True:
            self._check_open()
            self._look()
            for _ in range(len(self._turn)):
                name = self._turn[0]
                self._turn.rotate(-1)
                if self._fetch(name, 0):
                    return self._consumers[name]
            left_ms = wait_ms if until_s is None else min(wait_ms, (until_s - time.monotonic()) * 1000)
            if left_ms <= 0:
                return None
            if not self._turn:
                time.sleep(left_ms / 1000)
            elif self._fetch(self._turn[0], left_ms):
                return self._consumers[self._turn[0]]
            wait_ms = min(2 * wait_ms, _LAST_WAIT_MS)

    def _fetch(self, name: str, timeout_ms: float) -> bool:
        """Have messages of a topic ready, and return whether there are some; one of a pattern may be gone meanwhile."""
        try:
            return self._consumers[name].fetch(timeout_ms)
        except TopicNotFoundError:
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns):
                raise
            self._drop(name)
            return False

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        """Return the next message, having committed the one before; wait for it as long as timeout_ms says."""
        self._check_open()
        while True:
            if self._in_hand is not None:
                message = self._in_hand.take()
                if message is not None:
                    return message
                self._in_hand = None
            self._in_hand = self._find_ready(self._timeout_ms)
            if self._in_hand is None:
                raise StopIteration

    def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[ReceivedMessage]:
        """Return up to so many messages, of all topics in turn; they are not committed until commit() is called.

        Args:
            count: The most messages, 1 or more.
            timeout_ms: How long to wait for the first one.
        """
        messages: list[ReceivedMessage] = []
        consumer = self._find_ready(timeout_ms)
        while consumer is not None:
            messages += consumer.poll(count - len(messages))
            consumer = self._find_ready(0) if len(messages) < count else None
        return messages

    def commit(self, message: Message | None = None) -> None:
        """Commit everything that was delivered until now, or up to one message; see Consumer.commit()."""
        self._check_open()
        if message is None:
            for consumer in self._consumers.values():
                consumer.commit()
            return
        consumer_of = self._consumers.get(message.topic or "")
        if consumer_of is None:
            raise TopicNotFoundError(
                f"the consumer does not read {message.topic}", advice="Commit a message that it has delivered"
            )
        consumer_of.commit(message)

    def consumer(self, topic: str) -> Consumer:
        """Return the consumer of one of the topics, for seek() and positions.

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError: the topic is not read.
        """
        self._check_open()
        if topic not in self._consumers:
            raise TopicNotFoundError(f"the consumer does not read {topic}", advice=f"It reads {', '.join(self.topics) or 'none'}")
        return self._consumers[topic]

    def close(self, *, commit: bool = True) -> None:
        """End; closing twice is fine.

        Args:
            commit: Whether the message that iteration delivered last is done.
        """
        self._is_closed = True
        errors: list[Exception] = []
        for consumer in self._consumers.values():
            try:
                consumer.close(commit=commit and consumer is self._in_hand)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> TopicsConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close(commit=error is None)
