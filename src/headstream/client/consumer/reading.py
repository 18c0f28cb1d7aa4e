"""Reading: fetches a consumer's messages and records which messages are done. There are three implementations:

    PlainReading     partitions in order; progress is a committed offset per partition
    RetryingReading  partitions in order; failing messages are counted, delayed and retried (on_error=)
    SharedReading    single messages that the log leases to workers (mode="shared")

RetryingReading and SharedReading also record single messages: they are Settlers (settling.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headstream.client.consumer.fetching import Transform
from headstream.client.consumer.filtering import FilterCounts
from headstream.client.consumer.listening import PartitionsCallback
from headstream.core.filters.filter import Filter
from headstream.core.model.message import Message, ReceivedMessage
from headstream.core.model.polling import OffsetOwner, PollingStrategy
from headstream.interceptors.chain import Chain


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The options of one consumer.

    Args:
        committer: The group or name to commit for; None commits nothing.
        partitions: Partitions to read, ascending; None for all partitions or the partitions that the group assigns.
        start: Where to start in a partition without a committed offset; `last` is the position after the newest message.
        states: State codes to deliver; None for all states.
        where: The filter, or None.
        session_timeout_ms: Time without a report after which a group member loses partitions that other members wait for.
        on_assigned: Called with the topic and new partitions, from a call of the consumer.
        transform: Called with each message when it is delivered, or None.
        chain: The client's interceptors, for their commit hooks, or None.
    """

    committer: OffsetOwner | None
    partitions: tuple[int, ...] | None
    start: PollingStrategy
    states: frozenset[int] | None
    where: Filter | None
    session_timeout_ms: float
    on_assigned: PartitionsCallback | None
    on_revoked: PartitionsCallback | None
    transform: Transform | None
    chain: Chain | None


class Reading(ABC):
    """Reads a topic for one consumer; not thread-safe.

    Attributes:
        may_wait: Whether take() can block although a message is buffered, to record the previous message in the log.
    """

    may_wait: bool = True

    @property
    def is_scanning(self) -> bool:
        """Whether a filter has matched no message yet and more messages can be fetched immediately."""
        return False

    @property
    def has_read_everything(self) -> bool:
        """Whether all stored messages are done, so that the consumer can wait without sending a request."""
        return False

    @property
    def positions(self) -> Mapping[int, int]:
        """Partition -> offset of the next message to fetch; empty for workers, whose positions belong to the group."""
        return {}

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the next message is already buffered."""

    @property
    @abstractmethod
    def filter_counts(self) -> FilterCounts:
        """Counts of messages that the filter has examined."""

    @abstractmethod
    def take(self) -> ReceivedMessage | None:
        """Record that the previous message is done; return the next message if it is buffered, else None."""

    @abstractmethod
    def finish(self) -> None:
        """Record that the message returned by the last take() is done."""

    @abstractmethod
    def fetch(self, wanted: int | None) -> bool:
        """Fetch messages unless messages are buffered; return whether messages are buffered. `wanted`: None for loops."""

    @abstractmethod
    def wait(self, timeout_ms: float) -> None:
        """Wait until fetch() can find messages; with 0 ms, only allow the group to reassign partitions."""

    @abstractmethod
    def hand_out(self, count: int) -> list[ReceivedMessage]:
        """Return up to `count` buffered messages; commit() records that they are done."""

    @abstractmethod
    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of all messages that the last take() or hand_out() returned."""

    @abstractmethod
    def commit(self, message: Message | None) -> None:
        """Record that all delivered messages, or the messages up to one message, are done; see Consumer.commit()."""

    @abstractmethod
    def end(self, *, commit: bool) -> None:
        """Release unfinished messages; if `commit` is set, first call finish(). The caller then calls close() in any case."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""
