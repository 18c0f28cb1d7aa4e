"""Topics: Iggy's commands, and Headstream's commands with limits, syncing, retention, compaction, deduplication and summaries.

Errors are reported in this order: size too small (1019), duplicate name (2013), duplicate id (2012). Settings that a client
leaves to the server are resolved by the command, and their resolved values are reported. Compression and replication are ignored.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.counts import describe_topic, detail_topic
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.core.model.identifiers import TopicName, has_control_character
from headstream.core.model.topology import Limits, NewTopic, TopicOptions
from headstream.core.wire.commands.topics import (
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
from headstream.core.wire.extensions.topic_options import (
    ChangeTopicOptions,
    CreateOpenTopic,
    GetOpenTopic,
    ListOpenTopics,
    OpenTopic,
    RenameTopic,
)
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import InvalidOptionError
from headstream.log.administration import create_topic as add_topic
from headstream.log.administration import delete_topic as remove_topic
from headstream.log.administration import purge_topic as empty_topic
from headstream.log.administration import update_topic as change_topic
from headstream.log.catalog.records import NO_LABELS, StreamRecord, TopicLabels

_MOST: Final = (1 << 63) - 1
"""The longest time (microseconds: 292,000 years) and the largest size (bytes) that the log can store."""


def get_topic(server: Dispatcher, session: Session, command: GetTopic) -> TopicDetails | None:
    """Return a topic with its partitions."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).read_topic(target.stream.id, target.topic.id)
    return detail_topic(server.counts, target.topic)


def list_topics(server: Dispatcher, session: Session, command: ListTopics) -> tuple[Topic, ...]:
    """Return the topics of a stream, ordered by id."""
    stream = server.lookup.stream(command.stream)
    server.rights(session).list_topics(stream.id)
    return tuple(describe_topic(server.counts, topic) for topic in stream.topics.values())


def create_topic(server: Dispatcher, session: Session, command: CreateTopic) -> TopicDetails:
    """Create a topic."""
    backing = server.broker.backing
    with (log := backing.writable_log()).administration:
        stream = server.lookup.stream(command.stream)
        server.rights(session).create_topic(stream.id)
        options = _options(server, command, TopicOptions(deduplication_count=server.settings.deduplication_count))
        _check_name(stream, command.name)
        if any(topic.id == command.id for topic in stream.topics.values()):
            raise refusal(Status.TOPIC_ID_ALREADY_EXISTS, f"the topic {command.id} already exists", where=stream.name)
        name = TopicName(stream.name, command.name)
        new = NewTopic(name, command.partitions_count, Limits.IGGY, command.fsync or server.settings.fsync, options)
        add_topic(log, new, backing.clock_us(), _labels(command), command.id or None)
        log.upkeep.start(backing.clock_us)
        return detail_topic(server.counts, log.snapshot()[stream.name].topics[command.name])


def update_topic(server: Dispatcher, session: Session, command: UpdateTopic) -> None:
    """Change a topic's name and settings."""
    backing = server.broker.backing
    with (log := backing.writable_log()).administration:
        stream, topic = server.lookup.topic(command.stream, command.topic)
        server.rights(session).manage_topic(stream.id, topic.id)
        options = _options(server, command, topic.options)
        labels = _labels(command, topic.labels)
        if command.name != topic.name.topic:
            _check_name(stream, command.name)
        change_topic(log, topic, name=command.name, options=options, labels=labels)
    log.upkeep.start(backing.clock_us)


def delete_topic(server: Dispatcher, session: Session, command: DeleteTopic) -> None:
    """Delete a topic with all of its messages."""
    with (log := server.broker.backing.writable_log()).administration:
        stream, topic = server.lookup.topic(command.stream, command.topic)
        server.rights(session).manage_topic(stream.id, topic.id)
        remove_topic(log, topic)
    server.connection_groups.forget(stream.number, topic.id)
    server.balance.forget(stream.number, topic.id)


def purge_topic(server: Dispatcher, session: Session, command: PurgeTopic) -> None:
    """Remove all messages and stored offsets of a topic; groups and their members are kept."""
    backing = server.broker.backing
    with (log := backing.writable_log()).administration:
        stream, topic = server.lookup.topic(command.stream, command.topic)
        server.rights(session).manage_topic(stream.id, topic.id)
        empty_topic(log, topic, backing.clock_us())


def _options(server: Dispatcher, command: CreateTopic | UpdateTopic, before: TopicOptions) -> TopicOptions:
    """Return a topic's options, with the server's defaults resolved."""
    settings, log = server.settings, server.broker.backing.log
    expiry_us, size_bytes = command.message_expiry, command.max_topic_size
    if size_bytes not in (None, SERVER_DEFAULT, NEVER) and size_bytes < log.segment_bytes:
        raise refusal(
            Status.INVALID_TOPIC_SIZE,
            f"the maximum size of a topic must be at least its segment size, not {size_bytes} bytes",
            advice=f"Use {log.segment_bytes} or more",
        )
    return replace(
        before,
        retention_us=_limit(expiry_us, settings.message_expiry_us, before.retention_us),
        retention_bytes=_limit(size_bytes, settings.max_topic_bytes, before.retention_bytes),
    )


def _limit(value: int | None, default: int | None, before: int | None) -> int | None:
    if value is None:
        return before
    if value == SERVER_DEFAULT:
        return default
    return None if value == NEVER else min(value, _MOST)


def _labels(command: CreateTopic | UpdateTopic, before: TopicLabels = NO_LABELS) -> TopicLabels:
    compression = before.compression if command.compression is None else command.compression
    replication = before.replication if command.replication_factor is None else command.replication_factor or 1
    return TopicLabels(compression, replication)


def _check_name(stream: StreamRecord, name: str) -> None:
    if has_control_character(name):
        raise refusal(Status.INVALID_TOPIC_NAME, f"the name {name!r} contains control characters", advice="Use another name")
    if name in stream.topics:
        raise refusal(Status.TOPIC_NAME_ALREADY_EXISTS, f"the topic {name!r} already exists", where=stream.name)


_OPTIONS: Final = frozenset(asdict(TopicOptions()))


def create_open_topic(server: Dispatcher, session: Session, command: CreateOpenTopic) -> OpenTopic:
    """Create a topic, and its stream if missing."""
    stream = server.lookup.snapshot().get(command.stream)
    if stream is None:
        server.rights(session).create_stream()
    else:
        server.rights(session).create_topic(stream.id)
    options = TopicOptions(**{name: getattr(command, name) for name in _OPTIONS})
    return OpenTopic.of(
        server.broker.topics.create(
            NewTopic(
                TopicName(command.stream, command.name),
                command.partitions_count,
                command.limits,
                fsync=command.fsync,
                options=options,
            ),
            if_not_exists=command.if_not_exists,
        )
    )


def get_open_topic(server: Dispatcher, session: Session, command: GetOpenTopic) -> OpenTopic | None:
    """Return a topic."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).read_topic(target.stream.id, target.topic.id)
    return OpenTopic.of(server.broker.topics.get(target.topic.name))


def list_open_topics(server: Dispatcher, session: Session, command: ListOpenTopics) -> tuple[OpenTopic, ...]:
    """Return the topics of one stream, or of all streams."""
    if command.stream is None:
        server.rights(session).list_streams()
        name = None
    else:
        stream = server.lookup.stream(command.stream)
        server.rights(session).list_topics(stream.id)
        name = stream.name
    return tuple(OpenTopic.of(topic) for topic in server.broker.topics.list(name))


def change_topic_options(server: Dispatcher, session: Session, command: ChangeTopicOptions) -> OpenTopic:
    """Change topic options by name."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).manage_topic(target.stream.id, target.topic.id)
    unknown = sorted(set(command.changes) - _OPTIONS)
    if unknown:
        raise InvalidOptionError(f"there is no option {unknown[0]!r}", advice=f"Use one of {', '.join(sorted(_OPTIONS))}")
    return OpenTopic.of(server.broker.topics.update(target.topic.name, **command.changes))


def rename_topic(server: Dispatcher, session: Session, command: RenameTopic) -> None:
    """Rename a topic."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).manage_topic(target.stream.id, target.topic.id)
    server.broker.topics.rename(target.topic.name, command.name)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetTopic: CommandRow(get_topic, is_slow=True),
    ListTopics: CommandRow(list_topics, is_slow=True, threads="scans"),
    CreateTopic: CommandRow(create_topic, is_slow=True),
    UpdateTopic: CommandRow(update_topic, is_slow=True),
    DeleteTopic: CommandRow(delete_topic, is_slow=True),
    PurgeTopic: CommandRow(purge_topic, is_slow=True),
    CreateOpenTopic: CommandRow(create_open_topic, is_slow=True),
    GetOpenTopic: CommandRow(get_open_topic, is_slow=True),
    ListOpenTopics: CommandRow(list_open_topics, is_slow=True, threads="scans"),
    ChangeTopicOptions: CommandRow(change_topic_options, is_slow=True),
    RenameTopic: CommandRow(rename_topic, is_slow=True),
}
