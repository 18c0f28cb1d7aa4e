"""Topics, as existing clients manage them.

A size that is too small is told first (1019), then a name that is taken (2013), then an id that is (2012). What a client
leaves to the server is settled when it says so, and reported as settled. Compression and replication are only remembered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from headstream.broker.commands.counts import describe_topic, detail_topic
from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.sessions import Session
from headstream.log.administration import create_topic as add_topic
from headstream.log.administration import delete_topic as remove_topic
from headstream.log.administration import purge_topic as empty_topic
from headstream.log.administration import update_topic as change_topic
from headstream.log.catalog import StreamRecord, TopicLabels
from headstream.model.topology import Limits, TopicOptions
from headstream.wire.commands.topics import (
    NEVER,
    SERVER_DEFAULT,
    CreateTopic,
    DeleteTopic,
    GetTopic,
    ListTopics,
    PurgeTopic,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["HANDLERS"]

_MOST: Final = (1 << 63) - 1
"""What the log keeps of a time or a size: 292,000 years."""


def get_topic(server: Dispatcher, session: Session, command: GetTopic) -> TopicDetails | None:
    """Return a topic with its partitions."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).read_topic(place.stream.id, place.topic.id)
    return detail_topic(server.counts, place.topic)


def list_topics(server: Dispatcher, session: Session, command: ListTopics) -> tuple[Topic, ...]:
    """Return the topics of a stream, in the order of their ids."""
    stream = server.places.stream(command.stream)
    server.rights(session).list_topics(stream.id)
    return tuple(describe_topic(server.counts, topic) for topic in stream.topics.values())


def create_topic(server: Dispatcher, session: Session, command: CreateTopic) -> TopicDetails:
    """Make a topic."""
    backing = server.broker.backing
    log = backing.writable_log()
    with log.administration:
        stream = server.places.stream(command.stream)
        server.rights(session).create_topic(stream.id)
        options = _options(server, command, TopicOptions(deduplication_count=server.settings.deduplication_count))
        _check_name(stream, command.name)
        if any(topic.id == command.id for topic in stream.topics.values()):
            raise refusal(Status.TOPIC_ID_ALREADY_EXISTS, f"there is a topic {command.id} already", where=stream.name)
        add_topic(
            log,
            stream.name,
            command.name,
            command.partitions_count,
            Limits.IGGY,
            backing.clock_us(),
            fsync=server.settings.fsync,
            options=options,
            labels=_labels(command),
            id_=command.id or None,
        )
        log.background.start(backing.clock_us)
        return detail_topic(server.counts, log.snapshot()[stream.name].topics[command.name])


def update_topic(server: Dispatcher, session: Session, command: UpdateTopic) -> None:
    """Give a topic another name and other settings."""
    backing = server.broker.backing
    log = backing.writable_log()
    with log.administration:
        stream, topic = server.places.topic(command.stream, command.topic)
        server.rights(session).manage_topic(stream.id, topic.id)
        options = _options(server, command, topic.options)
        if command.name != topic.name.topic:
            _check_name(stream, command.name)
        change_topic(log, topic, name=command.name, options=options, labels=_labels(command))
    log.background.start(backing.clock_us)


def delete_topic(server: Dispatcher, session: Session, command: DeleteTopic) -> None:
    """Delete a topic with everything in it."""
    log = server.broker.backing.writable_log()
    with log.administration:
        stream, topic = server.places.topic(command.stream, command.topic)
        server.rights(session).manage_topic(stream.id, topic.id)
        remove_topic(log, topic)
    server.connection_groups.forget(stream.number, topic.id)
    server.balance.forget(stream.number, topic.id)


def purge_topic(server: Dispatcher, session: Session, command: PurgeTopic) -> None:
    """Remove all messages and stored offsets of a topic; its groups and their members stay."""
    backing = server.broker.backing
    log = backing.writable_log()
    with log.administration:
        stream, topic = server.places.topic(command.stream, command.topic)
        server.rights(session).manage_topic(stream.id, topic.id)
        empty_topic(log, topic, backing.clock_us())


def _options(server: Dispatcher, command: CreateTopic | UpdateTopic, before: TopicOptions) -> TopicOptions:
    """Return what a topic keeps, with what is left to the server settled."""
    settings, log = server.settings, server.broker.backing.log
    expiry_us, size_bytes = command.message_expiry, command.max_topic_size
    if size_bytes not in (SERVER_DEFAULT, NEVER) and size_bytes < log.segment_bytes:
        raise refusal(
            Status.INVALID_TOPIC_SIZE,
            f"a topic of {size_bytes} bytes is smaller than one of its segments",
            advice=f"Use {log.segment_bytes} or more",
        )
    return replace(
        before,
        retention_us=settings.message_expiry_us if expiry_us == SERVER_DEFAULT else _limit(expiry_us),
        retention_bytes=settings.max_topic_bytes if size_bytes == SERVER_DEFAULT else _limit(size_bytes),
    )


def _limit(value: int) -> int | None:
    return None if value == NEVER else min(value, _MOST)


def _labels(command: CreateTopic | UpdateTopic) -> TopicLabels:
    return TopicLabels(command.compression, command.replication_factor or 1)


def _check_name(stream: StreamRecord, name: str) -> None:
    if name in stream.topics:
        raise refusal(Status.TOPIC_NAME_ALREADY_EXISTS, f"there is a topic {name!r} already", where=stream.name)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    GetTopic: get_topic,
    ListTopics: list_topics,
    CreateTopic: create_topic,
    UpdateTopic: update_topic,
    DeleteTopic: delete_topic,
    PurgeTopic: purge_topic,
}
