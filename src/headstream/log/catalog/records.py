"""The catalog's streams, topics and groups, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, TopicOptions

NO_OPTIONS: Final = TopicOptions()


@dataclass(frozen=True, slots=True)
class TopicLabels:
    """Labels of a topic, unsigned 8-bit, that Iggy clients can set and read; labels have no effect. Compression 1: none."""

    compression: int = 1
    replication: int = 1


NO_LABELS: Final = TopicLabels()


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group of a topic; its number, from 1, is unique within the topic."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic of the catalog; `number` and `stream_number` name its directory."""

    name: TopicName
    id: int
    number: int
    stream_number: int
    created_us: int
    limits: Limits
    partitions: int
    fsync: Fsync
    partitions_created_us: tuple[int, ...] = ()
    options: TopicOptions = NO_OPTIONS
    labels: TopicLabels = NO_LABELS
    groups: tuple[GroupRecord, ...] = ()

    @property
    def identity(self) -> str:
        """Path of the topic's directory; identifies the topic even after purges and deletions of topics with its name."""
        return f"{self.stream_number}/{self.number}"

    def generation(self, partition: int) -> int:
        """Return the number that identifies a partition even after purges and deletions of partitions with its number."""
        return self.partitions_created_us[partition - 1] if partition <= len(self.partitions_created_us) else 0


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream of the catalog, with its topics by name, ordered by id."""

    name: str
    id: int
    number: int
    created_us: int
    topics: Mapping[str, TopicRecord]


Snapshot = Mapping[str, StreamRecord]
"""All streams by name, ordered by id, at one point in time."""
