"""Topology: streams, topics and partitions of a log."""

from __future__ import annotations

from typing import Unpack

from headstream.client.arguments import TopicOptionsInput, topic_name
from headstream.client.transport import Transport
from headstream.errors import InvalidOptionError
from headstream.model.identifiers import TopicName
from headstream.model.topology import Fsync, Limits, Stream, Topic, TopicOptions

__all__ = ["Topology"]


class Topology:
    """What a client can do with streams, topics and partitions."""

    def _open_transport(self) -> Transport:
        raise NotImplementedError

    def create_stream(self, name: str) -> Stream:
        """Make a stream.

        Args:
            name: Without dot or slash.

        Raises:
            AlreadyExistsError: there is one of that name.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().streams.create(name)

    def stream(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError where there is none."""
        return self._open_transport().streams.get(name)

    def streams(self) -> list[Stream]:
        """Return all streams, in the order of their ids."""
        return self._open_transport().streams.list()

    def rename_stream(self, name: str, to: str) -> Stream:
        """Rename a stream, and return it.

        Producers, consumers and Spark queries go by names: those that were made before find the old one gone.

        Args:
            name: The stream.
            to: Its new name, without dot or slash.

        Raises:
            StreamNotFoundError: there is no such stream.
            AlreadyExistsError: another stream has that name.
            LogLockedError: another process is the writer of an embedded log.
        """
        self._open_transport().streams.rename(name, to)
        return self.stream(to)

    def delete_stream(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError where there is none."""
        self._open_transport().streams.delete(name)

    def create_topic(
        self,
        name: str | TopicName,
        partitions: int = 1,
        *,
        limits: str = "iggy",
        fsync: str = "interval",
        if_not_exists: bool = False,
        **options: Unpack[TopicOptionsInput],
    ) -> Topic:
        """Make a topic, and its stream where there is none.

        Args:
            name: `stream/topic`.
            partitions: 1 to 1000.
            limits: `iggy`: whatever is stored, any Iggy client can read; `wide`: empty and null values and payloads too.
            fsync: When what was acknowledged is on the disk itself, and so what a power cut may cost. `always`: before
                it is acknowledged; `interval`: within a second; `never`: when the operating system pleases.
            if_not_exists: Return the topic of that name where there is one, as it is.
            options: What it keeps and takes, see update_topic(): retention_us, retention_bytes, compaction_delay_us,
                deduplication_count. What is left out is None: everything.

        Raises:
            AlreadyExistsError: there is one of that name.
            InvalidOptionError: the number of partitions, the limits, the policy or an option cannot be used.
            LogLockedError: another process is the writer of an embedded log.
        """
        try:
            chosen = Limits(limits)
        except ValueError:
            raise InvalidOptionError(
                f"{limits!r} is no kind of limits", where=str(name), advice=f"Use {' or '.join(Limits)}"
            ) from None
        try:
            policy = Fsync(fsync)
        except ValueError:
            raise InvalidOptionError(
                f"{fsync!r} is no policy of fsync", where=str(name), advice=f"Use {', '.join(Fsync)}"
            ) from None
        return self._open_transport().topics.create(
            topic_name(name), partitions, chosen, fsync=policy, options=TopicOptions(**options), if_not_exists=if_not_exists
        )

    def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its partitions as they are now; TopicNotFoundError where there is none."""
        return self._open_transport().topics.get(topic_name(name))

    def topics(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all."""
        return self._open_transport().topics.list(stream)

    def delete_topic(self, name: str | TopicName) -> None:
        """Delete a topic with its messages and offsets; TopicNotFoundError where there is none."""
        self._open_transport().topics.delete(topic_name(name))

    def update_topic(self, name: str | TopicName, **options: Unpack[TopicOptionsInput]) -> Topic:
        """Change options of a topic, and return it; what is not named stays as it is, None switches an option off.

        Old messages go in the background, by whole files, the one that is written to never: some more is kept than said,
        by up to a file of each partition.

        Args:
            name: `stream/topic`.
            options: By name:
                retention_us: Messages older than so many microseconds may go.
                retention_bytes: With more than so many bytes in all partitions, the oldest messages may go.
                compaction_delay_us: Of each key only the last message is kept, and every message has to have a key. A null
                    payload removes its key, and goes itself after so many microseconds, 0 or more.
                deduplication_count: A message is dropped whose id one of so many newest messages of its partition has,
                    1 to 10,000,000.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: a number is out of range.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().topics.update(topic_name(name), **options)

    def rename_topic(self, name: str | TopicName, to: str) -> Topic:
        """Rename a topic within its stream, and return it.

        Producers, consumers and Spark queries go by names: those that were made before find the old one gone. What consumers
        have committed stays.

        Args:
            name: `stream/topic`.
            to: The topic's new name, without its stream's.

        Raises:
            TopicNotFoundError: there is no such topic.
            AlreadyExistsError: another topic of the stream has that name.
            LogLockedError: another process is the writer of an embedded log.
        """
        old = topic_name(name)
        self._open_transport().topics.rename(old, to)
        return self.topic(TopicName(old.stream, to))

    def purge_topic(self, name: str | TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; the next message gets offset 0.

        Consumers that are reading it get OffsetOutOfRangeError, and go on after seek().

        Args:
            name: `stream/topic`.

        Raises:
            TopicNotFoundError: there is no such topic.
            LogLockedError: another process is the writer of an embedded log.
        """
        self._open_transport().topics.purge(topic_name(name))

    def create_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Add partitions to a topic, behind its last one, and return the topic as it is then.

        Producers and consumers made before keep to the partitions there were, but consumers of a group share the new ones
        too. Keys may go to other partitions than before.

        Args:
            topic: `stream/topic`.
            count: How many, 1 or more.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: the topic would have more than 1000.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().partitions.create(topic_name(topic), count)

    def delete_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Delete the highest numbered partitions of a topic, with their messages, and return the topic as it is then.

        Args:
            topic: `stream/topic`.
            count: How many; one at least stays.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: none would stay.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().partitions.delete(topic_name(topic), count)
