"""Topics and their partitions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from headstream.broker.backing import Backing
from headstream.core.model.identifiers import TopicName, check_new_name
from headstream.core.model.topology import NewTopic, Partition, Topic
from headstream.errors import AlreadyExistsError, PartitionNotFoundError, StreamNotFoundError, TopicNotFoundError
from headstream.log.administration import add_partitions, create_topic, delete_partitions, delete_topic, purge_topic, update_topic
from headstream.log.catalog.catalog import check_exists
from headstream.log.catalog.records import TopicRecord


class Topics:
    """Topic commands; LogLockedError if another process is the writer."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def create(self, new: NewTopic, *, if_not_exists: bool = False) -> Topic:
        """Create a topic, and its stream if missing.

        Raises:
            AlreadyExistsError: the name is taken.
            InvalidOptionError: the number of partitions is out of range.
        """
        new.check()
        name = new.name
        if if_not_exists and self._is_there(name):
            return self.get(name)
        log = self._backing.writable_log()
        check_new_name(name.topic, "topic")
        with log.administration:
            if name.stream not in log.snapshot():
                check_new_name(name.stream, "stream")
            if not self._is_there(name):
                create_topic(log, new, self._backing.clock_us())
            elif not if_not_exists:
                what, advice = f"the topic {str(name)!r} already exists", "Use another name, or pass if_not_exists=True"
                raise AlreadyExistsError(what, where=log.root, advice=advice)
        log.upkeep.start(self._backing.clock_us)
        return self.get(name)

    def _is_there(self, name: TopicName) -> bool:
        stream = self._backing.log.snapshot().get(name.stream)
        return stream is not None and name.topic in stream.topics

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its current partitions; TopicNotFoundError if it does not exist."""
        while True:
            with suppress(PartitionNotFoundError):  # concurrently purged or deleted: look it up again
                return self._topic(self._backing.topic(name))

    def find(self, stream: str | int, topic: str | int) -> Topic | None:
        """Return a topic by the names or ids of stream and topic; None if it does not exist."""
        record = self._backing.find_stream(stream)
        topics = () if record is None else record.topics.values()
        found = next((each for each in topics if topic in (each.id, each.name.topic)), None)
        return None if found is None else self.get(found.name)

    def list(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all streams, ordered by id."""
        streams = self._backing.log.snapshot().values() if stream is None else [self._backing.stream(stream)]
        found: list[Topic] = []
        for name in [topic.name for record in streams for topic in record.topics.values()]:
            with suppress(TopicNotFoundError, StreamNotFoundError, PartitionNotFoundError):  # deleted since it was listed
                found.append(self.get(name))
        return found

    def delete(self, name: TopicName) -> None:
        """Delete a topic with its messages and offsets; TopicNotFoundError if it does not exist."""
        with (log := self._backing.writable_log()).administration:
            delete_topic(log, self._backing.topic(name))

    def update(self, name: TopicName, **changes: Any) -> Topic:
        """Change a topic's options, and return the topic.

        Args:
            changes: Options by name (see TopicOptions); omitted options stay unchanged.

        Raises:
            InvalidOptionError: an option is invalid.
        """
        with (log := self._backing.writable_log()).administration:
            record = self._backing.topic(name)
            update_topic(log, record, options=replace(record.options, **changes))
        log.upkeep.start(self._backing.clock_us)
        return self.get(name)

    def rename(self, name: TopicName, to: str) -> None:
        """Rename a topic within its stream; its current name has no effect. AlreadyExistsError if the name is taken."""
        check_new_name(to, "topic")
        with (log := self._backing.writable_log()).administration:
            record = self._backing.topic(name)
            if to == name.topic:
                return
            renamed = TopicName(name.stream, to)
            if self._is_there(renamed):
                raise AlreadyExistsError(f"the topic {str(renamed)!r} already exists", where=log.root, advice="Use another name")
            update_topic(log, record, name=to)

    def purge(self, name: TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; TopicNotFoundError if it does not exist."""
        with (log := self._backing.writable_log()).administration:
            purge_topic(log, self._backing.topic(name), self._backing.clock_us())

    def _topic(self, record: TopicRecord) -> Topic:
        partitions = tuple(self.partition(record, number) for number in range(1, record.partitions + 1))
        name = record.name
        return Topic(
            name.stream,
            name.topic,
            record.id,
            record.created_us,
            record.limits,
            partitions,
            record.fsync,
            **asdict(record.options),
            identity=record.identity,
        )

    def partition(self, record: TopicRecord, number: int) -> Partition:
        """Return a partition; TopicNotFoundError, PartitionNotFoundError if it changed since its topic's record was read."""
        try:
            with self._backing.log.reading(record, number) as follower:
                follower.refresh()
                size_bytes, count = follower.size_bytes(), follower.messages_count()
                first, end = follower.first_offset, follower.end_offset  # the count may have refreshed the follower
                missing = max(end - first - count, 0)  # deleted messages are counted until they are removed from the disk
                return Partition(number, first, end, size_bytes, missing, record.generation(number))
        except PartitionNotFoundError:
            check_exists(self._backing.log.snapshot(), record, number)
            return Partition(number, 0, 0, 0, 0, record.generation(number))  # only its directory is missing


class Partitions:
    """Partition commands. TopicNotFoundError if the topic does not exist; LogLockedError if another process is the writer."""

    def __init__(self, backing: Backing, topics: Topics) -> None:
        self._backing = backing
        self._topics = topics

    def create(self, topic: TopicName, count: int) -> Topic:
        """Add `count` (at least 1) partitions; return the topic. InvalidOptionError if the total would exceed 1000."""
        with (log := self._backing.writable_log()).administration:
            add_partitions(log, self._backing.topic(topic), count, self._backing.clock_us())
        return self._topics.get(topic)

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the `count` highest partitions, with messages; return the topic. InvalidOptionError if no partition remains."""
        with (log := self._backing.writable_log()).administration:
            delete_partitions(log, self._backing.topic(topic), count)
        return self._topics.get(topic)
