"""Progress: committed offsets of groups and single consumers."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.admin.numbered import find_topic_name
from headstream.client.arguments import StartInput, committer_of, start_of
from headstream.client.checks import check_many, check_whole
from headstream.client.consumer.positions import find_offset
from headstream.client.transports.delivery_transport import DeliveryAccess, DeliveryViewCommands
from headstream.client.transports.transport import Transport
from headstream.core.model.delivery_views import GroupDeliveries, MessageStory
from headstream.core.model.groups import Group
from headstream.core.model.identifiers import TopicName
from headstream.errors import InvalidOptionError, UnsupportedError

__all__ = ["Progress", "find_views"]


class Progress:
    """The client's calls for committed offsets and groups."""

    def _open_transport(self) -> Transport:
        raise NotImplementedError

    def offsets(self, topic: str | TopicName, group: str | None = None, *, name: str | None = None) -> dict[int, int]:
        """Return the offset at which a group or a single consumer continues, for each partition with a commit.

        Args:
            topic: `stream/topic`.
            group: The group's name;
            name: or the single consumer's name.

        Returns:
            Partition -> offset of the next message: one past the last committed message.
        """
        committer = committer_of(group, name)
        if committer is None:
            raise InvalidOptionError("the owner of the offsets is missing", advice="Give the name of a group, or name=")
        transport = self._open_transport()
        return transport.offsets.committed(find_topic_name(transport, topic), committer)

    def groups(self, topic: str | TopicName) -> list[Group]:
        """Return the consumer groups of a topic, by name, with their members, committed offsets and lag.

        A group exists if it was created on a server, has committed or has members. Members of this process, or of
        the server, are listed individually.

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError: the topic does not exist.
        """
        transport = self._open_transport()
        return transport.groups.list(find_topic_name(transport, topic))

    def group(self, topic: str | TopicName, name: str) -> Group:
        """Return one consumer group of a topic; GroupNotFoundError if it does not exist."""
        transport = self._open_transport()
        return transport.groups.get(find_topic_name(transport, topic), name)

    def seek_group(self, topic: str | TopicName, group: str, to: StartInput, *, partitions: Iterable[int] | None = None) -> Group:
        """Set the committed offsets of a group without active members; a missing group is created.

        Args:
            topic: `stream/topic`.
            to: An offset, `first`, `last` (after the newest: what is appended from now on), or a PollingStrategy.
            partitions: Partitions to set; None is all.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            OffsetOutOfRangeError: an offset is not in its partition.
            GroupInUseError: the group has members, here or in another process: a member uses its own seek().
        """
        transport = self._open_transport()
        name = find_topic_name(transport, topic)
        strategy = start_of(to)
        if partitions is None:
            numbers = [each.number for each in transport.topics.get(name).partitions]
        else:
            numbers = [check_whole("a partition", number) for number in check_many("partitions", partitions)]
        return transport.groups.seek(name, group, {number: find_offset(transport, name, number, strategy) for number in numbers})

    def delete_group(self, topic: str | TopicName, name: str) -> None:
        """Delete a group and its committed offsets.

        Raises:
            GroupNotFoundError: the group does not exist.
            GroupInUseError: the group has members, here or in another process.
        """
        transport = self._open_transport()
        transport.groups.delete(find_topic_name(transport, topic), name)

    def group_deliveries(self, topic: str | TopicName, group: str) -> GroupDeliveries:
        """Return what a group has not finished, counted by partition and status, and whether it is paused.

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError, GroupNotFoundError: the topic or the group does not exist.
            UnsupportedError: the log is in Kafka.
        """
        transport = self._open_transport()
        return find_views(transport).group(find_topic_name(transport, topic), group)

    def message_story(self, topic: str | TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return what a group has done with one message: its attempts with times, workers and errors, and what comes next.

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError, PartitionNotFoundError, GroupNotFoundError: one of them does not exist.
            OffsetOutOfRangeError: the partition has no such message.
            UnsupportedError: the log is in Kafka.
        """
        transport = self._open_transport()
        place = check_whole("partition", partition), check_whole("an offset", offset)
        return find_views(transport).message(find_topic_name(transport, topic), group, *place)


def find_views(transport: Transport) -> DeliveryViewCommands:
    """Return what shows the unfinished messages of a log's groups.

    Raises:
        UnsupportedError: the log is in Kafka.
    """
    if not isinstance(transport, DeliveryAccess):
        raise UnsupportedError(
            "Kafka remembers one offset of a group, and no single messages",
            where="kafka://",
            advice="log.group() tells the group's offsets",
        )
    return transport.delivery_views
