"""Commands that send and poll messages, which remain bytes in the formats of codec/batch/ and core/codec/binary.py.

    poll      consumer | stream | topic | partition u32 | strategy u8 | value u64 | count u32 | auto_commit u8
    polled    partition u32 | current_offset u64 | count u32 | stored messages
    send      stream | topic | partitioning | sent messages
    partitioning   kind u8 | length u8 | value

These two commands are the most frequent. The bytes before the numbers of a poll, and before the messages of a send, are often the
same, so their decoded form is cached.

Newer versions of Iggy (servers from 0.5.0, SDK from 0.7.0) use another layout with the same code:

    send      metadata_length u32 | stream | topic | partitioning | count u32 | count x 16 bytes of index | messages
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

from headstream.core.codec import json
from headstream.core.codec.binary import decode_polled, decode_sent, encode_polled, encode_sent
from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.polling import PollingKind, PollingStrategy
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.offsets import CONSUMER, ConsumerId, ConsumerRef, PartitionOrNone
from headstream.core.wire.records import Command, HttpRequest, Record, TopicCommand, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import (
    IDENTIFIER,
    U32,
    U64,
    Default,
    Flag,
    FlagShape,
    Identifier,
    Json,
    PartitionId,
    Rest,
    Shape,
    StreamId,
    TextCode,
    TopicId,
)
from headstream.core.wire.statuses import Status
from headstream.errors import DecodeError, InvalidInputError

LATER_GENERATION: Final = "a send request of a newer Iggy client (SDK 0.7.0 or newer), whose messages have no state"
"""Error message for a send of a newer version of Iggy."""

_POLL_NUMBERS: Final = struct.Struct("<IBQIB")
_POLLED_HEAD: Final = struct.Struct("<IQI")
POLLING_KINDS: Final = {kind.value: kind for kind in PollingKind}


class PartitioningShape(Shape):
    """kind u8 | length u8 | value."""

    def push(self, writer: Writer, value: Partitioning) -> None:
        writer.push_u8(value.kind)
        writer.push_u8(len(value.value))
        writer.push_bytes(value.value)

    def pull(self, reader: Reader, what: str) -> Partitioning:
        return pull_partitioning(reader)


def pull_partitioning(reader: Reader) -> Partitioning:
    """Read a partitioning; if the kind is valid but the value is not, the DecodeError has a specific status."""
    at = reader.at
    kind = reader.pull_u8("the partitioning kind")
    value = reader.pull_bytes(reader.pull_u8("the partitioning length"), "partitioning")
    if kind not in (1, 2, 3):
        raise DecodeError(f"the partitioning kind must be 1, 2 or 3, not {kind}", at)
    try:
        return Partitioning(PartitioningKind(kind), value)
    except InvalidInputError as refused:
        error = DecodeError(refused.what, at)
        is_number = kind == PartitioningKind.PARTITION_ID and value
        error.status = Status.INVALID_NUMBER_ENCODING if is_number else Status.INVALID_KEY_VALUE_LENGTH
        raise error from None


@dataclass(frozen=True, slots=True)
class PolledMessages(Record):
    """The reply to a poll. If a member has no partition, the partition is 0; in an empty partition, the newest offset is 0."""

    partition: Annotated[U32, Json("partition_id")]
    current_offset: U64
    count: U32
    messages: Rest

    def head(self) -> bytes:
        """Return the bytes before the messages, so that callers can write both without copying."""
        return _POLLED_HEAD.pack(self.partition, self.current_offset, self.count)

    def spell(self) -> dict[str, Any]:
        document: dict[str, Any] = decode_json(self.encode_json())
        return document

    def encode_json(self) -> bytes:
        """Return the reply as JSON with only the last header of each key, because JSON objects cannot repeat keys."""
        return json.encode_polled(decode_polled(self.messages), self.partition, self.current_offset, keep_last=True)

    @classmethod
    def read(cls, spelled: Any, where: str) -> PolledMessages:
        found = json.decode_polled(encode_json(spelled))
        return cls(found.partition, found.current_offset, len(found.messages), encode_polled(found.messages))


@dataclass(frozen=True, slots=True)
class PollMessages(Command[PolledMessages]):
    """Return messages of a partition without waiting for new messages."""

    code = Code.POLL_MESSAGES
    reply = one(PolledMessages)
    consumer: ConsumerId
    stream: StreamId
    topic: TopicId
    partition: PartitionOrNone
    kind: Annotated[PollingKind, TextCode(PollingKind, short=True), Default(PollingKind.OFFSET)]
    value: Annotated[U64, Default(0)]
    count: Annotated[U32, Default(10)]
    auto_commit: Annotated[Flag, Default(False)]
    must_own: bool = False
    """Whether a client that names a group and a partition receives no messages of another member's partition."""
    timeout_ms: int = 0
    """Maximum wait for messages, milliseconds; 0 does not wait."""

    @property
    def strategy(self) -> PollingStrategy:
        """Where the poll begins."""
        return PollingStrategy(self.kind, self.value)

    @classmethod
    def decode(cls, payload: BytesLike) -> PollMessages:
        data = bytes(payload)
        begin = end_of_poll_targets(data)
        if begin + _POLL_NUMBERS.size > len(data):
            raise DecodeError("a poll is cut short", begin, _POLL_NUMBERS.size, len(data) - begin)
        partition, code, value, count, auto_commit = _POLL_NUMBERS.unpack_from(data, begin)
        kind = POLLING_KINDS.get(code)
        if kind is None:
            raise DecodeError(f"the start position's kind must be 1 to 5, not {code}", begin + 4)
        consumer, stream, topic = poll_targets(data[:begin])
        return cls(consumer, stream, topic, partition, kind, value, count, auto_commit == 1)

    @classmethod
    def from_json(cls, path: Mapping[str, str], query: Mapping[str, str], body: Any) -> PollMessages:
        """Decode the command of an HTTP request; reject a filter, which this command would ignore."""
        if "where" in query:
            advice = "Use GET /streams/{stream}/topics/{topic}/partitions/{partition}/messages"
            raise DecodeError("this route does not support a filter", 0, where="query.where", advice=advice)
        return super(PollMessages, cls).from_json(path, query, body)

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        return max(len(payload) - end_of_poll_targets(payload) - _POLL_NUMBERS.size, 0)

    @classmethod
    def encode_http_reply(cls, value: PolledMessages) -> bytes:
        return value.encode_json()


@dataclass(frozen=True, slots=True)
class AppendedBatch(Record):
    """The position of an appended send, for clients of protocol 0.11; other clients receive an empty reply."""

    stream_id: U32
    topic_id: U32
    partition: U32
    base_offset: U64

    @property
    def count(self) -> int:
        """The number of positions of one send."""
        return 1


@dataclass(frozen=True, slots=True)
class SendMessages(TopicCommand[AppendedBatch]):
    """Append messages to a partition; `messages` are contiguous sent messages."""

    code = Code.SEND_MESSAGES
    partitioning: Annotated[Partitioning, PartitioningShape()]
    messages: Rest
    is_from_zero: bool = False
    """Whether the client numbers partitions from 0, which determines the partition of a key."""

    @classmethod
    def decode(cls, payload: BytesLike) -> SendMessages:
        """Decode a request, with messages as a view into the payload; a send of a newer Iggy version raises a specific error."""
        view = memoryview(payload).cast("B") if len(payload) else memoryview(b"")
        at, size = 0, len(view)
        for _ in range(3):
            at += 2 + view[at + 1] if at + 1 < size else size
        try:
            stream, topic, partitioning = _send_targets(bytes(view[:at]))
        except DecodeError:
            if _is_later_send(view):
                raise DecodeError(
                    LATER_GENERATION, 0, advice="Use SDK 0.11 (apache-iggy 0.9.0), or an SDK before 0.7 (iggy-py)"
                ) from None
            raise
        return cls(stream, topic, partitioning, view[at:])

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        """Return 0, because the messages extend to the end of a request."""
        return 0

    def validate(self) -> None:
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a send must contain at least one message")

    def to_json(self) -> HttpRequest:
        path = f"/streams/{IDENTIFIER.quote(self.stream)}/topics/{IDENTIFIER.quote(self.topic)}/messages"
        return HttpRequest("POST", path, {}, decode_json(json.encode_sent(decode_sent(self.messages), self.partitioning)))

    @classmethod
    def from_json(cls, path: Mapping[str, str], query: Mapping[str, str], body: Any) -> SendMessages:
        return cls.decode_http(path, query, encode_json(body))

    @classmethod
    def decode_http(cls, path: Mapping[str, str], query: Mapping[str, str], body: BytesLike) -> SendMessages:
        stream = IDENTIFIER.from_url_text(path["stream_id"], "path.stream_id")
        topic = IDENTIFIER.from_url_text(path["topic_id"], "path.topic_id")
        try:
            sent = json.decode_sent(body)
        except DecodeError as error:
            error.where = f"body.{error.where}" if error.where else None
            raise
        return cls(stream, topic, sent.partitioning, encode_sent(sent.messages))


class FsyncShape(FlagShape):
    """A flag that a URL can also contain as `fsync=true`, as in Iggy's client."""

    def from_url_text(self, text: str, where: str) -> bool:
        return super().from_url_text(text.removeprefix("fsync="), where)


@dataclass(frozen=True, slots=True)
class FlushMessages(TopicCommand[None]):
    """Write the buffered messages of a partition to disk."""

    code = Code.FLUSH_MESSAGES
    partition: PartitionId
    fsync: Annotated[bool, FsyncShape()]


def end_of_poll_targets(data: BytesLike) -> int:
    """Return the end position of consumer, stream and topic according to their lengths, at most the end of the data."""
    at, size = 1, len(data)  # after the consumer's kind
    for _ in range(3):
        at += 2 + data[at + 1] if at + 1 < size else size
    return min(at, size)


@lru_cache(maxsize=4096)
def poll_targets(data: bytes) -> tuple[ConsumerRef, Identifier, Identifier]:
    """Decode the consumer, stream and topic of a poll."""
    reader = Reader(data)
    targets = CONSUMER.pull(reader, "consumer"), IDENTIFIER.pull(reader, "stream"), IDENTIFIER.pull(reader, "topic")
    reader.pull_end("a poll's topic")
    return targets


@lru_cache(maxsize=4096)
def _send_targets(data: bytes) -> tuple[Identifier, Identifier, Partitioning]:
    reader = Reader(data)
    targets = IDENTIFIER.pull(reader, "stream"), IDENTIFIER.pull(reader, "topic"), pull_partitioning(reader)
    reader.pull_end("a send's partitioning")
    return targets


def _is_later_send(view: memoryview) -> bool:
    """Return whether a payload begins with the length of stream, topic, partitioning and count, as in newer versions of Iggy."""
    reader = Reader(view)
    try:
        end = 4 + reader.pull_u32("the metadata length")
        IDENTIFIER.pull(reader, "stream")
        IDENTIFIER.pull(reader, "topic")
        pull_partitioning(reader)
        reader.pull_u32("the message count")
    except DecodeError:
        return False
    return reader.at == end
