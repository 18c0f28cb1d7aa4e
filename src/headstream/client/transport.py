"""Transport: what a client needs of whatever is behind it, an embedded broker or a server.

The names and meanings are the broker's (headstream.broker), which satisfies this as it is.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from headstream.codec.buffer import BytesLike
from headstream.model.groups import Assignment, Group, Member
from headstream.model.identifiers import TopicName
from headstream.model.message import StateChange
from headstream.model.polling import Consumer, Polled, PollingStrategy
from headstream.model.producers import Appended, BatchNumber, ProducerId
from headstream.model.topology import Fsync, Limits, Stream, Topic, TopicOptions

__all__ = [
    "AheadCommands",
    "GroupCommands",
    "MessageCommands",
    "NumberedCommands",
    "OffsetCommands",
    "PartitionCommands",
    "PolledAhead",
    "RemoteAccess",
    "StreamCommands",
    "TopicCommands",
    "Transport",
]


class StreamCommands(Protocol):
    """What can be done with streams."""

    def create(self, name: str) -> Stream:
        """Make a stream."""

    def get(self, name: str) -> Stream:
        """Return a stream."""

    def list(self) -> list[Stream]:
        """Return all streams."""

    def rename(self, name: str, to: str) -> None:
        """Give a stream another name."""

    def delete(self, name: str) -> None:
        """Delete a stream with all its topics."""


class TopicCommands(Protocol):
    """What can be done with topics."""

    def create(
        self,
        name: TopicName,
        partitions: int,
        limits: Limits,
        *,
        fsync: Fsync = Fsync.INTERVAL,
        options: TopicOptions | None = None,
        if_not_exists: bool = False,
    ) -> Topic:
        """Make a topic, and its stream where there is none."""

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its partitions as they are now."""

    def list(self, stream: str | None = None) -> builtins.list[Topic]:
        """Return all topics of one stream, or of all."""

    def delete(self, name: TopicName) -> None:
        """Delete a topic with its messages and offsets."""

    def update(self, name: TopicName, **changes: int | None) -> Topic:
        """Change options of a topic (those of TopicOptions) by name; the others stay as they are."""

    def rename(self, name: TopicName, to: str) -> None:
        """Give a topic another name in its stream."""

    def purge(self, name: TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it."""


class PartitionCommands(Protocol):
    """What can be done with the partitions of a topic."""

    def create(self, topic: TopicName, count: int) -> Topic:
        """Add partitions to a topic."""

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Delete the highest numbered partitions of a topic."""


class MessageCommands(Protocol):
    """What can be done with messages."""

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch to a partition and return the offset of its first message."""

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = ...,
        *,
        patience_s: float | None = ...,
    ) -> Appended:
        """Append a batch to a partition, by its number once however often it is sent, and return where it is."""

    def poll(
        self,
        topic: TopicName,
        partition: int,
        strategy: PollingStrategy,
        count: int,
        *,
        states: frozenset[int] | None = ...,
        size_bytes: int = ...,
        consumer: Consumer | None = ...,
        auto_commit: bool = ...,
    ) -> Polled:
        """Return messages of a partition as stored bytes, without waiting for any."""

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = ..., by: str = ...
    ) -> None:
        """Set the state of messages, and record why."""

    def states(self, topic: TopicName, partition: int) -> list[StateChange]:
        """Return every message of a partition that is not available, by offset."""

    def wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        timeout_ms: float,
        *,
        member: Member | None = ...,
        generation: int = ...,
    ) -> bool:
        """Wait until a partition has a message at or after an offset, or a member's group has changed."""


@runtime_checkable
class NumberedCommands(Protocol):
    """What can be done with messages besides, where an answer may be lost on its way: numbering what is sent."""

    def init_producer(self, *, patience_s: float | None = ...) -> ProducerId | None:
        """Return an id to number batches with, None where they cannot be numbered."""

    def release_producer(self, topic: TopicName, producer_id: int) -> None:
        """Have a producer forgotten, which sends nothing more to a topic."""


class PolledAhead(Protocol):
    """A poll that was asked for and not yet looked at."""

    def result(self) -> Polled:
        """Return what it brought, once."""

    def cancel(self) -> None:
        """Give it up."""


@runtime_checkable
class AheadCommands(Protocol):
    """What can be done with messages besides, where they come over a network."""

    def poll_ahead(
        self,
        topic: TopicName,
        partition: int,
        strategy: PollingStrategy,
        count: int,
        *,
        states: frozenset[int] | None = ...,
        size_bytes: int = ...,
    ) -> PolledAhead:
        """Ask for messages and go on without waiting for them."""


class OffsetCommands(Protocol):
    """What can be done with committed offsets."""

    def committed(self, topic: TopicName, consumer: Consumer) -> dict[int, int]:
        """Return the committed offset of each partition that has one."""

    def commit(
        self, topic: TopicName, consumer: Consumer, offsets: Mapping[int, int], *, generations: Mapping[int, int] = ...
    ) -> None:
        """Commit where a consumer goes on."""


class GroupCommands(Protocol):
    """What can be done with consumer groups; the first five are for their members."""

    def join(self, topic: TopicName, group: str, *, session_timeout_ms: float = ...) -> Member:
        """Take a new member into a group."""

    def leave(self, topic: TopicName, member: Member) -> None:
        """Let a member go."""

    def abandon(self, topic: TopicName, member: Member) -> None:
        """Let a member go soon; a finalizer may call it."""

    def report(self, topic: TopicName, member: Member, *, released: Iterable[int] = ..., is_resting: bool = ...) -> Assignment:
        """Take note that a member is alive and what it gives up, and return what it reads."""

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
        """Commit where a group goes on, for one of its members, and return the group's generation."""

    def list(self, topic: TopicName) -> builtins.list[Group]:
        """Return the groups of a topic."""

    def get(self, topic: TopicName, group: str) -> Group:
        """Return one group."""

    def delete(self, topic: TopicName, group: str) -> None:
        """Forget everything a group has committed."""

    def seek(self, topic: TopicName, group: str, offsets: Mapping[int, int]) -> Group:
        """Say where a group goes on."""


class Transport(Protocol):
    """Everything a client can ask for."""

    @property
    def streams(self) -> StreamCommands:
        """What can be done with streams."""

    @property
    def topics(self) -> TopicCommands:
        """What can be done with topics."""

    @property
    def partitions(self) -> PartitionCommands:
        """What can be done with the partitions of a topic."""

    @property
    def messages(self) -> MessageCommands:
        """What can be done with messages."""

    @property
    def offsets(self) -> OffsetCommands:
        """What can be done with committed offsets."""

    @property
    def groups(self) -> GroupCommands:
        """What can be done with consumer groups."""

    @property
    def identity(self) -> str | None:
        """The UUID of this log, or None before its first write."""

    def close(self) -> None:
        """Let go of what is behind."""


@runtime_checkable
class RemoteAccess(Protocol):
    """What can be done besides, where a server is behind it."""

    def open(self) -> None:
        """Connect."""

    def interrupt(self, thread: int) -> None:
        """Have the call end soon that a thread is in, as if its connection had broken."""
