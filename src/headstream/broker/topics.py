"""Topics and their partitions."""

from __future__ import annotations

from typing import Final

from headstream.broker.backing import Backing
from headstream.errors import AlreadyExistsError, InvalidOptionError, OffsetOutOfRangeError
from headstream.log.administration import purge_topic, set_retention
from headstream.log.catalog import TopicRecord
from headstream.model.identifiers import TopicName, check_name
from headstream.model.topology import MAX_PARTITIONS, Fsync, Limits, Partition, Topic

__all__ = ["Topics"]


_ATTEMPTS: Final = 5


class Topics:
    """What can be done with topics."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def create(
        self, name: TopicName, partitions: int, limits: Limits, *, fsync: Fsync = Fsync.INTERVAL, if_not_exists: bool = False
    ) -> Topic:
        """Make a topic, and its stream where there is none.

        Args:
            name: Stream and topic.
            partitions: 1 to 1000.
            limits: What its messages may be.
            fsync: When what was acknowledged is on the disk itself.
            if_not_exists: Return the topic of that name where there is one, as it is.

        Raises:
            AlreadyExistsError: there is one of that name.
            InvalidOptionError: the number of partitions is out of range.
        """
        check_name(name.stream, "stream")
        check_name(name.topic, "topic")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidOptionError(f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}", where=str(name))
        if if_not_exists and self._is_there(name):
            return self.get(name)
        log = self._backing.writable_log()
        if self._is_there(name):
            raise AlreadyExistsError(
                f"there is a topic {str(name)!r} already", where=log.root, advice="Use it, or say if_not_exists=True"
            )
        log.create_topic(name.stream, name.topic, partitions, limits, self._backing.clock_us(), fsync)
        return self.get(name)

    def _is_there(self, name: TopicName) -> bool:
        stream = self._backing.log.snapshot().get(name.stream)
        return stream is not None and name.topic in stream.topics

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its partitions as they are now; TopicNotFoundError where there is none."""
        return self._topic(self._backing.topic(name))

    def list(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all, in the order of their ids."""
        streams = self._backing.log.snapshot().values() if stream is None else [self._backing.stream(stream)]
        return [self._topic(topic) for record in streams for topic in record.topics.values()]

    def delete(self, name: TopicName) -> None:
        """Delete a topic with its messages and offsets; TopicNotFoundError where there is none."""
        log = self._backing.writable_log()
        log.delete_topic(self._backing.topic(name))

    def update(self, name: TopicName, *, retention_us: int | None, retention_bytes: int | None) -> Topic:
        """Say how long and how much a topic keeps, and return it.

        Args:
            name: Stream and topic.
            retention_us: Messages older than so many microseconds may go; None keeps them.
            retention_bytes: With more than so many bytes, the oldest messages may go; None keeps them.

        Raises:
            TopicNotFoundError: there is none.
            InvalidOptionError: a number is less than 1.
        """
        log = self._backing.writable_log()
        set_retention(log, self._backing.topic(name), retention_us, retention_bytes)
        log.start_retention(self._backing.clock_us)
        return self.get(name)

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
            record.retention_us,
            record.retention_bytes,
        )

    def _partition(self, record: TopicRecord, number: int) -> Partition:
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            try:
                with self._backing.log.reading(record, number) as follower:
                    follower.refresh()
                    return Partition(number, follower.first_offset, follower.end_offset, follower.size_bytes())
            except OffsetOutOfRangeError:  # retention has just dropped what was being looked at
                if not attempts_left:
                    raise
        raise AssertionError("the last attempt returns or raises")
