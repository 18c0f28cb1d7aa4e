"""Topology: streams, topics and partitions of a log."""

from __future__ import annotations

from typing import Unpack

from headstream.client.admin.numbered import find_stream_name, find_topic_name
from headstream.client.arguments import TopicOptionsInput, topic_name
from headstream.client.checks import check_topic_options, check_whole
from headstream.client.transports.transport import Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, Stream, Topic, TopicOptions
from headstream.errors import InvalidOptionError

__all__ = ["Topology"]


class Topology:
    """The client's calls for streams, topics and partitions."""

    def _open_transport(self) -> Transport:
        raise NotImplementedError

    @property
    def transport(self) -> Transport:
        """The commands of the log as they are sent, for tools; unlike this class it can change in any version."""
        return self._open_transport()

    def create_stream(self, name: str) -> Stream:
        """Create a stream.

        Args:
            name: Without dot or slash.

        Raises:
            AlreadyExistsError: the name is taken.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().streams.create(name)

    def stream(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError if it does not exist."""
        transport = self._open_transport()
        return transport.streams.get(find_stream_name(transport, name))

    def streams(self) -> list[Stream]:
        """Return all streams, in the order of their ids."""
        return self._open_transport().streams.list()

    def rename_stream(self, name: str, to: str) -> Stream:
        """Rename a stream, and return it.

        Producers, consumers and Spark queries use names: existing ones no longer find the old name.

        Args:
            to: Its new name, without dot or slash.

        Raises:
            StreamNotFoundError: the stream does not exist.
            AlreadyExistsError: another stream has that name.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        transport.streams.rename(find_stream_name(transport, name), to)
        return self.stream(to)

    def delete_stream(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError if it does not exist."""
        transport = self._open_transport()
        transport.streams.delete(find_stream_name(transport, name))

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
        """Create a topic, and its stream if missing.

        Args:
            name: `stream/topic`.
            partitions: 1 to 1000.
            limits: `iggy`: any Iggy client can read all messages; `wide`: also empty and null values and payloads.
            fsync: When acknowledged messages are synced to disk, and thus what a power cut can lose. `always`: before the
                acknowledgement; `interval`: within a second; `never`: whenever the operating system writes them.
            if_not_exists: Return an existing topic of that name unchanged.
            options: See update_topic(): retention_us, retention_bytes, compaction_delay_us,
                deduplication_count, summary_headers, deletion_grace_us, legal_hold. Omitted options are off, but the grace is
                a week.

        Raises:
            AlreadyExistsError: the name is taken.
            InvalidOptionError: the number of partitions, the limits, the policy or an option is invalid.
            LogLockedError: another process is the writer of an embedded log.
        """
        try:
            chosen = Limits(limits)
        except ValueError:
            raise InvalidOptionError(
                f"{limits!r} is not a kind of limits", where=str(name), advice=f"Use {' or '.join(Limits)}"
            ) from None
        try:
            policy = Fsync(fsync)
        except ValueError:
            raise InvalidOptionError(
                f"{fsync!r} is not an fsync policy", where=str(name), advice=f"Use {', '.join(Fsync)}"
            ) from None
        transport = self._open_transport()
        return transport.topics.create(
            topic_name(name, transport),
            check_whole("partitions", partitions),
            chosen,
            fsync=policy,
            options=TopicOptions(**check_topic_options(options)),
            if_not_exists=if_not_exists,
        )

    def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its partitions as of now; TopicNotFoundError if it does not exist."""
        transport = self._open_transport()
        return transport.topics.get(find_topic_name(transport, name))

    def topics(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all."""
        transport = self._open_transport()
        return transport.topics.list(None if stream is None else find_stream_name(transport, stream))

    def delete_topic(self, name: str | TopicName) -> None:
        """Delete a topic with its messages and offsets; TopicNotFoundError if it does not exist."""
        transport = self._open_transport()
        transport.topics.delete(find_topic_name(transport, name))

    def update_topic(self, name: str | TopicName, **options: Unpack[TopicOptionsInput]) -> Topic:
        """Change options of a topic, and return it; omitted options stay, None switches an option off.

        Old messages are deleted in the background by whole files, except the active one: up to one file per partition is
        retained beyond the limit.

        Args:
            name: `stream/topic`.
            options: By name:
                retention_us: Messages older than this are deleted, microseconds.
                retention_bytes: Above this size of all partitions, bytes, the oldest messages are deleted.
                compaction_delay_us: Only the last message per key is retained, and every message needs a key. A null payload
                    deletes its key, and is itself removed after this delay, 0 or more microseconds.
                deduplication_count: A message is dropped if its id occurs among this many newest messages of its partition,
                    1 to 10,000,000.
                summary_headers: Names of at most 8 headers, a list or separated by commas. What they have is noted for each
                    file that is no longer written, so that filters skip files without a value they look for.
                deletion_grace_us: Messages marked for deletion are removed from the disk within this time, microseconds; None
                    keeps them.
                legal_hold: Whether nothing is removed, in whatever way.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: a number is out of range, or a name of a header is invalid.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        return transport.topics.update(find_topic_name(transport, name), **check_topic_options(options))

    def rename_topic(self, name: str | TopicName, to: str) -> Topic:
        """Rename a topic within its stream, and return it.

        Producers, consumers and Spark queries use names: existing ones no longer find the old name. Committed offsets
        stay.

        Args:
            name: `stream/topic`.
            to: The topic's new name, without its stream's.

        Raises:
            TopicNotFoundError: the topic does not exist.
            AlreadyExistsError: another topic of the stream has that name.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        old = find_topic_name(transport, name)
        transport.topics.rename(old, to)
        return self.topic(TopicName(old.stream, to))

    def purge_topic(self, name: str | TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; the next message gets offset 0.

        Consumers reading it get OffsetOutOfRangeError, and continue after seek().

        Args:
            name: `stream/topic`.

        Raises:
            TopicNotFoundError: the topic does not exist.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        transport.topics.purge(find_topic_name(transport, name))

    def create_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Append partitions to a topic, and return the changed topic.

        Existing producers and consumers keep the old partitions, but consumers of a group share the new ones
        too. Keys can map to other partitions than before.

        Args:
            topic: `stream/topic`.
            count: Number of partitions to add, at least 1.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: the topic would have more than 1000 partitions.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        return transport.partitions.create(find_topic_name(transport, topic), check_whole("count", count))

    def delete_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Delete the highest numbered partitions of a topic, with their messages, and return the changed topic.

        Args:
            topic: `stream/topic`.
            count: Number of partitions to delete; at least one remains.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: no partition would remain.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        return transport.partitions.delete(find_topic_name(transport, topic), check_whole("count", count))
