"""A topic of the pipeline's own log as a topic of a Kafka cluster: the same messages, each once.

The copy is made by a mirror (headstream.mirror): a message is sent with its place in the pipeline's own log, in the header
`hs.mirror`, by which a run after a crash finds what has been already copied. The pipeline's own log remains what messages are
released from and redriven from.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from headstream.connect import connect_plain
from headstream.errors import HeadstreamError, StorageError
from headstream.mirror import Mirror, MirrorOptions
from headstream.replicate.parked.own_log import OwnLog
from headstream.replicate.settings.kafka_topic import KafkaTopic

if TYPE_CHECKING:
    from headstream.client.client import Client

_TIMEOUT_MS: Final = 10_000
"""How long a request to the cluster may take: micro-batches wait for it."""


def open_cluster(target: KafkaTopic) -> Client:
    """Return a client of the cluster of a topic."""
    return connect_plain(target.url, timeout_ms=_TIMEOUT_MS, connect_timeout_ms=_TIMEOUT_MS)


class TopicCopy:
    """The copy of one topic, with one partition if it is created."""

    def __init__(self, target: KafkaTopic, log: OwnLog, topic: str) -> None:
        self._target = target
        self._log = log
        self._topic = topic
        self._client: Client | None = None
        self._until = 0

    @property
    def description(self) -> str:
        """The name of this copy in messages."""
        return f"the copy of {self._topic} at {self._target.place}"

    @property
    def is_behind(self) -> bool:
        """Whether there can be messages that it lacks."""
        return self._log.end(self._topic) != self._until

    def follow(self) -> int:
        """Copy the new messages; return their number."""
        end = self._log.end(self._topic)
        if end == self._until:
            return 0
        # Committed offsets of the copied topic have this name; another topic or cluster gets all messages again.
        name = f"copy-{sha256(self._target.place.encode()).hexdigest()[:16]}"
        options = MirrorOptions(topics=[self._topic], route=lambda _: self._target.topic, once=True, target_name=name)
        try:
            if self._client is None:
                self._client = open_cluster(self._target)
            copied = Mirror(self._log.client, self._client, options).run().copied
        except HeadstreamError as error:
            self.close()
            raise StorageError(f"{self.description} fails: {error}", advice="It continues where it ended") from error
        self._until = end
        return copied

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
