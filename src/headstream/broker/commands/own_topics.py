"""Our own commands about topics: with limits, syncing, retention, compaction and deduplication; and the log's identity."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.sessions import Session
from headstream.errors import InvalidOptionError
from headstream.model.identifiers import TopicName
from headstream.model.topology import Topic, TopicOptions
from headstream.wire.extensions.topics import (
    ChangeTopicOptions,
    CreateOpenTopic,
    GetIdentity,
    GetOpenTopic,
    Identity,
    ListOpenTopics,
    OpenPartition,
    OpenTopic,
    RenameTopic,
)
from headstream.wire.records import Command

__all__ = ["HANDLERS"]

_OPTIONS: Final = frozenset(asdict(TopicOptions()))


def create_open_topic(server: Dispatcher, session: Session, command: CreateOpenTopic) -> OpenTopic:
    """Make a topic, and its stream where there is none."""
    stream = server.places.snapshot().get(command.stream)
    if stream is None:
        server.rights(session).create_stream()
    else:
        server.rights(session).create_topic(stream.id)
    options = TopicOptions(**{name: getattr(command, name) for name in _OPTIONS})
    return _describe(
        server.broker.topics.create(
            TopicName(command.stream, command.name),
            command.partitions_count,
            command.limits,
            fsync=command.fsync,
            options=options,
            if_not_exists=command.if_not_exists,
        )
    )


def get_open_topic(server: Dispatcher, session: Session, command: GetOpenTopic) -> OpenTopic | None:
    """Return a topic."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).read_topic(place.stream.id, place.topic.id)
    return _describe(server.broker.topics.get(place.topic.name))


def list_open_topics(server: Dispatcher, session: Session, command: ListOpenTopics) -> tuple[OpenTopic, ...]:
    """Return the topics of a stream, or of all."""
    if command.stream is None:
        server.rights(session).list_streams()
        name = None
    else:
        stream = server.places.stream(command.stream)
        server.rights(session).list_topics(stream.id)
        name = stream.name
    return tuple(_describe(topic) for topic in server.broker.topics.list(name))


def change_topic_options(server: Dispatcher, session: Session, command: ChangeTopicOptions) -> OpenTopic:
    """Change options of a topic by name."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).manage_topic(place.stream.id, place.topic.id)
    unknown = sorted(set(command.changes) - _OPTIONS)
    if unknown:
        raise InvalidOptionError(f"there is no option {unknown[0]!r}", advice=f"There are {', '.join(sorted(_OPTIONS))}")
    return _describe(server.broker.topics.update(place.topic.name, **command.changes))


def rename_topic(server: Dispatcher, session: Session, command: RenameTopic) -> None:
    """Give a topic another name."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).manage_topic(place.stream.id, place.topic.id)
    server.broker.topics.rename(place.topic.name, command.name)


def get_identity(server: Dispatcher, session: Session, command: GetIdentity) -> Identity:
    """Return what tells this log from every other."""
    return Identity(server.broker.identity or "")


def _describe(topic: Topic) -> OpenTopic:
    return OpenTopic(
        topic.stream,
        topic.name,
        topic.id,
        topic.created_us,
        topic.limits,
        topic.fsync,
        topic.retention_us,
        topic.retention_bytes,
        topic.compaction_delay_us,
        topic.deduplication_count,
        topic.identity,
        tuple(
            OpenPartition(part.number, part.first_offset, part.end_offset, part.size_bytes, part.compacted_count, part.generation)
            for part in topic.partitions
        ),
    )


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    CreateOpenTopic: create_open_topic,
    GetOpenTopic: get_open_topic,
    ListOpenTopics: list_open_topics,
    ChangeTopicOptions: change_topic_options,
    RenameTopic: rename_topic,
    GetIdentity: get_identity,
}
