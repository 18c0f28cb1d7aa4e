"""Builds the JSON Schemas of commands and replies over HTTP from their shapes.

A shape's `from_json_value` defines which JSON it accepts. This module describes the same JSON as schemas, one line per shape.
Tests check that the JSON of each shape conforms to the shape's schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headstream.core.model.header_kinds import KIND_NAMES
from headstream.core.model.message import MessageState
from headstream.core.model.partitioning import PartitioningKind
from headstream.core.wire import records, shapes
from headstream.core.wire.commands import groups, messages, offsets, permissions, sessions, system, topics
from headstream.core.wire.extensions import filters as own_filters
from headstream.core.wire.extensions import groups as own_groups
from headstream.core.wire.extensions import messages as own_messages
from headstream.core.wire.extensions import shapes as own_shapes
from headstream.core.wire.fields import RecordField, fields_of
from headstream.core.wire.records import Command, Record
from headstream.core.wire.shapes import Shape

Schema: TypeAlias = dict[str, Any]

_BYTES: Final[Schema] = {"type": "string", "contentEncoding": "base64"}
_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_STATE: Final[Schema] = {"type": "string", "description": ", ".join(state.name.lower() for state in MessageState)}
_CONSUMER: Final[Schema] = {"type": "string", "pattern": "^(consumer|group):.+$"}
_SIZE: Final[Schema] = {
    "anyOf": [{"type": "string", "examples": ["1.5 KB"]}, {"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1}]
}


def _unsigned(size: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": (1 << 8 * size) - 1}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _one_of(names: Any) -> Schema:
    return {"type": "string", "enum": list(names)}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _by_number(schema: Schema) -> Schema:
    return {"type": "object", "propertyNames": {"pattern": "^[0-9]{1,10}$"}, "additionalProperties": schema}


_U32: Final = _unsigned(4)
_U64: Final = _unsigned(8)
_NAME: Final[Schema] = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 255}, {**_U32, "minimum": 1}]}
_HEADERS: Final = _or_null(
    {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"kind": {"type": "string", "description": ", ".join(KIND_NAMES.values())}, "value": _BYTES},
            "required": ["kind", "value"],
        },
    }
)
_ID: Final = _unsigned(16)
_SENT: Final[Schema] = {
    "type": "object",
    "properties": {"id": _ID, "payload": _BYTES, "headers": _HEADERS},
    "required": ["payload"],
}
_POLLED: Final[Schema] = {
    "type": "object",
    "properties": {
        "offset": _U64, "state": _STATE, "timestamp": _U64, "id": _ID, "checksum": _U32, "headers": _HEADERS, "payload": _BYTES,
    },
    "required": ["offset", "state", "timestamp", "id", "checksum", "headers", "payload"],
}  # fmt: skip
_PARTITIONING: Final[Schema] = {
    "type": "object",
    "properties": {"kind": _one_of(kind.name.lower() for kind in PartitioningKind), "value": _BYTES},
    "required": ["kind"],
}
_CACHE: Final[Schema] = {
    "type": "object",
    "properties": {"hits": _U64, "misses": _U64, "hit_ratio": {"type": ["number", "null"]}},
}

_LEAVES: Final[dict[type[Shape], Callable[[Any], Schema]]] = {
    shapes.Unsigned: lambda shape: _unsigned(shape.size),
    shapes.AbsentShape: lambda shape: _or_null(_unsigned(shape.size)),
    topics.ReplicationShape: lambda _: _or_null({**_unsigned(1), "minimum": 1}),
    shapes.RealShape: lambda _: {"type": ["number", "null"]},
    shapes.FlagShape: lambda _: _FLAG,
    messages.FsyncShape: lambda _: _one_of(("true", "false", "fsync=true", "fsync=false")),
    shapes.TextShape: lambda _: _TEXT,
    sessions.TrailingShape: lambda _: _or_null(_TEXT),
    shapes.SizeShape: lambda _: _SIZE,
    shapes.TextCode: lambda shape: _one_of(shape.members),
    own_shapes.Choice: lambda shape: _one_of(str(member) for member in shape.kind),
    shapes.IdentifierShape: lambda _: _NAME,
    offsets.ConsumerShape: lambda _: _NAME,
    own_shapes.AnyConsumerShape: lambda _: _CONSUMER,
    own_shapes.StateShape: lambda _: _STATE,
    own_shapes.StatesShape: lambda _: _or_null(_list_of(_STATE)),
    own_shapes.MaybeNumberShape: lambda _: _or_null(_U64),
    own_shapes.MaybeTextShape: lambda _: _or_null(_TEXT),
    own_shapes.LimitedTimeShape: lambda _: _or_null({"oneOf": [_U64, _one_of(["forever"])]}),
    own_shapes.NumbersShape: lambda _: _list_of(_U64),
    own_shapes.ByNumberShape: lambda _: _by_number(_U64),
    own_shapes.ChangesShape: lambda _: {"type": "object", "additionalProperties": {"anyOf": [_U64, _TEXT, {"type": "null"}]}},
    groups.PartitionsShape: lambda _: _list_of(_U32),
    system.DefaultShape: lambda _: _list_of(_unsigned(1)),
    system.TypesShape: lambda _: _list_of(_one_of(system.TYPE.members)),
    system.CachesShape: lambda _: {"type": "object", "additionalProperties": _CACHE},
    messages.PartitioningShape: lambda _: _PARTITIONING,
    own_shapes.SentShape: lambda _: _list_of({"$ref": "#/components/schemas/SentMessage"}),
    shapes.RestShape: lambda _: _list_of({"$ref": "#/components/schemas/SentMessage"}),
}
"""The shapes that contain no other shapes."""


class Schemas:
    """Builds schemas of shapes. Schemas of records are collected by name in `components` and referenced."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {"SentMessage": _SENT, "PolledMessage": _POLLED}

    def of(self, shape: Shape) -> Schema:
        """Return the schema of a shape's JSON."""
        if isinstance(shape, shapes.OptionalShape):
            return _or_null(self.of(shape.shape))
        if isinstance(shape, (permissions.SizedPermissions, permissions.UserPermissions)):
            found = self.record(permissions.Permissions)
            return _or_null(found) if shape.is_optional else found
        if isinstance(shape, sessions.OnlyJsonShape):
            return _or_null(self.record(sessions.AccessToken))
        make = next((_LEAVES[kind] for kind in type(shape).__mro__ if kind in _LEAVES), None)
        if make is not None:
            return make(shape)
        if isinstance(shape, records.Records):
            return _list_of(self.record(shape.kind))
        if isinstance(shape, records.RecordShape):
            return self.record(shape.kind)
        raise TypeError(f"{type(shape).__name__} has no schema")

    def record(self, kind: type[Record]) -> Schema:
        """Return the reference to the schema of a record."""
        if kind.__name__ not in self.components:
            self.components[kind.__name__] = {}  # reserved, for records that contain themselves
            self.components[kind.__name__] = self._object(fields_of(kind), self._more(kind), kind.__doc__)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}

    def body(self, kind: type[Command[Any]], fields: list[RecordField]) -> Schema:
        """Return the schema of a body that contains the given command fields."""
        return self._object(fields, {}, kind.__doc__)

    def _object(self, fields: Any, more: dict[str, Schema | None], about: str | None) -> Schema:
        members = {field.json_name: self.of(field.shape) for field in fields if field.json_name not in more}
        needed = [field.json_name for field in fields if field.is_needed and field.json_name in members]
        members |= {name: schema for name, schema in more.items() if schema is not None}
        found: Schema = {"type": "object", "properties": members}
        if about:
            found["description"] = about.split("\n\n")[0]
        return found | ({"required": needed} if needed else {})

    def _more(self, kind: type[Record]) -> dict[str, Schema | None]:
        """Return the members that a record adds to the JSON of its fields; None for a field that it omits."""
        rights = permissions
        polled = _list_of({"$ref": "#/components/schemas/PolledMessage"})
        if kind is rights.Permissions:
            return {"global": self.record(rights.GlobalPermissions), "streams": self._map(rights.StreamPermissions)}
        if kind is rights.StreamPermissions:
            return {"topics": self._map(rights.TopicPermissions)}
        more: dict[type[Record], dict[str, Schema | None]] = {
            system.ClusterNode: {
                **dict.fromkeys(("tcp_port", "quic_port", "http_port", "websocket_port")),
                "endpoints": {"type": "object", "additionalProperties": _U32},
                **dict.fromkeys(("role", "status"), _TEXT),
            },
            system.ClientDetails: {"consumer_groups_count": _U32},
            groups.GroupMember: {"partitions_count": _U32},
            own_groups.GroupLag: {"lag": _U64},
            messages.PolledMessages: {"count": None, "messages": polled},
            own_messages.FetchedMessages: {"messages": polled},
            own_filters.FilteredMessages: {"messages": polled},
        }
        return more.get(kind, {})

    def _map(self, kind: type[Record]) -> Schema:
        return _or_null(_by_number(self.record(kind)))
