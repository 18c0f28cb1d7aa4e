"""Records are dataclasses whose fields have shapes; commands are records with a code, a route and a reply.

    class GetStream(Command[StreamDetails | None]):      the type of the reply
        code = Code.GET_STREAM
        reply = one(StreamDetails)
        stream: StreamId

Commands on a topic or a group extend TopicCommand or GroupCommand, whose fields are first.

The fields of a record are encoded in order, without gaps. Bytes after the last field are ignored in requests and replies, as in
Iggy's servers and clients, because some clients send additional bytes. In JSON a record is an object. The fields of a command
that are not in its route's path are query parameters (GET, DELETE) or members of the body (POST, PUT). Unknown members are
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.wire.codes import TABLE, Code, CodeEntry, Route
from headstream.core.wire.fields import fields_of, read_member
from headstream.core.wire.shapes import GroupId, Shape, StreamId, TopicId, invalid_value
from headstream.errors import DecodeError, InvalidInputError

_R = TypeVar("_R")
_Self = TypeVar("_Self", bound="Record")


class Record:
    """Fields that are encoded together. spell() and read() convert to and from JSON; subclasses are frozen dataclasses."""

    __slots__ = ()

    @classmethod
    def of(cls: type[_Self], value: object, **given: Any) -> _Self:
        """Return a record with values from the attributes of an object that have the names of the record's fields.

        Args:
            given: Values of fields that are not taken from the object.
        """
        found = {field.name: getattr(value, field.name) for field in fields_of(cls) if field.name not in given}
        for field in fields_of(cls):
            if field.name in found and isinstance(field.shape, Records):
                found[field.name] = tuple(field.shape.kind.of(each) for each in found[field.name])
        return cls(**found, **given)

    def values(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields_of(type(self))}

    def push(self, writer: Writer) -> None:
        """Write all fields."""
        for field in fields_of(type(self)):
            field.shape.push(writer, getattr(self, field.name))

    @classmethod
    def pull(cls: type[_Self], reader: Reader) -> _Self:
        """Read all fields.

        Raises:
            DecodeError: the bytes are not a record of this class.
        """
        return cls(*[field.shape.pull(reader, field.label) for field in fields_of(cls)])

    def spell(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {field.json_name: field.shape.to_json_value(getattr(self, field.name)) for field in fields_of(type(self))}

    @classmethod
    def read(cls: type[_Self], spelled: Any, where: str) -> _Self:
        """Decode a record from a JSON object.

        Raises:
            DecodeError: a member is missing or invalid; `where` names the member.
        """
        if not isinstance(spelled, dict):
            raise invalid_value(spelled, "an object", where)
        return cls(*[read_member(field, spelled, where) for field in fields_of(cls)])


class RecordShape(Shape):
    """A record."""

    def __init__(self, kind: type[Record]) -> None:
        self.kind = kind

    def push(self, writer: Writer, value: Record) -> None:
        value.push(writer)

    def pull(self, reader: Reader, what: str) -> Record:
        return self.kind.pull(reader)

    def to_json_value(self, value: Record) -> Any:
        return value.spell()

    def from_json_value(self, json_value: Any, where: str) -> Record:
        return self.kind.read(json_value, where)


class _Maybe(RecordShape):
    """A record or None; None has no bytes, and is null in JSON."""

    is_optional = True

    def push(self, writer: Writer, value: Record | None) -> None:
        if value is not None:
            value.push(writer)

    def pull(self, reader: Reader, what: str) -> Any:
        return self.kind.pull(reader) if reader.remaining else None

    def to_json_value(self, value: Record | None) -> Any:
        return None if value is None else value.spell()

    def from_json_value(self, json_value: Any, where: str) -> Any:
        return None if json_value is None else self.kind.read(json_value, where)


class Records(Shape):
    """Consecutive records of a class, up to the end of the bytes or with their number in a preceding u32."""

    def __init__(self, kind: type[Record], *, is_counted: bool = False) -> None:
        self.kind = kind
        self.is_counted = is_counted

    def push(self, writer: Writer, value: tuple[Record, ...]) -> None:
        if self.is_counted:
            writer.push_u32(len(value))
        for record in value:
            record.push(writer)

    def pull(self, reader: Reader, what: str) -> tuple[Record, ...]:
        found: list[Record] = []
        count = reader.pull_u32(f"the number of {what}") if self.is_counted else -1
        while reader.remaining if count < 0 else len(found) < count:
            at = reader.at
            found.append(self.kind.pull(reader))
            if reader.at == at:
                raise DecodeError(f"the elements of {what} have no bytes", at)
        return tuple(found)

    def to_json_value(self, value: tuple[Record, ...]) -> Any:
        return [record.spell() for record in value]

    def from_json_value(self, json_value: Any, where: str) -> tuple[Record, ...]:
        if not isinstance(json_value, list):
            raise invalid_value(json_value, "a list", where)
        return tuple(self.kind.read(item, f"{where}[{number}]") for number, item in enumerate(json_value))


class _Nothing(Shape):
    """An empty reply, whose body has no bytes."""

    def push(self, writer: Writer, value: None) -> None:
        return None

    def pull(self, reader: Reader, what: str) -> None:
        return None

    def to_json_value(self, value: Any) -> None:
        return None

    def from_json_value(self, json_value: Any, where: str) -> None:
        return None


NOTHING: Final[Shape] = _Nothing()
"""The reply of a command that has no reply."""


def one(kind: type[Record]) -> Shape:
    """Return the shape of a record."""
    return RecordShape(kind)


def maybe(kind: type[Record]) -> Shape:
    """Return the shape of a lookup's result: a record, or None."""
    return _Maybe(kind)


def many(kind: type[Record]) -> Shape:
    """Return the shape of a tuple of records."""
    return Records(kind)


BINARY: Final = "application/vnd.headstream.binary"
"""The HTTP content type of a payload or a reply in its TCP form, for commands with messages."""


class HttpRequest(NamedTuple):
    """A command as an HTTP request.

    Args:
        path: The percent-encoded path, beginning with a slash.
        body: The JSON document, or None if the request has no body.
    """

    method: str
    path: str
    query: dict[str, str]
    body: Any


class Command(Record, Generic[_R]):
    """A request; `reply` is the shape of its reply, which has the type _R."""

    __slots__ = ()

    code: ClassVar[Code]
    reply: ClassVar[Shape] = NOTHING
    has_messages: ClassVar[bool] = False
    """Whether the command sends or returns messages in a format of Headstream, for which HTTP also accepts BINARY."""

    @classmethod
    def entry(cls) -> CodeEntry:
        """Return the command's entry in the table of commands."""
        return TABLE[cls.code]

    @property
    def takes_body(self) -> bool:
        """Whether the command's HTTP request has a body."""
        return self._route().method in ("POST", "PUT")

    def encode(self) -> bytes:
        """Encode the payload of a request; InvalidInputError if the protocol cannot represent a value."""
        writer = Writer()
        self.push(writer)
        return writer.to_bytes()

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        """Encode the payload of a request in pieces, so that large payloads are not copied."""
        return (self.encode(),)

    def encode_around_last(self) -> tuple[BytesLike, ...]:
        """Encode the payload of a request in two pieces; the second piece is the last field, which is not copied."""
        writer, (*fields, last) = Writer(), fields_of(type(self))
        for field in fields:
            field.shape.push(writer, getattr(self, field.name))
        return writer.to_bytes(), getattr(self, last.name)

    @classmethod
    def decode(cls: type[_Self], payload: BytesLike) -> _Self:
        """Decode a request; bytes after the last field are ignored."""
        return cls.pull(Reader(payload))

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        """Return the number of bytes after the last field of a request."""
        reader = Reader(payload)
        cls.pull(reader)
        return reader.remaining

    def validate(self) -> None:
        """Check the decoded fields, as far as the server's state is not needed; an error has a `status`."""

    @classmethod
    def encode_reply(cls, value: _R) -> bytes:
        """Encode the body of a response."""
        writer = Writer()
        cls.reply.push(writer, value)
        return writer.to_bytes()

    @classmethod
    def decode_reply(cls, body: BytesLike) -> _R:
        """Decode a reply from the body of a response; bytes after the last field are ignored."""
        value: _R = cls.reply.pull(Reader(body), f"the reply to {cls.__name__}")
        return value

    @classmethod
    def reply_to_json(cls, value: _R) -> Any:
        """Convert a reply to a JSON document; None if the response has no body."""
        return cls.reply.to_json_value(value)

    @classmethod
    def reply_from_json(cls, document: Any) -> _R:
        """Convert a JSON document to a reply."""
        value: _R = cls.reply.from_json_value(document, "reply")
        return value

    def to_json(self) -> HttpRequest:
        """Convert the command to an HTTP request.

        Raises:
            InvalidInputError: the command has no HTTP route, or a name is a number, which a URL would interpret as an id.
        """
        route, query, body = self._route(), dict[str, str](), dict[str, Any]()
        has_body = self.takes_body
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if field.placeholder in route.path:
                continue
            if has_body:
                body[field.json_name] = field.shape.to_json_value(value)
            elif value is not None:
                query[field.json_name] = field.shape.to_url_text(value)
        return HttpRequest(route.method, self.to_path(), query, body if has_body else None)

    def to_path(self) -> str:
        """Return the percent-encoded path of the command's HTTP request; errors as in to_json()."""
        path = self._route().path
        for field in fields_of(type(self)):
            if field.placeholder in path:
                path = path.replace(field.placeholder, quote(field.shape.to_url_text(getattr(self, field.name)), safe=""))
        return path

    @classmethod
    def _route(cls) -> Route:
        route = cls.entry().route
        if route is None:
            raise InvalidInputError(f"HTTP has no route for {cls.entry().name}", advice="Connect over TCP")
        return route

    @classmethod
    def decode_http(cls: type[_Self], path: Mapping[str, str], query: Mapping[str, str], body: BytesLike) -> _Self:
        """Decode an HTTP request with an encoded body, which is empty if there is no body; see from_json()."""
        command: _Self = cls.from_json(path, query, decode_json(bytes(body)) if len(body) else None)  # type: ignore[attr-defined]
        return command

    @classmethod
    def decode_binary_http(cls: type[_Self], path: Mapping[str, str], body: BytesLike) -> _Self:
        """Decode an HTTP request whose body is BINARY and repeats the parameters of the path."""
        command: _Self = cls.decode(body)  # type: ignore[attr-defined]
        for field in fields_of(cls):
            text = path.get(field.json_name)
            place = f"path.{field.json_name}"
            if text is not None and field.shape.from_url_text(text, place) != getattr(command, field.name):
                raise DecodeError(f"the {field.label} in the body differs from the path", 0, where=place)
        return command

    @classmethod
    def encode_http_reply(cls, value: _R) -> bytes:
        """Encode a reply as the body of an HTTP response."""
        document = cls.reply_to_json(value)
        return b"" if document is None else encode_json(document)

    @classmethod
    def from_json(cls: type[_Self], path: Mapping[str, str], query: Mapping[str, str], body: Any) -> _Self:
        """Decode an HTTP request from its path, query and JSON body.

        Raises:
            DecodeError: a value is missing or invalid; `where` begins with `path` or `query` (400 over HTTP), or with
                `body` (422).
        """
        entry: CodeEntry = cls.entry()  # type: ignore[attr-defined]
        has_body = entry.route is not None and entry.route.method in ("POST", "PUT")
        if has_body and not isinstance(body, dict):
            raise invalid_value(body, "an object", "body")
        values = []
        for field in fields_of(cls):
            place = f"{'path' if field.json_name in path else 'query'}.{field.json_name}"
            text = path.get(field.json_name, None if has_body else query.get(field.json_name))
            if text is not None:
                values.append(field.shape.from_url_text(text, place))
            elif has_body and field.json_name not in path:
                values.append(read_member(field, body, "body"))
            elif field.has_default:
                values.append(field.default)
            elif field.shape.is_optional:
                values.append(field.shape.from_json_value(None, place))
            else:
                raise DecodeError(f"{field.json_name} is missing", 0, where=place)
        return cls(*values)


@dataclass(frozen=True, slots=True)
class TopicCommand(Command[_R]):
    """A command whose first fields name a topic."""

    stream: StreamId
    topic: TopicId


@dataclass(frozen=True, slots=True)
class GroupCommand(TopicCommand[_R]):
    """A command whose first fields name a consumer group of a topic."""

    group: GroupId
