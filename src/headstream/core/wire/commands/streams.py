"""Streams.

stream   id u32 | created_at u64 | topics_count u32 | size u64 | messages_count u64 | name text8
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.commands.topics import Topic
from headstream.core.wire.records import Command, Record, Records, many, maybe, one
from headstream.core.wire.shapes import U32, U64, AbsentU32, Json, Size, StreamId, Text8
from headstream.core.wire.statuses import Status


@dataclass(frozen=True, slots=True)
class Stream(Record):
    """One stream; times are in microseconds since 1970 UTC."""

    id: U32
    created_us: Annotated[U64, Json("created_at")]
    topics_count: U32
    size_bytes: Annotated[Size, Json("size")]
    messages_count: U64
    name: Text8


@dataclass(frozen=True, slots=True)
class StreamDetails(Stream):
    """One stream with its topics, which extend to the end of the bytes."""

    topics: Annotated[tuple[Topic, ...], Records(Topic)] = ()


@dataclass(frozen=True, slots=True)
class GetStream(Command[StreamDetails | None]):
    """Return a stream, or None."""

    code = Code.GET_STREAM
    reply = maybe(StreamDetails)
    stream: StreamId


@dataclass(frozen=True, slots=True)
class ListStreams(Command[tuple[Stream, ...]]):
    """Return all streams."""

    code = Code.LIST_STREAMS
    reply = many(Stream)


@dataclass(frozen=True, slots=True)
class CreateStream(Command[StreamDetails]):
    """Create a stream; if the id is 0, the server chooses an id."""

    code = Code.CREATE_STREAM
    reply = one(StreamDetails)
    id: Annotated[AbsentU32, Json("stream_id")]
    name: Text8

    def validate(self) -> None:
        check_bytes(self.name, 1, 255, Status.INVALID_STREAM_NAME, "a stream name")


@dataclass(frozen=True, slots=True)
class DeleteStream(Command[None]):
    """Delete a stream with all its topics."""

    code = Code.DELETE_STREAM
    stream: StreamId


@dataclass(frozen=True, slots=True)
class UpdateStream(Command[None]):
    """Rename a stream."""

    code = Code.UPDATE_STREAM
    stream: StreamId
    name: Text8

    def validate(self) -> None:
        check_bytes(self.name, 1, 255, Status.INVALID_STREAM_NAME, "a stream name")


@dataclass(frozen=True, slots=True)
class PurgeStream(Command[None]):
    """Remove all messages of a stream."""

    code = Code.PURGE_STREAM
    stream: StreamId
