"""The layouts of protocol 0.11 that differ from commands/; first requests, then replies.

partition            u32 from 0; if it is optional: flag u8 | u32
create stream        name | options                     update stream   stream | name | options
create topic         stream | partitions u32 | name | options
update topic         stream | topic | name | options    (missing options remain unchanged)
create group         stream | topic | name
create, update user  ... | options
store, delete offset ... | acknowledgement u8
stream, user         ... | options_length u32 | options
topic                without replication, then options_length u32 | options twice: the client's and the server's
topics               count u32 | topic ...
stats                ... | threads u32 | free disk u64 | total disk u64
sent messages        count u32 | (stream u32 | topic u32 | partition u32 | base offset u64) ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headstream.core.codec.buffer import Reader, Writer
from headstream.core.wire.commands.groups import CreateGroup, GroupAssignment, GroupMember
from headstream.core.wire.commands.messages import AppendedBatch, FlushMessages, SendMessages
from headstream.core.wire.commands.offsets import DeleteOffset, GetOffset, StoredOffset, StoreOffset
from headstream.core.wire.commands.partitions import DeleteSegments
from headstream.core.wire.commands.streams import CreateStream, Stream, StreamDetails, UpdateStream
from headstream.core.wire.commands.system import Stats
from headstream.core.wire.commands.topics import (
    SERVER_DEFAULT,
    Compression,
    CreateTopic,
    ListTopics,
    PartitionInfo,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from headstream.core.wire.commands.users import CreateUser, UpdateUser, User, UserDetails
from headstream.core.wire.fields import fields_of
from headstream.core.wire.records import Command, Record, Records, RecordShape, one
from headstream.core.wire.shapes import Shape, Unsigned
from headstream.core.wire.vsr.options import NO_OPTIONS, TOPIC_OPTIONS, UPDATABLE_OPTIONS, Option, pull_options
from headstream.errors import DecodeError


class FromZero(Unsigned):
    """A partition number, u32: numbered from 0 in the bytes, and from 1 in a command or record."""

    def __init__(self) -> None:
        super().__init__(4)

    def push(self, writer: Writer, value: int) -> None:
        writer.push_u32(value - 1)

    def pull(self, reader: Reader, what: str) -> int:
        return reader.pull_u32(what) + 1


class MaybeFromZero(FromZero):
    """flag u8 | u32; the partition 0 means no partition."""

    def pull(self, reader: Reader, what: str) -> int:
        at, flag, number = reader.at, reader.pull_u8(f"the presence flag of {what}"), reader.pull_u32(what)
        if flag > 1:
            raise DecodeError(f"the presence flag of {what} must be 0 or 1, not {flag}", at)
        return number + 1 if flag else 0


class _NumbersFromZero(Shape):
    """count u32 | partition u32 ..."""

    def push(self, writer: Writer, value: tuple[int, ...]) -> None:
        writer.push_u32(len(value))
        for number in value:
            writer.push_u32(number - 1)


class _EmptyOptions(Shape):
    """length u32 | options; always empty."""

    def push(self, writer: Writer, value: None) -> None:
        writer.push_u32(0)


class _Acknowledgement(Shape):
    """u8: 0 none, 1 quorum."""

    def pull(self, reader: Reader, what: str) -> int:
        at, level = reader.at, reader.pull_u8("the acknowledgement level")
        if level > 1:
            raise DecodeError(f"an acknowledgement level must be 0 or 1, not {level}", at)
        return level


_FROM_ZERO: Final = FromZero()
_MAYBE_FROM_ZERO: Final = MaybeFromZero()
_OPTIONS: Final = ("", _EmptyOptions())
_U32: Final = Unsigned(4)
_U64: Final = Unsigned(8)


class Request(NamedTuple):
    """The differences between a request and the fields of its command.

    Args:
        changed: Field -> shape in place of the command's shape.
        fixed: Field -> fixed value of a field that has no bytes.
        last: Shape of a last field whose value is not used.
        options: The options at the end of the request, which set fields; None if there are no options.
    """

    changed: Mapping[str, Shape] = {}
    fixed: Mapping[str, Any] = {}
    last: Shape | None = None
    options: Mapping[str, Option] | None = None


_UNCHANGED: Final = Request()
_TOPIC: Final = {"message_expiry": SERVER_DEFAULT, "max_topic_size": SERVER_DEFAULT, "compression": Compression.NONE}

REQUESTS: Final[dict[type[Command[Any]], Request]] = {
    CreateStream: Request(fixed={"id": 0}, options=NO_OPTIONS),
    UpdateStream: Request(options=NO_OPTIONS),
    CreateTopic: Request(fixed={"id": 0, "replication_factor": 0, **_TOPIC}, options=TOPIC_OPTIONS),
    UpdateTopic: Request(fixed=dict.fromkeys((*_TOPIC, "replication_factor")), options=UPDATABLE_OPTIONS),
    CreateGroup: Request(fixed={"id": 0}),
    CreateUser: Request(options=NO_OPTIONS),
    UpdateUser: Request(options=NO_OPTIONS),
    DeleteSegments: Request(changed={"partition": _FROM_ZERO}),
    FlushMessages: Request(changed={"partition": _FROM_ZERO}),
    GetOffset: Request(changed={"partition": _MAYBE_FROM_ZERO}),
    StoreOffset: Request(changed={"partition": _MAYBE_FROM_ZERO}, fixed={"must_own": True}, last=_Acknowledgement()),
    DeleteOffset: Request(changed={"partition": _MAYBE_FROM_ZERO}, last=_Acknowledgement()),
}
"""The requests that differ."""


def pull_request(kind: type[Command[Any]], reader: Reader) -> Command[Any]:
    """Decode a command from a request's body; bytes after the last field are ignored."""
    layout = REQUESTS.get(kind, _UNCHANGED)
    values = dict(layout.fixed)
    for field in fields_of(kind):
        if field.name not in layout.fixed:
            values[field.name] = layout.changed.get(field.name, field.shape).pull(reader, field.label)
    if layout.last is not None:
        layout.last.pull(reader, "")
    if layout.options is not None:
        values |= pull_options(reader, layout.options)
    return kind(**values)


def _fields(kind: type[Record], *omitted: str, **changed: Shape) -> tuple[tuple[str, Shape], ...]:
    return tuple((each.name, changed.get(each.name, each.shape)) for each in fields_of(kind) if each.name not in omitted)


_RECORDS: Final[dict[type[Record], tuple[tuple[str, Shape], ...]]] = {
    Stream: (*_fields(Stream), _OPTIONS),
    StreamDetails: (*_fields(Stream), _OPTIONS, ("topics", Records(Topic))),
    Topic: (*_fields(Topic, "replication_factor"), _OPTIONS, _OPTIONS),
    TopicDetails: (*_fields(Topic, "replication_factor"), _OPTIONS, _OPTIONS, ("partitions", Records(PartitionInfo))),
    PartitionInfo: _fields(PartitionInfo, id=_FROM_ZERO),
    User: (*_fields(User), _OPTIONS),
    UserDetails: (*_fields(User), _OPTIONS, *_fields(UserDetails)[len(fields_of(User)) :]),
    GroupMember: _fields(GroupMember, partitions=_NumbersFromZero()),
    GroupAssignment: _fields(GroupAssignment, partitions=_NumbersFromZero()),
    StoredOffset: _fields(StoredOffset, partition=_FROM_ZERO),
    AppendedBatch: (("count", _U32), *_fields(AppendedBatch, partition=_FROM_ZERO)),
    Stats: (*_fields(Stats), ("threads_count", _U32), ("free_disk_bytes", _U64), ("total_disk_bytes", _U64)),
}
"""The record fields that differ; a field without a name has no value."""

REPLIES: Final[dict[type[Command[Any]], Shape]] = {
    ListTopics: Records(Topic, is_counted=True),
    SendMessages: one(AppendedBatch),
}
"""The replies that differ as a whole."""


def push_reply(writer: Writer, kind: type[Command[Any]], reply: Any) -> None:
    """Write the reply to a command."""
    _push(writer, REPLIES.get(kind, kind.reply), reply)


def _push(writer: Writer, shape: Shape, value: Any) -> None:
    if isinstance(shape, Records):
        if shape.is_counted:
            writer.push_u32(len(value))
        for record in value:
            _push_record(writer, record)
    elif isinstance(shape, RecordShape):
        if value is not None:
            _push_record(writer, value)
    else:
        shape.push(writer, value)


def _push_record(writer: Writer, record: Record) -> None:
    for name, shape in _RECORDS.get(type(record)) or _fields(type(record)):
        _push(writer, shape, getattr(record, name) if name else None)
