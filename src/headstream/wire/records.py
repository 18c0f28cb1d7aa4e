"""Records: fields with shapes put together, and commands, which are records with a code, a route and a reply.

    class GetStream(Command[StreamDetails | None]):      a command says what its reply is
        code = Code.GET_STREAM
        reply = one(StreamDetails)
        stream: StreamId

Bytes: the fields in their order, nothing between them. What follows the last one is ignored, in requests and in replies,
as Iggy's servers and clients do: some clients send more than the command says. JSON: an object of the fields; of a command
those that its route does not have in its path, as query parameters (GET, DELETE) or in the body (POST, PUT). Unknown members
are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from headstream.codec.buffer import BytesLike, Reader, Writer
from headstream.codec.json_text import decode_json, encode_json
from headstream.errors import DecodeError, InvalidInputError
from headstream.wire.codes import TABLE, Code, Entry, Route
from headstream.wire.fields import fields_of, read_member
from headstream.wire.shapes import Shape, wrong

__all__ = ["BINARY", "NOTHING", "Command", "HttpRequest", "Record", "Records", "many", "maybe", "one"]

_R = TypeVar("_R")
_Self = TypeVar("_Self", bound="Record")


class Record:
    """Fields that travel together. Subclasses are frozen dataclasses."""

    __slots__ = ()

    def push(self, writer: Writer) -> None:
        """Write all fields."""
        for field in fields_of(type(self)):
            field.shape.push(writer, getattr(self, field.name))

    @classmethod
    def pull(cls: type[_Self], reader: Reader) -> _Self:
        """Read all fields.

        Raises:
            DecodeError: the bytes are not those of this record.
        """
        return cls(*[field.shape.pull(reader, field.label) for field in fields_of(cls)])

    def spell(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {field.json_name: field.shape.spell(getattr(self, field.name)) for field in fields_of(type(self))}

    @classmethod
    def read(cls: type[_Self], spelled: Any, where: str) -> _Self:
        """Return the record that a JSON object spells.

        Raises:
            DecodeError: it does not; the text names the place.
        """
        if not isinstance(spelled, dict):
            raise wrong(spelled, "an object", where)
        return cls(*[read_member(field, spelled, where) for field in fields_of(cls)])


class RecordShape(Shape):
    """A record."""

    def __init__(self, kind: type[Record]) -> None:
        self.kind = kind

    def push(self, writer: Writer, value: Record) -> None:
        value.push(writer)

    def pull(self, reader: Reader, what: str) -> Record:
        return self.kind.pull(reader)

    def spell(self, value: Record) -> Any:
        return value.spell()

    def read(self, spelled: Any, where: str) -> Record:
        return self.kind.read(spelled, where)


class _Maybe(RecordShape):
    """A record, or None: no bytes at all, and null in JSON."""

    is_optional = True

    def push(self, writer: Writer, value: Record | None) -> None:
        if value is not None:
            value.push(writer)

    def pull(self, reader: Reader, what: str) -> Any:
        return self.kind.pull(reader) if reader.remaining else None

    def spell(self, value: Record | None) -> Any:
        return None if value is None else value.spell()

    def read(self, spelled: Any, where: str) -> Any:
        return None if spelled is None else self.kind.read(spelled, where)


class Records(Shape):
    """Records one behind the other, to the end or as many as a u32 before them says.

    Args:
        kind: The record.
        is_counted: Whether their count comes first.
    """

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
        count = reader.pull_u32(f"the count of {what}") if self.is_counted else -1
        while reader.remaining if count < 0 else len(found) < count:
            at = reader.at
            found.append(self.kind.pull(reader))
            if reader.at == at:
                raise DecodeError(f"{what} have no bytes", at)
        return tuple(found)

    def spell(self, value: tuple[Record, ...]) -> Any:
        return [record.spell() for record in value]

    def read(self, spelled: Any, where: str) -> tuple[Record, ...]:
        if not isinstance(spelled, list):
            raise wrong(spelled, "a list", where)
        return tuple(self.kind.read(item, f"{where}[{number}]") for number, item in enumerate(spelled))


class _Nothing(Shape):
    """No reply: an empty body."""

    def push(self, writer: Writer, value: None) -> None:
        return None

    def pull(self, reader: Reader, what: str) -> None:
        return None

    def read(self, spelled: Any, where: str) -> None:
        return None


NOTHING: Final[Shape] = _Nothing()
"""The reply of a command that has none."""


def one(kind: type[Record]) -> Shape:
    """Return the shape of a record."""
    return RecordShape(kind)


def maybe(kind: type[Record]) -> Shape:
    """Return the shape of what a lookup finds: a record, or None."""
    return _Maybe(kind)


def many(kind: type[Record]) -> Shape:
    """Return the shape of a list of records, a tuple here."""
    return Records(kind)


BINARY: Final = "application/vnd.headstream.binary"
"""The content type over HTTP of a payload or a reply as TCP has it, where a command has messages."""


class HttpRequest(NamedTuple):
    """A command as HTTP asks for it.

    Args:
        method: GET, POST, PUT or DELETE.
        path: Percent-encoded, from the first slash on.
        query: Parameters, not encoded.
        body: The JSON document, or None for no body.
    """

    method: str
    path: str
    query: dict[str, str]
    body: Any


class Command(Record, Generic[_R]):
    """A request; `reply` is the shape of its reply, of type _R here."""

    __slots__ = ()

    code: ClassVar[Code]
    reply: ClassVar[Shape] = NOTHING
    has_messages: ClassVar[bool] = False
    """Whether it takes or brings messages in a form of our own, which over HTTP may be BINARY too."""

    @classmethod
    def entry(cls) -> Entry:
        """Return what the table of commands says of it."""
        return TABLE[cls.code]

    def encode(self) -> bytes:
        """Return the payload of its request.

        Raises:
            InvalidInputError: a value that the protocol cannot say.
        """
        writer = Writer()
        self.push(writer)
        return writer.to_bytes()

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        """Return the payload of its request in pieces, so that what is big need not be copied."""
        return (self.encode(),)

    @classmethod
    def decode(cls: type[_Self], payload: BytesLike) -> _Self:
        """Return the command of a request; bytes after its last field are ignored.

        Raises:
            DecodeError: the payload is not one of this command: status 3.
        """
        return cls.pull(Reader(payload))

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        """Return how many bytes follow the last field of a request, which decode() has taken."""
        reader = Reader(payload)
        cls.pull(reader)
        return reader.remaining

    def validate(self) -> None:
        """Check what can be checked without a server's state, after decoding and before the login is looked at.

        Raises:
            HeadstreamError: with the precise `status`.
        """

    @classmethod
    def encode_reply(cls, value: _R) -> bytes:
        """Return the body of its response."""
        writer = Writer()
        cls.reply.push(writer, value)
        return writer.to_bytes()

    @classmethod
    def decode_reply(cls, body: BytesLike) -> _R:
        """Return the reply in the body of a response; bytes after its last field are ignored.

        Raises:
            DecodeError: it is not one.
        """
        value: _R = cls.reply.pull(Reader(body), f"the reply to {cls.__name__}")
        return value

    @classmethod
    def reply_to_json(cls, value: _R) -> Any:
        """Return a reply as a JSON document; None where there is no body."""
        return cls.reply.spell(value)

    @classmethod
    def reply_from_json(cls, document: Any) -> _R:
        """Return the reply that a JSON document spells.

        Raises:
            DecodeError: it spells none.
        """
        value: _R = cls.reply.read(document, "reply")
        return value

    def to_json(self) -> HttpRequest:
        """Return the command as HTTP asks for it.

        Raises:
            InvalidInputError: HTTP has no route for it, or no spelling for a name that is a number.
        """
        route, query, body = self._route(), dict[str, str](), dict[str, Any]()
        has_body = route.method in ("POST", "PUT")
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if field.place in route.path:
                continue
            if has_body:
                body[field.json_name] = field.shape.spell(value)
            elif value is not None:
                query[field.json_name] = field.shape.spell_text(value)
        return HttpRequest(route.method, self.to_path(), query, body if has_body else None)

    def to_path(self) -> str:
        """Return the path by which HTTP asks for the command, percent-encoded.

        Raises:
            InvalidInputError: HTTP has no route for it, or no spelling for a name that is a number.
        """
        path = self._route().path
        for field in fields_of(type(self)):
            if field.place in path:
                path = path.replace(field.place, quote(field.shape.spell_text(getattr(self, field.name)), safe=""))
        return path

    @classmethod
    def _route(cls) -> Route:
        route = cls.entry().route
        if route is None:
            raise InvalidInputError(f"HTTP has no way to say {cls.entry().name}", advice="Connect over TCP")
        return route

    @classmethod
    def decode_http(cls: type[_Self], path: Mapping[str, str], query: Mapping[str, str], body: BytesLike) -> _Self:
        """Return what from_json() does, of a body that is not decoded; empty for none."""
        command: _Self = cls.from_json(path, query, decode_json(bytes(body)) if len(body) else None)  # type: ignore[attr-defined]
        return command

    @classmethod
    def decode_binary_http(cls: type[_Self], path: Mapping[str, str], body: BytesLike) -> _Self:
        """Return the command of a request over HTTP whose body is BINARY: it says everything, the path says some of it too.

        Raises:
            DecodeError: the body is no payload of this command, or the path says something else.
        """
        command: _Self = cls.decode(body)  # type: ignore[attr-defined]
        for field in fields_of(cls):
            text = path.get(field.json_name)
            place = f"path.{field.json_name}"
            if text is not None and field.shape.read_text(text, place) != getattr(command, field.name):
                raise DecodeError(f"the body names another {field.label}", 0, where=place)
        return command

    @classmethod
    def encode_http_reply(cls, value: _R) -> bytes:
        """Return a reply as the body of a response over HTTP."""
        document = cls.reply_to_json(value)
        return b"" if document is None else encode_json(document)

    @classmethod
    def from_json(cls: type[_Self], path: Mapping[str, str], query: Mapping[str, str], body: Any) -> _Self:
        """Return the command that a request over HTTP makes.

        Args:
            path: The parameters of its route's path, decoded.
            query: The parameters of its query, decoded; unknown ones are passed over.
            body: Its JSON document, decoded; None for none.

        Raises:
            DecodeError: a value is missing or wrong; `where` begins with `path` or `query` (400 over HTTP), or with
                `body` (422).
        """
        entry: Entry = cls.entry()  # type: ignore[attr-defined]
        has_body = entry.route is not None and entry.route.method in ("POST", "PUT")
        if has_body and not isinstance(body, dict):
            raise wrong(body, "an object", "body")
        values = []
        for field in fields_of(cls):
            place = f"{'path' if field.json_name in path else 'query'}.{field.json_name}"
            text = path.get(field.json_name, None if has_body else query.get(field.json_name))
            if text is not None:
                values.append(field.shape.read_text(text, place))
            elif has_body and field.json_name not in path:
                values.append(read_member(field, body, "body"))
            elif field.has_default:
                values.append(field.default)
            elif field.shape.is_optional:
                values.append(field.shape.read(None, place))
            else:
                raise DecodeError(f"{field.json_name} is missing", 0, where=place)
        return cls(*values)
