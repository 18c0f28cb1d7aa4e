"""States of the messages that a pipeline has parked or dead-lettered, by offset in the pipeline's own log. Read-only.

The log keeps released messages too; the ledger records the messages that are still parked or dead, and their states.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Final

from headstream.core.model.message import ReceivedMessage
from headstream.replicate.parked.ledger import Ledger, ParkedBatch

REDRIVEN_STATES: Final = ("dead", "delayed")
_STATES: Final = (*REDRIVEN_STATES, "parked", "called", "releasing")
_RELEASED: Final = "released"


class MessageStates:
    """The states of the messages of one topic of a pipeline's own log.

    Args:
        topic: The topic, for example `replicate/dead-letter`.
    """

    def __init__(self, checkpoint: Path, topic: str) -> None:
        with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
            found = [parked_batch for parked_batch in ledger.parked_batches(*_STATES) if parked_batch.log_topic == topic]
        self._batches = sorted(found, key=attrgetter("from_offset"))
        self._begins = [parked_batch.from_offset for parked_batch in self._batches]

    def state_of(self, offset: int) -> str:
        """Return the state in the ledger of the message at an offset; `released` if the message is no longer parked or dead."""
        parked_batch = self._find(offset)
        return _RELEASED if parked_batch is None else parked_batch.state

    def choose(self, messages: Iterable[ReceivedMessage]) -> Iterator[ReceivedMessage]:
        """Yield the messages that can be redriven or discarded: dead and delayed messages of the topic."""
        return (message for message in messages if self.state_of(message.offset) in REDRIVEN_STATES)

    def _find(self, offset: int) -> ParkedBatch | None:
        at = bisect_right(self._begins, offset) - 1
        return self._batches[at] if at >= 0 and offset < self._batches[at].until_offset else None
