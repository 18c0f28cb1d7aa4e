"""Commands for topics, and the older layouts of the commands that create and update topics.

    topic      id u32 | created_at u64 | partitions_count u32 | message_expiry u64 | compression u8 | max_size u64
               | replication_factor u8 | size u64 | messages_count u64 | name text8
    partition  id u32 | created_at u64 | segments_count u32 | current_offset u64 | size u64 | messages_count u64

    create     stream | id u32 | partitions_count u32 | compression u8 | expiry u64 | max_size u64 | replication u8 | name text8
    update     stream | topic | compression u8 | expiry u64 | max_size u64 | replication u8 | name text8

Layouts of older clients: until 2024-07 the expiry is u32 seconds (0: no expiry); until 2024-03-31 there is no compression; until
2024-01-15 there is neither max size nor replication. The name must end at the end of the payload, which determines the layout.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.model.topology import Fsync
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes, check_count
from headstream.core.wire.fields import fields_of
from headstream.core.wire.records import Command, Record, Records, TopicCommand, many, maybe, one
from headstream.core.wire.shapes import U8, U32, U64, AbsentU32, Json, Size, StreamId, Text8, TextCode, Unsigned
from headstream.core.wire.statuses import Status
from headstream.errors import DecodeError, InvalidInputError

SERVER_DEFAULT: Final = 0
"""As an expiry or a maximum size: the server's configured value."""

NEVER: Final = (1 << 64) - 1
"""As an expiry: messages do not expire. As a maximum size: no limit."""


class Compression(enum.IntEnum):
    """The compression of a topic, which is stored and returned; the server does not compress messages."""

    NONE = 1
    GZIP = 2


class Generation(enum.IntEnum):
    """The layouts of CreateTopic by SDK version; the value is the number of bytes before the name."""

    BEFORE_0_2_0 = 13
    BEFORE_0_2_18 = 22
    BEFORE_0_5_0 = 23
    CURRENT = 27


class ReplicationShape(Unsigned):
    """A number of replicas, which JSON can omit; in JSON, 0 is invalid."""

    is_optional = True

    def __init__(self) -> None:
        super().__init__(1)

    def to_json_value(self, value: int) -> int | None:
        return value or None

    def from_json_value(self, json_value: Any, where: str) -> int:
        if json_value is None:
            return 0
        value = super().from_json_value(json_value, where)
        if not value:
            error = DecodeError("the replication factor must be at least 1", 0, where=where)
            error.status = Status.INVALID_REPLICATION_FACTOR
            raise error
        return value


_CODE: Final = TextCode(Compression, any_case=True)


@dataclass(frozen=True, slots=True)
class Topic(Record):
    """One topic; times and expiry are in microseconds, sizes in bytes."""

    id: U32
    created_us: Annotated[U64, Json("created_at")]
    partitions_count: U32
    message_expiry: U64
    compression: Annotated[Compression, _CODE, Json("compression_algorithm")]
    max_topic_size: U64
    replication_factor: U8
    size_bytes: Annotated[Size, Json("size")]
    messages_count: U64
    name: Text8


@dataclass(frozen=True, slots=True)
class PartitionInfo(Record):
    """One partition; the current offset of an empty partition is 0."""

    id: U32
    created_us: Annotated[U64, Json("created_at")]
    segments_count: U32
    current_offset: U64
    size_bytes: Annotated[Size, Json("size")]
    messages_count: U64


@dataclass(frozen=True, slots=True)
class TopicDetails(Topic):
    """One topic with its partitions, which extend to the end of the bytes."""

    partitions: Annotated[tuple[PartitionInfo, ...], Records(PartitionInfo)] = ()


@dataclass(frozen=True, slots=True)
class GetTopic(TopicCommand[TopicDetails | None]):
    """Return a topic, or None."""

    code = Code.GET_TOPIC
    reply = maybe(TopicDetails)


@dataclass(frozen=True, slots=True)
class ListTopics(Command[tuple[Topic, ...]]):
    """Return the topics of a stream."""

    code = Code.LIST_TOPICS
    reply = many(Topic)
    stream: StreamId


@dataclass(frozen=True, slots=True)
class CreateTopic(Command[TopicDetails]):
    """Create a topic. If the id is 0, the server chooses an id; expiry and size can be SERVER_DEFAULT or NEVER.

    The generation selects the byte layout; the meaning of the values is the same in all layouts.
    """

    code = Code.CREATE_TOPIC
    reply = one(TopicDetails)
    stream: StreamId
    id: Annotated[AbsentU32, Json("topic_id")]
    partitions_count: U32
    compression: Annotated[Compression, _CODE, Json("compression_algorithm")]
    message_expiry: U64
    max_topic_size: U64
    replication_factor: Annotated[int, ReplicationShape()]
    name: Text8
    generation: Generation = Generation.CURRENT
    fsync: Fsync | None = None
    """When messages are synced to disk; None for the server's default."""

    def push(self, writer: Writer) -> None:
        """Write the topic in the layout of its generation."""
        if self.generation == Generation.CURRENT:
            Record.push(self, writer)
            return
        fields_of(CreateTopic)[0].shape.push(writer, self.stream)
        writer.push_u32(self.id)
        writer.push_u32(self.partitions_count)
        if self.generation == Generation.BEFORE_0_5_0:
            writer.push_u8(self.compression)
        writer.push_u32(_to_seconds(self.message_expiry))
        if self.generation != Generation.BEFORE_0_2_0:
            writer.push_u64(0 if self.max_topic_size == NEVER else self.max_topic_size)
            writer.push_u8(self.replication_factor)
        writer.push_text8(self.name)

    @classmethod
    def decode(cls, payload: BytesLike) -> CreateTopic:
        """Decode a request of any generation, with the newest layout in which the name ends at the end of the payload.

        If there is no such layout, the newest generation is assumed, and the bytes after the name are ignored.
        """
        reader = Reader(payload)
        stream = fields_of(cls)[0].shape.pull(reader, "stream")
        for generation in reversed(Generation):
            at = reader.at + generation
            if at <= reader.end and at + memoryview(payload)[at - 1] == reader.end:
                return cls._pull_generation(stream, reader, generation)
        Reader(payload, reader.at).pull_bytes(Generation.BEFORE_0_2_0, "a topic to create")
        return cls._pull_generation(stream, reader, Generation.CURRENT)

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        """Return the number of bytes after the name of a request of the newest generation; 0 for older generations."""
        command = cls.decode(payload)
        return len(payload) - len(command.encode())

    @classmethod
    def _pull_generation(cls, stream: Any, reader: Reader, generation: Generation) -> CreateTopic:
        fields = {field.name: field.shape for field in fields_of(cls)}
        number, count = reader.pull_u32("id"), reader.pull_u32("partitions count")
        compression = Compression.NONE
        if generation >= Generation.BEFORE_0_5_0:
            compression = fields["compression"].pull(reader, "compression")
        if generation == Generation.CURRENT:
            expiry = reader.pull_u64("message expiry")
        else:
            expiry = _from_seconds(reader.pull_u32("message expiry"))
        size, replication = NEVER, 0
        if generation != Generation.BEFORE_0_2_0:
            size, replication = reader.pull_u64("max topic size"), reader.pull_u8("replication factor")
            if generation != Generation.CURRENT:
                size = size or NEVER
        name = reader.pull_text8("name")
        return cls(stream, number, count, compression, expiry, size, replication, name, generation)

    def validate(self) -> None:
        check_bytes(self.name, 1, 255, Status.INVALID_TOPIC_NAME, "a topic name")
        check_count(self.partitions_count, 0, 1000, Status.TOO_MANY_PARTITIONS, "the partition count")


@dataclass(frozen=True, slots=True)
class DeleteTopic(TopicCommand[None]):
    """Delete a topic with all its messages."""

    code = Code.DELETE_TOPIC


class _UpdateLayout(NamedTuple):
    """The layout of an UpdateTopic between the topic and the name.

    Args:
        expiry_bytes: Width of the expiry: 8 bytes for microseconds, 4 bytes for seconds.
    """

    size_bytes: int
    has_compression: bool
    expiry_bytes: int
    has_size: bool


_UPDATE_LAYOUTS: Final = (
    _UpdateLayout(18, has_compression=False, expiry_bytes=8, has_size=True),  # the Node client
    _UpdateLayout(15, has_compression=True, expiry_bytes=4, has_size=True),
    _UpdateLayout(14, has_compression=False, expiry_bytes=4, has_size=True),  # the C# client, and older Node clients
    _UpdateLayout(5, has_compression=False, expiry_bytes=4, has_size=False),  # older Go clients
)
"""Older layouts that clients of existing servers send, the newest first."""


@dataclass(frozen=True, slots=True)
class UpdateTopic(TopicCommand[None]):
    """Change a topic's name and settings. None leaves a setting unchanged; only protocol 0.11 can send None.

    Some clients of existing servers send an older layout, which is read but never written.
    """

    code = Code.UPDATE_TOPIC
    compression: Annotated[Compression | None, _CODE, Json("compression_algorithm")]
    message_expiry: Annotated[int | None, Unsigned(8)]
    max_topic_size: Annotated[int | None, Unsigned(8)]
    replication_factor: Annotated[int | None, ReplicationShape()]
    name: Text8

    @classmethod
    def decode(cls, payload: BytesLike) -> UpdateTopic:
        """Decode a request in the current layout, or in an older layout in which the name ends at the end of the payload."""
        try:
            return cls.pull(Reader(payload))
        except DecodeError:
            layout = _find_update_layout(payload)
            if layout is None:
                raise
        shapes = {field.name: field.shape for field in fields_of(cls)}
        reader = Reader(payload)
        stream, topic = shapes["stream"].pull(reader, "stream"), shapes["topic"].pull(reader, "topic")
        compression = shapes["compression"].pull(reader, "compression") if layout.has_compression else Compression.NONE
        is_in_seconds = layout.expiry_bytes == 4
        expiry = _from_seconds(reader.pull_u32("message expiry")) if is_in_seconds else reader.pull_u64("message expiry")
        size, replication = NEVER, 0
        if layout.has_size:
            size, replication = reader.pull_u64("max topic size"), reader.pull_u8("replication factor")
            size = size or NEVER if is_in_seconds else size
        return cls(stream, topic, compression, expiry, size, replication, reader.pull_text8("name"))

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        """Return the number of bytes after the name of a request in the current layout; 0 for older layouts."""
        reader = Reader(payload)
        try:
            cls.pull(reader)
        except DecodeError:
            cls.decode(payload)
            return 0
        return reader.remaining

    def validate(self) -> None:
        check_bytes(self.name, 1, 255, Status.INVALID_TOPIC_NAME, "a topic name")


@dataclass(frozen=True, slots=True)
class PurgeTopic(TopicCommand[None]):
    """Remove all messages and consumer offsets of a topic."""

    code = Code.PURGE_TOPIC


def _find_update_layout(payload: BytesLike) -> _UpdateLayout | None:
    """Return the newest layout in which the name ends at the end of the payload, or None."""
    reader = Reader(payload)
    for field in fields_of(UpdateTopic)[:2]:
        field.shape.pull(reader, field.name)
    for layout in _UPDATE_LAYOUTS:
        at = reader.at + layout.size_bytes
        if at <= reader.end and at + memoryview(payload)[at - 1] == reader.end:
            return layout
    return None


def _to_seconds(expiry_us: int) -> int:
    if expiry_us == NEVER:
        return 0
    if expiry_us % 1_000_000 or not expiry_us:
        raise InvalidInputError(f"old clients require an expiry in whole seconds, not {expiry_us} us")
    return expiry_us // 1_000_000


def _from_seconds(expiry_s: int) -> int:
    return expiry_s * 1_000_000 or NEVER
