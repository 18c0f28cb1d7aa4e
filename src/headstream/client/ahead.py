"""Ahead: over a network, the next batch is asked for while the body works on the one before."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from headstream.client.transport import AheadCommands, MessageCommands, PolledAhead
from headstream.errors import HeadstreamError
from headstream.model.identifiers import TopicName
from headstream.model.polling import Polled, PollingStrategy

__all__ = ["FETCH_BYTES", "FETCH_COUNT", "Ahead"]

FETCH_COUNT: Final = 1000
FETCH_BYTES: Final = 1 << 20
"""A fetch: enough that its fixed cost vanishes, little enough that the first message comes soon."""


class Ahead:
    """The one batch that a consumer has asked for and not looked at; nothing where the log is embedded.

    Args:
        messages: What can be done with messages.
        topic: Which ones.
        states: State codes to bring; None is all.
    """

    def __init__(self, messages: MessageCommands, topic: TopicName, states: frozenset[int] | None) -> None:
        self._messages = messages if isinstance(messages, AheadCommands) else None
        self._topic = topic
        self._states = states
        self._asked: tuple[tuple[int, int], PolledAhead] | None = None

    def ask(self, place: tuple[int, int] | None) -> None:
        """Ask for what comes next.

        Args:
            place: Partition and offset, or None where there is nothing to be expected.
        """
        self.cancel()
        if self._messages is None or place is None:
            return
        partition, offset = place
        with suppress(HeadstreamError):  # the poll that is then made meets it again
            start = PollingStrategy.offset(offset)
            polled = self._messages.poll_ahead(
                self._topic, partition, start, FETCH_COUNT, states=self._states, size_bytes=FETCH_BYTES
            )
            self._asked = place, polled

    def take(self, partition: int, offset: int) -> Polled | None:
        """Return what was asked for of a place, if it has brought messages: what was empty may not be any more."""
        if self._asked is None or self._asked[0] != (partition, offset):
            return None
        asked, self._asked = self._asked, None
        with suppress(HeadstreamError):
            polled = asked[1].result()
            return polled if polled.count else None
        return None

    def cancel(self) -> None:
        """Give up what was asked for."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked[1].cancel()
