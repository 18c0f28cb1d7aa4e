"""Copies of messages from the pipeline's own log: dead letters in a Delta table, dead letters and delayed messages in Kafka."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from headstream.connect import connect_plain
from headstream.errors import HeadstreamError, InvalidOptionError, StorageError
from headstream.mirror import Mirror, MirrorOptions
from headstream.replicate.parked.dead_letter_table import DeadLetterTable
from headstream.replicate.parked.own_log import OwnLog
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC
from headstream.replicate.run.unit import PipelineContext
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.kafka_topic import KafkaTopic, is_kafka_topic, parse_kafka_topic

if TYPE_CHECKING:
    from headstream.client.client import Client

_LOGGER: Final = logging.getLogger("headstream.replicate")
_TIMEOUT_MS: Final = 10_000
"""Timeout of a request to the cluster, milliseconds; micro-batches wait for the request."""


def open_cluster(target: KafkaTopic) -> Client:
    """Return a client for a topic's cluster."""
    return connect_plain(target.url, timeout_ms=_TIMEOUT_MS, connect_timeout_ms=_TIMEOUT_MS)


class TopicCopy:
    """The copy of one topic of the pipeline's own log in a Kafka cluster; created with one partition if missing.

    A mirror (headstream.mirror) sends each message once. The header `hs.mirror` has the message's position in the pipeline's own
    log, by which a run after a crash finds the copied messages. Messages are released and redriven only from that log.
    """

    def __init__(self, target: KafkaTopic, log: OwnLog, topic: str) -> None:
        self._target = target
        self._log = log
        self._topic = topic
        self._client: Client | None = None
        self._until = 0

    @property
    def description(self) -> str:
        """The name of this copy in errors and log messages."""
        return f"the copy of {self._topic} at {self._target.place}"

    @property
    def is_behind(self) -> bool:
        """Whether the copy may lack messages."""
        return self._log.end(self._topic) != self._until

    def follow(self) -> int:
        """Copy new messages, and return their number."""
        end = self._log.end(self._topic)
        if end == self._until:
            return 0
        # The mirror commits its offsets under this name, so a new target topic or cluster gets all messages.
        name = f"copy-{sha256(self._target.place.encode()).hexdigest()[:16]}"
        options = MirrorOptions(topics=[self._topic], route=lambda _: self._target.topic, once=True, target_name=name)
        try:
            if self._client is None:
                self._client = open_cluster(self._target)
            copied = Mirror(self._log.client, self._client, options).run().copied
        except HeadstreamError as error:
            self.close()
            raise StorageError(f"{self.description} failed: {error}", advice="The next attempt resumes the copy") from error
        self._until = end
        return copied

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()


_AGAIN_US: Final = {DeadLetterTable: 10_000_000, TopicCopy: 60_000_000}
"""Pause before a failed copy is retried, microseconds; each attempt delays the next micro-batch."""


def check_copies(config: ReplicateConfig) -> None:
    """Raise InvalidOptionError if a copy's cluster cannot be reached or rejects the login."""
    for setting, text in (("delayed", config.delayed), ("dead_letter", config.dead_letter)):
        if text is not None and is_kafka_topic(text):
            try:
                open_cluster(parse_kafka_topic(text)).close()
            except HeadstreamError as error:
                raise InvalidOptionError(error.what, where=setting, advice=error.advice) from None


class Copies:
    """The copies that a pipeline's settings request; not thread-safe."""

    def __init__(self, context: PipelineContext, log: OwnLog) -> None:
        config = context.config
        self._checkpoint_store = context.checkpoint_store
        self._now_us = context.clock_us
        self._copies: list[DeadLetterTable | TopicCopy] = []
        if config.dead_letter_table is not None:
            self._copies.append(DeadLetterTable(config.dead_letter_table, log, context.ledger.pipeline_id))
        if config.dead_letter is not None:
            self._copies.append(TopicCopy(parse_kafka_topic(config.dead_letter), log, DEAD_LETTER_TOPIC))
        if is_kafka_topic(config.delayed):
            self._copies.append(TopicCopy(parse_kafka_topic(config.delayed), log, config.delayed_topic))
        self._due_us = [0] * len(self._copies)

    def follow(self, *, last: bool = False) -> None:
        """Copy new messages; a failure is retried while the pipeline runs.

        The messages stay in the pipeline's own log, from which a copy continues after its last message.

        Args:
            last: Whether the run ends; the first failure is then raised after all copies were tried.
        """
        failed: list[StorageError] = []
        for number, copy in enumerate(self._copies):
            if not copy.is_behind or (not last and self._now_us() < self._due_us[number]):
                continue
            self._checkpoint_store.save()  # first, because the copy contains the offsets of these messages
            try:
                copy.follow()
            except StorageError as error:
                failed.append(error)
                pause_us = _AGAIN_US[type(copy)]
                self._due_us[number] = self._now_us() + pause_us
                if not last:
                    _LOGGER.warning("%s is behind; retrying in %g s: %s", copy.description, pause_us / 1e6, error)
        if last and failed:
            raise failed[0]

    def close(self) -> None:
        """Close the connections."""
        for copy in self._copies:
            if isinstance(copy, TopicCopy):
                copy.close()
