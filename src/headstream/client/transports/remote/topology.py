"""Streams, topics and partitions of a server: implements the interfaces of client/transports/transport.py."""

from __future__ import annotations

import builtins
from dataclasses import asdict
from typing import Any

from headstream.client.transports.remote.caller import Caller
from headstream.core.model.identifiers import TopicName, check_name
from headstream.core.model.topology import (
    NewTopic,
    Partition,
    Stream,
    Topic,
    TopicOptions,
    check_added_partitions,
    check_deleted_partitions,
)
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, GetStream, ListStreams, StreamDetails, UpdateStream
from headstream.core.wire.commands.topics import DeleteTopic, PurgeTopic
from headstream.core.wire.extensions.topic_options import (
    ChangeTopicOptions,
    CreateOpenTopic,
    GetOpenTopic,
    ListOpenTopics,
    OpenTopic,
    RenameTopic,
)
from headstream.errors import NotFoundError, StreamNotFoundError, TopicNotFoundError


class RemoteStreams:
    """Stream commands."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(self, name: str) -> Stream:
        """Create a stream; see Streams.create()."""
        return _stream(self._caller.call(CreateStream(0, check_name(name, "stream"))))

    def get(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError if it does not exist or the user has no right to it."""
        found = self._caller.call(GetStream(name)) if name else None
        if found is None:
            raise StreamNotFoundError(
                f"there is no stream {name!r}", where=self._caller.address.place, advice="Create the stream first"
            )
        return _stream(found)

    def find(self, stream: str | int) -> Stream | None:
        """Return a stream by name or id; None if it does not exist. Over HTTP, a number is always an id."""
        if not self._caller.can_express(stream):
            return None
        try:
            found = self._caller.call(GetStream(stream))
        except NotFoundError:
            return None
        return None if found is None else _stream(found)

    def list(self) -> list[Stream]:
        """Return all streams, in the order of their ids."""
        topics: dict[str, builtins.list[str]] = {}
        for topic in self._caller.call(ListOpenTopics()):
            topics.setdefault(topic.stream, []).append(topic.name)
        found = self._caller.call(ListStreams())
        return [Stream(stream.name, stream.id, stream.created_us, tuple(sorted(topics.get(stream.name, ())))) for stream in found]

    def rename(self, name: str, to: str) -> None:
        self._caller.call(UpdateStream(name, check_name(to, "stream")))

    def delete(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError if it does not exist."""
        self._caller.call(DeleteStream(name))


class RemoteTopics:
    """Topic commands."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(self, new: NewTopic, *, if_not_exists: bool = False) -> Topic:
        """Create a topic, and its stream if missing; see Topics.create()."""
        new.check()
        place, chosen = (new.name.stream, new.name.topic), asdict(new.options)
        command = CreateOpenTopic(*place, new.partitions, new.limits, new.fsync, **chosen, if_not_exists=if_not_exists)
        return _topic(self._caller.call(command))

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its current partitions; TopicNotFoundError if it does not exist."""
        found = self._caller.call(GetOpenTopic(name.stream, name.topic))
        if found is None:
            raise TopicNotFoundError(
                f"there is no topic {str(name)!r}", where=self._caller.address.place, advice="Create the topic first"
            )
        return _topic(found)

    def find(self, stream: str | int, topic: str | int) -> Topic | None:
        """Return a topic by names or ids; None if it does not exist. Over HTTP, a number is always an id."""
        if not (self._caller.can_express(stream) and self._caller.can_express(topic)):
            return None
        try:
            found = self._caller.call(GetOpenTopic(stream, topic))
        except NotFoundError:
            return None
        return None if found is None else _topic(found)

    def list(self, stream: str | None = None) -> builtins.list[Topic]:
        return [_topic(found) for found in self._caller.call(ListOpenTopics(stream))]

    def delete(self, name: TopicName) -> None:
        self._caller.call(DeleteTopic(name.stream, name.topic))

    def update(self, name: TopicName, **changes: Any) -> Topic:
        """Change options of a topic by name; omitted options stay unchanged."""
        TopicOptions(**changes)  # checks names and ranges
        return _topic(self._caller.call(ChangeTopicOptions(name.stream, name.topic, changes)))

    def rename(self, name: TopicName, to: str) -> None:
        """Rename a topic within its stream."""
        self._caller.call(RenameTopic(name.stream, name.topic, check_name(to, "topic")))

    def purge(self, name: TopicName) -> None:
        self._caller.call(PurgeTopic(name.stream, name.topic))


class RemotePartitions:
    """Partition commands."""

    def __init__(self, caller: Caller, topics: RemoteTopics) -> None:
        self._caller = caller
        self._topics = topics

    def create(self, topic: TopicName, count: int) -> Topic:
        """Add partitions to a topic; see Partitions.create()."""
        check_added_partitions(topic, len(self._topics.get(topic).partitions), count)
        self._caller.call(CreatePartitions(topic.stream, topic.topic, count))
        return self._topics.get(topic)

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the highest-numbered partitions of a topic; see Partitions.delete()."""
        check_deleted_partitions(topic, len(self._topics.get(topic).partitions), count)
        self._caller.call(DeletePartitions(topic.stream, topic.topic, count))
        return self._topics.get(topic)


def _stream(found: StreamDetails) -> Stream:
    return Stream(found.name, found.id, found.created_us, tuple(sorted(topic.name for topic in found.topics)))


def _topic(found: OpenTopic) -> Topic:
    return Topic(**found.values() | {"partitions": tuple(Partition(**part.values()) for part in found.partitions)})
