"""Transport: the interface between a client and an embedded broker or a server.

The broker (headstream.broker) implements this interface with the same names and semantics.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.filter import Filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.groups import Assignment, Group, Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import StateChange
from headstream.core.model.polling import OffsetOwner, Polled, SegmentCounts
from headstream.core.model.producers import Appended, BatchNumber, ProducerId
from headstream.core.model.removals import Removal
from headstream.core.model.topology import ClusterStats, NewTopic, Stream, Topic


class StreamCommands(Protocol):
    """Stream commands."""

    def create(self, name: str) -> Stream:
        """Create a stream."""

    def get(self, name: str) -> Stream:
        """Return a stream."""

    def find(self, stream: str | int) -> Stream | None:
        """Return a stream by name or id; None if it does not exist."""

    def list(self) -> list[Stream]:
        """Return all streams."""

    def rename(self, name: str, to: str) -> None:
        """Rename a stream."""

    def delete(self, name: str) -> None:
        """Delete a stream with all its topics."""


class TopicCommands(Protocol):
    """Topic commands."""

    def create(self, new: NewTopic, *, if_not_exists: bool = False) -> Topic:
        """Create a topic, and its stream if missing."""

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its current partitions."""

    def find(self, stream: str | int, topic: str | int) -> Topic | None:
        """Return a topic by the names or ids of stream and topic; None if it does not exist."""

    def list(self, stream: str | None = None) -> builtins.list[Topic]:
        """Return all topics of one stream, or of all streams."""

    def delete(self, name: TopicName) -> None:
        """Delete a topic with its messages and committed offsets."""

    def update(self, name: TopicName, **changes: Any) -> Topic:
        """Change options of a topic (fields of TopicOptions); omitted options are unchanged."""

    def rename(self, name: TopicName, to: str) -> None:
        """Rename a topic within its stream."""

    def purge(self, name: TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it."""


class PartitionCommands(Protocol):
    """Partition commands."""

    def create(self, topic: TopicName, count: int) -> Topic:
        """Add partitions to a topic."""

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the highest-numbered partitions of a topic."""


class MessageCommands(Protocol):
    """Message commands."""

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch to a partition and return the offset of its first message."""

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = ...,
        *,
        retry_timeout_s: float | None = ...,
    ) -> Appended:
        """Append a batch to a partition, once per batch number; return its position."""

    def poll(self, topic: TopicName, partition: int, request: PollRequest) -> Polled:
        """Return messages of a partition as stored bytes, without waiting."""

    def count_segments(self, topic: TopicName, where: Filter) -> SegmentCounts | None:
        """Return how much of a topic a filter reads; None if unknown."""

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = ..., by: str = ...
    ) -> None:
        """Set the state of messages and record the reason."""

    def remove_marked(self, topic: TopicName, partition: int, reason: str) -> Removal:
        """Remove from the disk messages that are marked for deletion with a reason, in one group of segments."""

    def states(self, topic: TopicName, partition: int) -> list[StateChange]:
        """Return all messages of a partition whose state is not `available`, by offset."""

    def wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        timeout_ms: float,
        *,
        member: Member | None = ...,
        generation: int = ...,
    ) -> bool:
        """Wait until a partition has a message at or after its offset, or the group has changed."""


@runtime_checkable
class NumberedCommands(Protocol):
    """Commands for numbered batches, for transports that can lose a response."""

    def init_producer(self, *, retry_timeout_s: float | None = ...) -> ProducerId | None:
        """Return a producer id for numbered batches; None if unsupported."""

    def release_producer(self, topic: TopicName, producer_id: int) -> None:
        """Release the state of a producer that sends no more messages to a topic."""


class PolledAhead(Protocol):
    """A requested poll with an unread result."""

    def result(self) -> Polled:
        """Return the result; can be called only once."""

    def cancel(self) -> None:
        """Cancel the poll."""


@runtime_checkable
class AheadCommands(Protocol):
    """Additional message commands of a network transport."""

    def poll_ahead(self, topic: TopicName, partition: int, request: PollRequest) -> PolledAhead:
        """Request messages without waiting for the response."""


class OffsetCommands(Protocol):
    """Commands for committed offsets."""

    def committed(self, topic: TopicName, consumer: OffsetOwner) -> dict[int, int]:
        """Return the committed offsets by partition."""

    def commit(
        self, topic: TopicName, consumer: OffsetOwner, offsets: Mapping[int, int], *, generations: Mapping[int, int] = ...
    ) -> None:
        """Commit a consumer's offsets."""


class GroupCommands(Protocol):
    """Consumer group commands; the first five are for members."""

    def join(self, topic: TopicName, group: str, *, session_timeout_ms: float = ..., is_shared: bool = ...) -> Member:
        """Add a new member to a group."""

    def leave(self, topic: TopicName, member: Member) -> None:
        """Remove a member."""

    def abandon(self, topic: TopicName, member: Member) -> None:
        """Remove a member in the background; safe to call from a finalizer."""

    def report(self, topic: TopicName, member: Member, *, released: Iterable[int] = ..., is_resting: bool = ...) -> Assignment:
        """Record a member's heartbeat and released partitions; return the member's assignment."""

    def commit(
        self,
        topic: TopicName,
        member: Member,
        offsets: Mapping[int, int],
        *,
        generation: int,
        generations: Mapping[int, int] = ...,
        is_resting: bool = ...,
    ) -> int:
        """Commit a group's offsets for one of its members; return the group's generation."""

    def list(self, topic: TopicName) -> builtins.list[Group]:
        """Return the groups of a topic."""

    def get(self, topic: TopicName, group: str) -> Group:
        """Return one group."""

    def delete(self, topic: TopicName, group: str) -> None:
        """Delete a group and its committed offsets."""

    def seek(self, topic: TopicName, group: str, offsets: Mapping[int, int]) -> Group:
        """Set a group's committed offsets."""


class Transport(Protocol):
    """All commands of a log."""

    @property
    def streams(self) -> StreamCommands:
        """Stream commands."""

    @property
    def topics(self) -> TopicCommands:
        """Topic commands."""

    @property
    def partitions(self) -> PartitionCommands:
        """Partition commands."""

    @property
    def messages(self) -> MessageCommands:
        """Message commands."""

    @property
    def offsets(self) -> OffsetCommands:
        """Commands for committed offsets."""

    @property
    def groups(self) -> GroupCommands:
        """Consumer group commands."""

    @property
    def identity(self) -> str | None:
        """The UUID of this log; None before the first write."""

    def close(self) -> None:
        """Release the log or the connections."""


@runtime_checkable
class TopicNaming(Protocol):
    """Additional calls of a transport that has topic names without a stream."""

    def topic_name(self, name: str) -> TopicName:
        """Return the topic for a name without a slash."""


@runtime_checkable
class KeyPartitioning(Protocol):
    """Additional calls of a transport with its own partition numbers and key hash."""

    @property
    def first_partition(self) -> int:
        """The number of the first partition of each topic."""

    def partition_of(self, key: bytes, partitions: int) -> int:
        """Return the partition of a key."""


@runtime_checkable
class ClusterCounts(Protocol):
    """Additional call to a transport of a cluster."""

    def stats(self) -> ClusterStats:
        """Return the cluster's statistics."""


@runtime_checkable
class OwnConnections(Protocol):
    """Additional calls of a transport with a connection per producer and consumer."""

    def for_producer(self) -> Transport:
        """Return a transport to the same log for one producer, which closes it."""

    def for_consumer(self) -> Transport:
        """Return a transport to the same log for one consumer, which closes it."""


@runtime_checkable
class PreparedPolls(Protocol):
    """Additional message commands of a transport that polls partitions together."""

    def prepare(self, topic: TopicName, positions: Mapping[int, int]) -> None:
        """Prepare the polls of one consumer; `positions` maps partitions to offsets."""


@runtime_checkable
class RemoteAccess(Protocol):
    """Additional calls of a transport to a server."""

    def open(self) -> None:
        """Connect."""

    def interrupt(self, thread: int, is_over: bool = False) -> None:
        """Interrupt a thread's current call, as if the connection had broken; see Client.interrupt()."""
