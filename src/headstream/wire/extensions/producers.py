"""Numbered batches: a producer gets an id, and what it sends with its numbers can be sent again.

A batch that comes again is answered with where it was appended the first time; see model/producers.py for the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from headstream.codec.buffer import BytesLike
from headstream.wire.codes import Code
from headstream.wire.extensions.shapes import Sent, WideFlag
from headstream.wire.records import Command, Record, one
from headstream.wire.refusals import refusal
from headstream.wire.shapes import U32, U64, Json, PartitionId, StreamId, TopicId
from headstream.wire.statuses import Status

__all__ = ["AppendNumbered", "AppendedBatch", "InitProducer", "NewProducer", "ReleaseProducer"]


@dataclass(frozen=True, slots=True)
class NewProducer(Record):
    """A producer's id, which no other is given, and the epoch that it begins with."""

    producer_id: U64
    epoch: U32


@dataclass(frozen=True, slots=True)
class InitProducer(Command[NewProducer]):
    """Get an id to number batches with; it is good for the user who asks."""

    code = Code.INIT_PRODUCER
    reply = one(NewProducer)


@dataclass(frozen=True, slots=True)
class AppendedBatch(Record):
    """Where a batch is.

    Args:
        offset: Of its first message.
        timestamp_us: When it was appended, microseconds since 1970 UTC.
        count: How many of its messages were stored; the others have ids that the topic remembers.
        is_repeat: Whether the batch was there already.
    """

    offset: U64
    timestamp_us: U64
    count: U32
    is_repeat: WideFlag


@dataclass(frozen=True, slots=True)
class AppendNumbered(Command[AppendedBatch]):
    """Append messages to one partition, unless they are there already; `messages` are sent ones, back to back.

    Args:
        stream: The stream.
        topic: The topic.
        partition: The partition's number.
        producer_id: The producer's id.
        epoch: Its epoch.
        sequence: The sequence of the first message in this partition.
        messages: The batch; it is the same whenever it is sent.
    """

    code = Code.APPEND_NUMBERED
    reply = one(AppendedBatch)
    has_messages = True
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    producer_id: U64
    epoch: U32
    sequence: U32
    messages: Sent

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        """Return the payload of its request, the messages as they are."""
        return replace(self, messages=b"").encode(), self.messages

    def validate(self) -> None:
        """Check that there is a message."""
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "an append without messages")


@dataclass(frozen=True, slots=True)
class ReleaseProducer(Command[None]):
    """Say that a producer is done with a topic: nothing that it has sent there will be sent again."""

    code = Code.RELEASE_PRODUCER
    stream: StreamId
    topic: TopicId
    producer_id: Annotated[U64, Json("producer_id")]
