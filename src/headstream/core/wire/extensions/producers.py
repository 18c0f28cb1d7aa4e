"""Commands for numbered batches: a producer receives an id, and can repeat a numbered batch, which is appended only once.

The response to a repeated batch contains the offset of the first append. core/model/producers.py describes the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.codes import Code
from headstream.core.wire.extensions.shapes import Sent, WideFlag
from headstream.core.wire.records import Command, Record, TopicCommand, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import U32, U64, Json, PartitionId
from headstream.core.wire.statuses import Status


@dataclass(frozen=True, slots=True)
class NewProducer(Record):
    """A producer's unique id and its first epoch."""

    producer_id: U64
    epoch: U32


@dataclass(frozen=True, slots=True)
class InitProducer(Command[NewProducer]):
    """Return a producer id for numbering batches. Only the calling user can use the id."""

    code = Code.INIT_PRODUCER
    reply = one(NewProducer)


@dataclass(frozen=True, slots=True)
class AppendedBatch(Record):
    """The position of an appended batch. `count` messages were stored; the topic dropped all others because their ids repeat."""

    offset: U64
    timestamp_us: U64
    count: U32
    is_repeat: WideFlag


@dataclass(frozen=True, slots=True)
class AppendNumbered(TopicCommand[AppendedBatch]):
    """Append messages to one partition unless they are stored already; a repetition must have the same bytes and sequence."""

    code = Code.APPEND_NUMBERED
    reply = one(AppendedBatch)
    has_messages = True
    partition: PartitionId
    producer_id: U64
    epoch: U32
    sequence: U32
    messages: Sent

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        return self.encode_around_last()

    def validate(self) -> None:
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "an append must contain at least one message")


@dataclass(frozen=True, slots=True)
class ReleaseProducer(TopicCommand[None]):
    """End a producer's numbering in a topic; the producer must not repeat a batch of the topic afterwards."""

    code = Code.RELEASE_PRODUCER
    producer_id: Annotated[U64, Json("producer_id")]
