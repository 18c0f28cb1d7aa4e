"""Places: the streams, topics, groups and consumers that commands name, by number or by name.

What is missing has its own status by what was named, and how: 1009 a stream's number, 1010 its name, 2010 and 2011 a
topic's, 5000 and 5003 a group's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from headstream.log.catalog import GroupRecord, Snapshot, StreamRecord, TopicRecord
from headstream.log.log import Log
from headstream.model.polling import Consumer, ConsumerKind
from headstream.model.topology import Fsync
from headstream.wire.commands.offsets import ConsumerRef
from headstream.wire.refusals import refusal
from headstream.wire.shapes import Identifier
from headstream.wire.statuses import Status

__all__ = ["Place", "Places", "consumer_of", "find_group"]


class Place(NamedTuple):
    """A topic in its stream."""

    stream: StreamRecord
    topic: TopicRecord


class _Known:
    """What has been found in one snapshot; whoever has another looks anew."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.streams: dict[Identifier, StreamRecord] = {}
        self.topics: dict[tuple[Identifier, Identifier], Place] = {}
        topics = (topic for stream in snapshot.values() for topic in stream.topics.values())
        self.has_synced = any(topic.fsync is Fsync.ALWAYS for topic in topics)


class Places:
    """What there is, found again in a step as long as no stream or topic changes; any thread.

    Args:
        log: The log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known = _Known({})

    def _now(self) -> _Known:
        snapshot = self._log.snapshot()
        known = self._known
        if known.snapshot is not snapshot:
            known = self._known = _Known(snapshot)
        return known

    def snapshot(self) -> Snapshot:
        """Return all streams and topics as they are now: the same object as long as none of them changes."""
        return self._log.snapshot()

    def has_synced_topics(self) -> bool:
        """Return whether any topic acknowledges only what is on the disk itself."""
        return self._now().has_synced

    def stream(self, named: Identifier) -> StreamRecord:
        """Return a stream, or refuse (1009, 1010)."""
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

    def topic(self, stream: Identifier, topic: Identifier) -> Place:
        """Return a topic, or refuse (1009, 1010, 2010, 2011)."""
        known = self._now()
        place = known.topics.get((stream, topic))
        if place is None:
            record = self.stream(stream)
            topics = record.topics
            found = topics.get(topic) if isinstance(topic, str) else _with_id(topics.values(), topic)
            if found is None:
                status = Status.TOPIC_NAME_NOT_FOUND if isinstance(topic, str) else Status.TOPIC_ID_NOT_FOUND
                name, where = (f"{record.name}/{topic}", None) if isinstance(topic, str) else (topic, record.name)
                raise refusal(status, f"there is no topic {name!r}", where=where, advice="Create the topic first")
            place = known.topics[stream, topic] = Place(record, found)
        return place


def find_group(topic: TopicRecord, named: Identifier) -> GroupRecord:
    """Return a group that somebody has made in a topic, or refuse (5000, 5003)."""
    for group in topic.groups:
        if named == (group.name if isinstance(named, str) else group.id):
            return group
    is_name = isinstance(named, str)
    status = Status.CONSUMER_GROUP_NAME_NOT_FOUND if is_name else Status.CONSUMER_GROUP_ID_NOT_FOUND
    raise refusal(status, f"there is no consumer group {named!r}", where=str(topic.name), advice="Create the group first")


def consumer_of(topic: TopicRecord, named: ConsumerRef, *, must_exist: bool) -> Consumer:
    """Return who commits offsets: a single consumer's number is its name here.

    Args:
        topic: The topic.
        named: The consumer or group.
        must_exist: Whether a group must have been made; otherwise a name that nobody has made stands for itself.
    """
    if named.kind == ConsumerKind.CONSUMER:
        return Consumer.named(str(named.id))
    if isinstance(named.id, str) and not must_exist:
        return Consumer.group(named.id)
    return Consumer.group(find_group(topic, named.id).name)


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


_N = TypeVar("_N", bound=_Numbered)


def _with_id(records: Iterable[_N], number: int) -> _N | None:
    return next((record for record in records if record.id == number), None)
