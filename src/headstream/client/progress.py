"""Progress: how far groups and single consumers have come in a topic, and where they go on."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.arguments import StartInput, committer_of, start_of, topic_name
from headstream.client.places import find_offset
from headstream.client.transport import Transport
from headstream.errors import InvalidOptionError
from headstream.model.groups import Group
from headstream.model.identifiers import TopicName

__all__ = ["Progress"]


class Progress:
    """What a client can ask and say about committed offsets."""

    def _open_transport(self) -> Transport:
        raise NotImplementedError

    def offsets(self, topic: str | TopicName, group: str | None = None, *, name: str | None = None) -> dict[int, int]:
        """Return the offset at which a group or a single consumer continues, for each partition where it has committed.

        Args:
            topic: `stream/topic`.
            group: The group's name,
            name: or the consumer's.

        Returns:
            Partition -> offset of the next message: one past the last that is done.
        """
        committer = committer_of(group, name)
        if committer is None:
            raise InvalidOptionError("whose offsets is not said", advice="Give the name of a group, or name=")
        return self._open_transport().offsets.committed(topic_name(topic), committer)

    def groups(self, topic: str | TopicName) -> list[Group]:
        """Return the consumer groups of a topic, by name, with their members, committed offsets and lag.

        A group is there when it was made on a server, has committed something, or has members: those of this process, or of
        the server, are shown one by one.

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError: there is no such topic.
        """
        return self._open_transport().groups.list(topic_name(topic))

    def group(self, topic: str | TopicName, name: str) -> Group:
        """Return one consumer group of a topic; GroupNotFoundError where there is none."""
        return self._open_transport().groups.get(topic_name(topic), name)

    def seek_group(self, topic: str | TopicName, group: str, to: StartInput, *, partitions: Iterable[int] | None = None) -> Group:
        """Set where a group continues, while nobody reads for it; the group is made where there is none.

        Args:
            topic: `stream/topic`.
            group: The group's name.
            to: An offset, `first`, `last` (after the newest: what is appended from now on), or a PollingStrategy.
            partitions: In which partitions; None is all.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            OffsetOutOfRangeError: an offset is not in its partition.
            GroupInUseError: the group has members, here or in another process: a member goes elsewhere by its own seek().
        """
        transport, name = self._open_transport(), topic_name(topic)
        strategy = start_of(to)
        numbers = [place.number for place in transport.topics.get(name).partitions] if partitions is None else partitions
        return transport.groups.seek(name, group, {number: find_offset(transport, name, number, strategy) for number in numbers})

    def delete_group(self, topic: str | TopicName, name: str) -> None:
        """Forget everything a group has committed.

        Raises:
            GroupNotFoundError: there is no such group.
            GroupInUseError: it has members, here or in another process.
        """
        self._open_transport().groups.delete(topic_name(topic), name)
