"""PollRequest: the parameters of polling one partition, for a broker, a server and Kafka."""

from __future__ import annotations

from typing import Final, NamedTuple

from headstream.core.filters.filter import Filter
from headstream.core.model.message import MessageState
from headstream.core.model.polling import OffsetOwner, PollingKind, PollingStrategy
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import InvalidInputError, InvalidOptionError

AVAILABLE_ONLY: Final = frozenset({MessageState.AVAILABLE.value})
"""The states of a poll that does not specify states."""


class PollRequest(NamedTuple):
    """The parameters of polling a partition; a tuple, because creating a frozen dataclass per poll takes four times as long.

    Args:
        start: Where to begin; for an expired offset, the first retained message.
        count: Maximum number of messages, at least 1.
        states: State codes to deliver; other messages are skipped. None delivers all.
        size_bytes: Approximate maximum size of the returned messages, bytes; at least one message is returned.
        consumer: The polling consumer; required for `next` and for auto_commit. If a group requests states other than available,
            it receives the states that the messages have for this group.
        auto_commit: Whether to immediately commit the offset after the returned messages for the consumer.
        where: The filter for messages in `states`; None for no filter.
        until_offset: One past the last offset to examine with a filter; 0 for the partition's end. Ignored for Kafka.
    """

    start: PollingStrategy
    count: int  # type: ignore[assignment]
    states: frozenset[int] | None = AVAILABLE_ONLY
    size_bytes: int = MAX_BATCH_BYTES
    consumer: OffsetOwner | None = None
    auto_commit: bool = False
    where: Filter | None = None
    until_offset: int = 0

    def from_offset(self, offset: int, count: int) -> PollRequest:
        """Return a copy of the request with a different start offset and count."""
        start, consumer = PollingStrategy.offset(offset), self.consumer
        return PollRequest(start, count, self.states, self.size_bytes, consumer, self.auto_commit, self.where, self.until_offset)

    def check(self, topic: object) -> None:
        """Check the ranges and combinations of parameters.

        Raises:
            InvalidInputError: a number is less than 1.
            InvalidOptionError: the consumer is missing, or the newest messages are requested with a filter.
        """
        if self.count < 1 or self.size_bytes < 1:
            raise InvalidInputError("a poll must request at least one message and one byte", where=str(topic))
        if self.consumer is None and (self.auto_commit or self.start.kind is PollingKind.NEXT):
            raise InvalidOptionError("the consumer or group is missing", where=str(topic), advice="Specify a consumer or a group")
        if self.where is not None and self.start.kind is PollingKind.LAST:
            raise InvalidOptionError(
                "the newest messages cannot be filtered",
                where=str(topic),
                advice="Start at a time, for example -1h, or read without a filter",
            )
