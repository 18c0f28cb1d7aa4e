"""Topics and their partitions."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final

from headstream.broker.backing import Backing
from headstream.errors import AlreadyExistsError, PartitionNotFoundError
from headstream.log.administration import create_topic, delete_topic, purge_topic, update_topic
from headstream.log.catalog import TopicRecord
from headstream.model.identifiers import TopicName, check_name
from headstream.model.topology import Fsync, Limits, Partition, Topic, TopicOptions, check_partition_count

__all__ = ["Topics"]

_ATTEMPTS: Final = 5


class Topics:
    """What can be done with topics."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def create(
        self,
        name: TopicName,
        partitions: int,
        limits: Limits,
        *,
        fsync: Fsync = Fsync.INTERVAL,
        options: TopicOptions | None = None,
        if_not_exists: bool = False,
    ) -> Topic:
        """Make a topic, and its stream where there is none.

        Args:
            name: Stream and topic.
            partitions: 1 to 1000.
            limits: What its messages may be.
            fsync: When what was acknowledged is on the disk itself.
            options: What it keeps and takes; None is everything.
            if_not_exists: Return the topic of that name where there is one, as it is.

        Raises:
            AlreadyExistsError: there is one of that name.
            InvalidOptionError: the number of partitions is out of range.
        """
        check_name(name.stream, "stream")
        check_name(name.topic, "topic")
        check_partition_count(name, partitions)
        if if_not_exists and self._is_there(name):
            return self.get(name)
        log = self._backing.writable_log()
        if self._is_there(name):
            raise AlreadyExistsError(
                f"there is a topic {str(name)!r} already", where=log.root, advice="Use it, or say if_not_exists=True"
            )
        create_topic(log, name.stream, name.topic, partitions, limits, self._backing.clock_us(), fsync, options)
        log.background.start(self._backing.clock_us)
        return self.get(name)

    def _is_there(self, name: TopicName) -> bool:
        stream = self._backing.log.snapshot().get(name.stream)
        return stream is not None and name.topic in stream.topics

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its partitions as they are now; TopicNotFoundError where there is none."""
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            try:
                return self._topic(self._backing.topic(name))
            except PartitionNotFoundError:  # purged or deleted just now: look it up again
                if not attempts_left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def list(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all, in the order of their ids."""
        streams = self._backing.log.snapshot().values() if stream is None else [self._backing.stream(stream)]
        return [self._topic(topic) for record in streams for topic in record.topics.values()]

    def delete(self, name: TopicName) -> None:
        """Delete a topic with its messages and offsets; TopicNotFoundError where there is none."""
        log = self._backing.writable_log()
        delete_topic(log, self._backing.topic(name))

    def update(self, name: TopicName, **changes: int | None) -> Topic:
        """Change what a topic keeps, and what it takes, and return it.

        Args:
            name: Stream and topic.
            changes: Options of TopicOptions by name; those that are not named stay as they are.

        Raises:
            TopicNotFoundError: there is none.
            InvalidOptionError: a number is out of range.
        """
        log = self._backing.writable_log()
        record = self._backing.topic(name)
        update_topic(log, record, options=replace(record.options, **changes))
        log.background.start(self._backing.clock_us)
        return self.get(name)

    def rename(self, name: TopicName, to: str) -> None:
        """Give a topic another name; to its own is fine.

        Args:
            name: Stream and topic.
            to: The topic's new name in its stream.

        Raises:
            TopicNotFoundError: there is none.
            AlreadyExistsError: another topic of the stream has that name.
        """
        check_name(to, "topic")
        log = self._backing.writable_log()
        with log.administration:
            record = self._backing.topic(name)
            if to == name.topic:
                return
            renamed = TopicName(name.stream, to)
            if self._is_there(renamed):
                raise AlreadyExistsError(f"there is a topic {str(renamed)!r} already", where=log.root, advice="Use another name")
            update_topic(log, record, name=to)

    def purge(self, name: TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; TopicNotFoundError where there is none."""
        log = self._backing.writable_log()
        purge_topic(log, self._backing.topic(name), self._backing.clock_us())

    def _topic(self, record: TopicRecord) -> Topic:
        partitions = tuple(self._partition(record, number) for number in range(1, record.partitions + 1))
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

    def _partition(self, record: TopicRecord, number: int) -> Partition:
        with self._backing.log.reading(record, number) as follower:
            follower.refresh()
            size_bytes, count = follower.size_bytes(), follower.messages_count()
            first, end = follower.first_offset, follower.end_offset  # as of the count: it may have looked again
            return Partition(number, first, end, size_bytes, end - first - count, record.generation(number))
