"""Ahead: prefetches the next batch over the network while the loop body processes the current batch."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from headstream.client.transports.transport import AheadCommands, MessageCommands, PolledAhead
from headstream.core.filters.filter import Filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import Polled, PollingStrategy
from headstream.errors import HeadstreamError

FETCH_COUNT: Final = 1000
FETCH_BYTES: Final = 1 << 20
"""Maximum messages and bytes of a fetch: large enough to amortize its cost, small enough to deliver the first message soon."""


def fetch_request(states: frozenset[int] | None, where: Filter | None) -> PollRequest:
    """Return the request that a consumer sends with each poll, initially for the first message."""
    return PollRequest(PollingStrategy.first(), FETCH_COUNT, states, FETCH_BYTES, where=where)


class Ahead:
    """The batch that a consumer has requested and not yet read; unused with an embedded log."""

    def __init__(self, messages: MessageCommands, topic: TopicName, request: PollRequest) -> None:
        self._messages = messages if isinstance(messages, AheadCommands) else None
        self._topic = topic
        self._request = request
        self._asked: tuple[tuple[int, int], PolledAhead] | None = None

    @property
    def is_active(self) -> bool:
        """Whether polls are requests over a network."""
        return self._messages is not None

    def ask(self, position: tuple[int, int] | None) -> None:
        """Request the batch at a position (partition and offset); None: no more messages are expected."""
        self.cancel()
        if self._messages is None or position is None:
            return
        partition, offset = position
        with suppress(HeadstreamError):  # the regular poll raises the same error
            polled = self._messages.poll_ahead(self._topic, partition, self._request.from_offset(offset, FETCH_COUNT))
            self._asked = position, polled

    def take(self, partition: int, offset: int) -> Polled | None:
        """Return the prefetched batch of a position; None if no batch was requested, or if it is empty and may be outdated."""
        if self._asked is None or self._asked[0] != (partition, offset):
            return None
        asked, self._asked = self._asked, None
        with suppress(HeadstreamError):
            polled = asked[1].result()
            return polled if polled.count or polled.scanned_count else None
        return None

    def cancel(self) -> None:
        """Cancel the outstanding request."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked[1].cancel()
