"""Copies of messages set aside: of the dead letter as a Delta table, of dead letters and delayed messages in Kafka."""

from __future__ import annotations

import logging
from typing import Final

from headstream.errors import HeadstreamError, InvalidOptionError, StorageError
from headstream.replicate.parked.dead_letter_table import DeadLetterTable
from headstream.replicate.parked.own_log import OwnLog
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC
from headstream.replicate.parked.topic_copy import TopicCopy, open_cluster
from headstream.replicate.run.unit import PipelineContext
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.kafka_topic import is_kafka_topic, parse_kafka_topic

_LOGGER: Final = logging.getLogger("headstream.replicate")
_AGAIN_US: Final = {DeadLetterTable: 10_000_000, TopicCopy: 60_000_000}
"""Pause before a failed copy is continued. An attempt can wait seconds for a cluster, and the next micro-batch with it."""


def check_copies(config: ReplicateConfig) -> None:
    """Raise InvalidOptionError if a cluster of a copy cannot be reached, or rejects the login."""
    for setting, text in (("delayed", config.delayed), ("dead_letter", config.dead_letter)):
        if text is not None and is_kafka_topic(text):
            try:
                open_cluster(parse_kafka_topic(text)).close()
            except HeadstreamError as error:
                raise InvalidOptionError(error.what, where=setting, advice=error.advice) from None


class Copies:
    """The copies that a pipeline's settings ask for; used by one thread at a time."""

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
        """Copy the new messages; a failure is retried while the pipeline runs.

        The messages are in the pipeline's own log in any case, from which a copy continues where it ended.

        Args:
            last: Whether the run ends: the first failure is raised then, after all copies were tried.
        """
        failed: list[StorageError] = []
        for number, copy in enumerate(self._copies):
            if not copy.is_behind or (not last and self._now_us() < self._due_us[number]):
                continue
            self._checkpoint_store.save()  # first: the copy names the offsets of these messages
            try:
                copy.follow()
            except StorageError as error:
                failed.append(error)
                pause_us = _AGAIN_US[type(copy)]
                self._due_us[number] = self._now_us() + pause_us
                if not last:
                    _LOGGER.warning("%s; retried in %g s: %s", copy.description, pause_us / 1e6, error)
        if last and failed:
            raise failed[0]

    def close(self) -> None:
        """Close the connections."""
        for copy in self._copies:
            if isinstance(copy, TopicCopy):
                copy.close()
