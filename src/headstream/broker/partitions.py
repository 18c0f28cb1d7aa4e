"""Partitions: add and delete partitions of a topic."""

from __future__ import annotations

from headstream.broker.backing import Backing
from headstream.broker.topics import Topics
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Topic
from headstream.log.administration import add_partitions, delete_partitions


class Partitions:
    """Partition commands."""

    def __init__(self, backing: Backing, topics: Topics) -> None:
        self._backing = backing
        self._topics = topics

    def create(self, topic: TopicName, count: int) -> Topic:
        """Append partitions to a topic, and return the changed topic.

        Args:
            topic: Stream and topic.
            count: Number of partitions to add, at least 1.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: the topic would have more than 1000 partitions.
            LogLockedError: another process is the writer.
        """
        log = self._backing.writable_log()
        add_partitions(log, self._backing.topic(topic), count, self._backing.clock_us())
        return self._topics.get(topic)

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the highest numbered partitions of a topic, with their messages, and return the changed topic.

        Args:
            topic: Stream and topic.
            count: Number of partitions to delete; at least one remains.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: no partition would remain.
            LogLockedError: another process is the writer.
        """
        log = self._backing.writable_log()
        delete_partitions(log, self._backing.topic(topic), count)
        return self._topics.get(topic)
