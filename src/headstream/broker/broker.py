"""Broker: streams, topics, messages and offsets over one log.

send    Client -> Broker.messages.send -> Log.append -> codec.batch.stamp -> segment
poll    Client <- Broker.messages.poll <- states.select <- PartitionFollower.read_chunk <- segment
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headstream.broker.backing import Backing
from headstream.broker.deliveries.dead_lettering import DeadLettering
from headstream.broker.deliveries.dead_letters import DeadLetterCopies
from headstream.broker.deliveries.deliveries import Deliveries
from headstream.broker.deliveries.delivery_views import DeliveryViews
from headstream.broker.deliveries.leases import Leases
from headstream.broker.deliveries.pauses import Pauses
from headstream.broker.deliveries.transitions import Transitions
from headstream.broker.groups.groups import Groups
from headstream.broker.messages.entropy import Entropy
from headstream.broker.messages.messages import Messages
from headstream.broker.messages.offsets import BrokerOffsets
from headstream.broker.streams import Streams
from headstream.broker.topics import Partitions, Topics
from headstream.log.log import Log
from headstream.log.opening import close_log


def _clock_us() -> int:
    return time.time_ns() // 1000


class Broker:
    """All commands of a server or of an embedded log.

    Args:
        log: The log; the broker closes it.
        clock_us: Returns the time, microseconds since 1970 UTC.
        entropy: Returns a given number of random bytes; None uses the system's source.
    """

    def __init__(
        self,
        log: Log,
        *,
        clock_us: Callable[[], int] = _clock_us,
        entropy: Callable[[int], bytes] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._is_closed = False
        self.monotonic = monotonic
        backing = self.backing = Backing(log, clock_us, Entropy() if entropy is None else entropy, monotonic)
        self.streams = Streams(backing)
        self.topics = Topics(backing)
        self.partitions = Partitions(backing, self.topics)
        self.offsets = BrokerOffsets(backing)
        transitions = self.transitions = Transitions()
        self.groups = Groups(backing, self.topics, self.offsets, transitions)
        self.messages = Messages(backing, self.groups, transitions)
        pauses = Pauses(backing, transitions)
        settling = DeadLettering(backing, DeadLetterCopies(backing, self.messages), transitions), pauses, transitions
        self.deliveries = Deliveries(backing, self.groups, self.offsets, *settling)
        self.leases = Leases(backing, self.groups, self.messages, self.offsets, *settling)
        self.delivery_views = DeliveryViews(backing, self.groups, self.messages, pauses)

    @property
    def identity(self) -> str | None:
        """The UUID of this log; None before the first write."""
        return self._log.identity

    def close(self) -> None:
        """Close the log; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            close_log(self._log)
