"""The encoding of permissions. Every right is one byte, which is true if it is exactly 1.

    permissions  10 rights | has_streams u8 | (stream u32 | 6 rights | has_topics u8 | topics | another_follows u8)*
    topics       (topic u32 | 4 rights | another_follows u8)*

An empty map is encoded like an absent map. In JSON the maps are objects whose keys are the numbers as strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headstream.core.codec.buffer import Reader, Writer
from headstream.core.wire.fields import fields_of
from headstream.core.wire.records import Record
from headstream.core.wire.shapes import Flag, Shape, invalid_value
from headstream.errors import DecodeError


@dataclass(frozen=True, slots=True)
class GlobalPermissions(Record):
    """Rights for everything on the server."""

    manage_servers: Flag = False
    read_servers: Flag = False
    manage_users: Flag = False
    read_users: Flag = False
    manage_streams: Flag = False
    read_streams: Flag = False
    manage_topics: Flag = False
    read_topics: Flag = False
    poll_messages: Flag = False
    send_messages: Flag = False

    @classmethod
    def all(cls) -> GlobalPermissions:
        """Return permissions with every right."""
        return cls(*[True] * 10)


@dataclass(frozen=True, slots=True)
class TopicPermissions(Record):
    """Rights for one topic."""

    manage_topic: Flag = False
    read_topic: Flag = False
    poll_messages: Flag = False
    send_messages: Flag = False


@dataclass(frozen=True, slots=True)
class StreamPermissions(Record):
    """Rights for one stream, and for its topics by number."""

    manage_stream: Flag = False
    read_stream: Flag = False
    manage_topics: Flag = False
    read_topics: Flag = False
    poll_messages: Flag = False
    send_messages: Flag = False
    topics: Mapping[int, TopicPermissions] = field(default_factory=dict)

    def spell(self) -> dict[str, Any]:
        """Return the permissions as a JSON object."""
        return Record.spell(self) | {"topics": _map_to_json(self.topics)}

    @classmethod
    def read(cls, spelled: Any, where: str) -> StreamPermissions:
        """Decode the rights from a JSON object."""
        if not isinstance(spelled, dict):
            raise invalid_value(spelled, "an object", where)
        rights = {
            f.name: f.shape.from_json_value(spelled.get(f.json_name, False), f"{where}.{f.json_name}") for f in fields_of(cls)
        }
        return cls(**rights, topics=_map_from_json(spelled.get("topics"), TopicPermissions, f"{where}.topics"))


@dataclass(frozen=True, slots=True)
class Permissions(Record):
    """The rights of a user.

    Args:
        everywhere: Rights for everything on the server.
        streams: Rights for streams by number.
    """

    everywhere: GlobalPermissions = GlobalPermissions()
    streams: Mapping[int, StreamPermissions] = field(default_factory=dict)

    def push(self, writer: Writer) -> None:
        """Write the permissions."""
        self.everywhere.push(writer)
        writer.push_u8(bool(self.streams))
        for left, (stream, rights) in _count_down(self.streams):
            writer.push_u32(stream)
            rights.push(writer)
            writer.push_u8(bool(rights.topics))
            for more, (topic, topic_rights) in _count_down(rights.topics):
                writer.push_u32(topic)
                topic_rights.push(writer)
                writer.push_u8(bool(more))
            writer.push_u8(bool(left))

    @classmethod
    def pull(cls, reader: Reader) -> Permissions:
        """Read permissions; if a stream or topic is repeated, the last occurrence is used."""
        everywhere = GlobalPermissions.pull(reader)
        streams: dict[int, StreamPermissions] = {}
        more = reader.pull_u8("whether there are streams") == 1
        while more:
            stream = reader.pull_u32("a stream's number")
            rights = {right.name: right.shape.pull(reader, right.label) for right in fields_of(StreamPermissions)}
            topics: dict[int, TopicPermissions] = {}
            more = reader.pull_u8("whether there are topics") == 1
            while more:
                topic = reader.pull_u32("a topic's number")
                topics[topic] = TopicPermissions.pull(reader)
                more = reader.pull_u8("whether another topic follows") == 1
            streams[stream] = StreamPermissions(**rights, topics=topics)
            more = reader.pull_u8("whether another stream follows") == 1
        return cls(everywhere, streams)

    def spell(self) -> dict[str, Any]:
        """Return the permissions as a JSON object."""
        return {"global": self.everywhere.spell(), "streams": _map_to_json(self.streams)}

    @classmethod
    def read(cls, spelled: Any, where: str) -> Permissions:
        """Decode permissions from a JSON object."""
        if not isinstance(spelled, dict):
            raise invalid_value(spelled, "an object", where)
        everywhere = GlobalPermissions.read(spelled.get("global"), f"{where}.global")
        return cls(everywhere, _map_from_json(spelled.get("streams"), StreamPermissions, f"{where}.streams"))


class SizedPermissions(Shape):
    """size u32 | permissions. Bytes within the size after the permissions are ignored."""

    def push(self, writer: Writer, value: Permissions) -> None:
        inner = Writer()
        value.push(inner)
        writer.push_u32(len(inner))
        writer.push_bytes(inner.to_bytes())

    def pull(self, reader: Reader, what: str) -> Permissions:
        inner = Reader(reader.pull_view(reader.pull_u32(f"the length of {what}"), what))
        return Permissions.pull(inner)

    def to_json_value(self, value: Permissions) -> Any:
        return value.spell()

    def from_json_value(self, json_value: Any, where: str) -> Permissions:
        return Permissions.read(json_value, where)


class UserPermissions(Shape):
    """The permissions after a user: 1 u8 | size u32 | permissions, or 0 u32 if there are no permissions."""

    is_optional = True
    _SIZED: Final = SizedPermissions()

    def push(self, writer: Writer, value: Permissions | None) -> None:
        if value is None:
            writer.push_u32(0)
        else:
            writer.push_u8(1)
            self._SIZED.push(writer, value)

    def pull(self, reader: Reader, what: str) -> Permissions | None:
        at = reader.at
        has = reader.pull_u8(f"the presence flag of {what}")
        if has == 1:
            return self._SIZED.pull(reader, what)
        if has or reader.pull_bytes(3, what) != b"\0\0\0":
            raise DecodeError(f"missing {what} must be encoded as four bytes of 0", at)
        return None

    def to_json_value(self, value: Permissions | None) -> Any:
        return None if value is None else value.spell()

    def from_json_value(self, json_value: Any, where: str) -> Permissions | None:
        return None if json_value is None else Permissions.read(json_value, where)


def _count_down(members: Mapping[int, Any]) -> Any:
    return zip(range(len(members) - 1, -1, -1), sorted(members.items()), strict=True)


def _map_to_json(members: Mapping[int, Any]) -> dict[str, Any] | None:
    return {str(number): rights.spell() for number, rights in sorted(members.items())} or None


def _map_from_json(json_value: Any, kind: type[Any], where: str) -> dict[int, Any]:
    if json_value is None:
        return {}
    if not isinstance(json_value, dict):
        raise invalid_value(json_value, "an object or null", where)
    found = {}
    for name, item in json_value.items():
        if not (name.isascii() and name.isdecimal() and len(name) <= 10 and int(name) < 1 << 32):
            raise invalid_value(name, "a stream or topic number", where)
        found[int(name)] = kind.read(item, f"{where}.{name}")
    return found
