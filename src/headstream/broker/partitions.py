"""Partitions: more of them, or fewer."""

from __future__ import annotations

from headstream.broker.backing import Backing
from headstream.broker.topics import Topics
from headstream.log.administration import add_partitions, delete_partitions
from headstream.model.identifiers import TopicName
from headstream.model.topology import Topic

__all__ = ["Partitions"]


class Partitions:
    """What can be done with the partitions of a topic."""

    def __init__(self, backing: Backing, topics: Topics) -> None:
        self._backing = backing
        self._topics = topics

    def create(self, topic: TopicName, count: int) -> Topic:
        """Add partitions to a topic, behind its last one, and return the topic as it is then.

        Args:
            topic: Stream and topic.
            count: How many, 1 or more.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: the topic would have more than 1000.
            LogLockedError: another process is the writer.
        """
        log = self._backing.writable_log()
        add_partitions(log, self._backing.topic(topic), count, self._backing.clock_us())
        return self._topics.get(topic)

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the highest numbered partitions of a topic, with their messages, and return the topic as it is then.

        Args:
            topic: Stream and topic.
            count: How many; one at least stays.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: none would stay.
            LogLockedError: another process is the writer.
        """
        log = self._backing.writable_log()
        delete_partitions(log, self._backing.topic(topic), count)
        return self._topics.get(topic)
