"""Commands for consumer offsets: the progress of a consumer or a group.

    consumer   kind u8 | identifier
    offset     partition u32 | current_offset u64 | stored_offset u64

A stored offset is the offset of the last processed message. HTTP supports only single consumers, not groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from headstream.core.codec.buffer import Reader, Writer
from headstream.core.model.polling import ConsumerKind
from headstream.core.wire.codes import Code
from headstream.core.wire.records import Command, Record, maybe
from headstream.core.wire.shapes import IDENTIFIER, U32, U64, Default, Identifier, Json, Shape, StreamId, TopicId
from headstream.errors import DecodeError, InvalidInputError


class ConsumerRef(NamedTuple):
    """A consumer or a group, given by number or by name."""

    kind: ConsumerKind
    id: Identifier


class ConsumerShape(Shape):
    """kind u8 | identifier; in JSON the identifier of a single consumer."""

    def push(self, writer: Writer, value: ConsumerRef) -> None:
        writer.push_u8(value.kind)
        IDENTIFIER.push(writer, value.id)

    def pull(self, reader: Reader, what: str) -> ConsumerRef:
        at = reader.at
        kind = reader.pull_u8(f"the kind of {what}")
        if kind not in (1, 2):
            raise DecodeError(f"the kind must be 1 (consumer) or 2 (group), not {kind}", at)
        return ConsumerRef(ConsumerKind(kind), IDENTIFIER.pull(reader, what))

    def to_json_value(self, value: ConsumerRef) -> str:
        return self.to_url_text(value)

    def to_url_text(self, value: ConsumerRef) -> str:
        if value.kind != ConsumerKind.CONSUMER:
            raise InvalidInputError("this command supports no groups over HTTP", where=str(value.id), advice="Connect over TCP")
        return IDENTIFIER.to_url_text(value.id)

    def from_json_value(self, json_value: Any, where: str) -> ConsumerRef:
        return ConsumerRef(ConsumerKind.CONSUMER, IDENTIFIER.from_json_value(json_value, where))

    def from_url_text(self, text: str, where: str) -> ConsumerRef:
        return ConsumerRef(ConsumerKind.CONSUMER, IDENTIFIER.from_url_text(text, where))


CONSUMER: Final = ConsumerShape()
ConsumerId: TypeAlias = Annotated[ConsumerRef, CONSUMER, Json("id"), Default(ConsumerRef(ConsumerKind.CONSUMER, 1))]
PartitionOrNone: TypeAlias = Annotated[U32, Json("partition_id"), Default(1)]
"""A partition's number; 0 selects the first partition of the topic, or the next partition of a group member."""


@dataclass(frozen=True, slots=True)
class StoredOffset(Record):
    """The offset of a consumer in a partition."""

    partition: Annotated[U32, Json("partition_id")]
    current_offset: U64
    stored_offset: U64


@dataclass(frozen=True, slots=True)
class GetOffset(Command[StoredOffset | None]):
    """Return the stored offset, or None."""

    code = Code.GET_OFFSET
    reply = maybe(StoredOffset)
    consumer: ConsumerId
    stream: StreamId
    topic: TopicId
    partition: PartitionOrNone = 0


@dataclass(frozen=True, slots=True)
class StoreOffset(Command[None]):
    """Store the offset of the last processed message."""

    code = Code.STORE_OFFSET
    consumer: ConsumerId
    stream: StreamId
    topic: TopicId
    partition: PartitionOrNone
    offset: U64
    must_own: bool = False
    """Whether to refuse a partition that another member owns."""


@dataclass(frozen=True, slots=True)
class DeleteOffset(Command[None]):
    """Delete the stored offset."""

    code = Code.DELETE_OFFSET
    consumer: ConsumerId
    stream: StreamId
    topic: TopicId
    partition: PartitionOrNone = 0
