"""Looks up streams, topics, groups and consumers that commands identify by number or name.

The status of a missing object depends on its type and identifier: stream number 1009, stream name 1010, topic number 2010, topic
name 2011, group number 5000, group name 5003.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from headstream.core.model.polling import ConsumerKind, OffsetOwner
from headstream.core.model.topology import Fsync
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import Identifier
from headstream.core.wire.statuses import Status
from headstream.log.catalog.catalog import topics_of
from headstream.log.catalog.records import GroupRecord, Snapshot, StreamRecord, TopicRecord
from headstream.log.log import Log


class FoundTopic(NamedTuple):
    """A topic in its stream."""

    stream: StreamRecord
    topic: TopicRecord


class _FoundTopics:
    """Streams and topics found in one snapshot of the catalog."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.streams: dict[Identifier, StreamRecord] = {}
        self.topics: dict[tuple[Identifier, Identifier], FoundTopic] = {}
        self.has_synced = any(topic.fsync is Fsync.ALWAYS for topic in topics_of(snapshot))


class TopicLookup:
    """Finds streams and topics; caches the results until a stream or topic changes. Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known = _FoundTopics({})

    def _now(self) -> _FoundTopics:
        snapshot = self._log.snapshot()
        known = self._known
        if known.snapshot is not snapshot:
            known = self._known = _FoundTopics(snapshot)
        return known

    def snapshot(self) -> Snapshot:
        """Return all streams and topics, the same object until a stream or topic changes."""
        return self._log.snapshot()

    def has_synced_topics(self) -> bool:
        """Return whether a topic exists that syncs to disk before it acknowledges."""
        return self._now().has_synced

    def stream(self, named: Identifier) -> StreamRecord:
        """Return a stream; error (1009, 1010) if it does not exist."""
        known = self._now()
        stream = known.streams.get(named)
        if stream is None:
            snapshot = known.snapshot
            stream = snapshot.get(named) if isinstance(named, str) else _with_id(snapshot.values(), named)
            if stream is None:
                status = Status.STREAM_NAME_NOT_FOUND if isinstance(named, str) else Status.STREAM_ID_NOT_FOUND
                raise refusal(status, f"there is no stream {named!r}", advice="Create the stream first")
            known.streams[named] = stream
        return stream

    def topic(self, stream: Identifier, topic: Identifier) -> FoundTopic:
        """Return a topic; error (1009, 1010, 2010, 2011) if it does not exist."""
        known = self._now()
        target = known.topics.get((stream, topic))
        if target is None:
            record = self.stream(stream)
            topics = record.topics
            found = topics.get(topic) if isinstance(topic, str) else _with_id(topics.values(), topic)
            if found is None:
                status = Status.TOPIC_NAME_NOT_FOUND if isinstance(topic, str) else Status.TOPIC_ID_NOT_FOUND
                name, where = (f"{record.name}/{topic}", None) if isinstance(topic, str) else (topic, record.name)
                raise refusal(status, f"there is no topic {name!r}", where=where, advice="Create the topic first")
            target = known.topics[stream, topic] = FoundTopic(record, found)
        return target


def find_group(topic: TopicRecord, named: Identifier) -> GroupRecord:
    """Return a created group of a topic; error (5000, 5003) if it does not exist."""
    for group in topic.groups:
        if named == (group.name if isinstance(named, str) else group.id):
            return group
    is_name = isinstance(named, str)
    status = Status.CONSUMER_GROUP_NAME_NOT_FOUND if is_name else Status.CONSUMER_GROUP_ID_NOT_FOUND
    raise refusal(status, f"there is no consumer group {named!r}", where=str(topic.name), advice="Create the group first")


def consumer_of(topic: TopicRecord, named: ConsumerRef, *, must_exist: bool) -> OffsetOwner:
    """Return the owner of offsets; a single consumer's number is used as its name.

    Args:
        must_exist: Whether a group must have been created; if not, the group's name is not checked.
    """
    if named.kind == ConsumerKind.CONSUMER:
        return OffsetOwner.named(str(named.id))
    if isinstance(named.id, str) and not must_exist:
        return OffsetOwner.group(named.id)
    return OffsetOwner.group(find_group(topic, named.id).name)


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


_N = TypeVar("_N", bound=_Numbered)


def _with_id(records: Iterable[_N], number: int) -> _N | None:
    return next((record for record in records if record.id == number), None)
