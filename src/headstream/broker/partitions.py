"""Partitions: add and delete partitions of a topic."""

from __future__ import annotations

from headstream.broker.backing import Backing
from headstream.broker.topics import Topics
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Topic
from headstream.log.administration import add_partitions, delete_partitions


class Partitions:
    """Partition commands. TopicNotFoundError: the topic does not exist; LogLockedError: another process is the writer."""

    def __init__(self, backing: Backing, topics: Topics) -> None:
        self._backing = backing
        self._topics = topics

    def create(self, topic: TopicName, count: int) -> Topic:
        """Append `count` (at least 1) partitions, and return the topic; InvalidOptionError: more than 1000."""
        log = self._backing.writable_log()
        add_partitions(log, self._backing.topic(topic), count, self._backing.clock_us())
        return self._topics.get(topic)

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the `count` highest partitions with their messages, and return the topic; InvalidOptionError: none remains."""
        log = self._backing.writable_log()
        delete_partitions(log, self._backing.topic(topic), count)
        return self._topics.get(topic)
