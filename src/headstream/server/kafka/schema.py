"""Schemas of Kafka's protocol: a text lists the fields of requests and responses by version; the encoding follows from it.

    find_coordinator request key=10 versions=0-4 flexible=3+
      key string 0-3                          in versions 0 to 3
      coordinator_keys []string 4+            from version 4 on
      coordinators [] 4+ {                    an array of structures
        error_message string ?                nullable (`?2+`   : from version 2 on)
        node_id int32 =-1                     the default, where it is not 0, "" or empty
        leader struct tag=1 {                 a tagged field
      }

A message is a dict by the names of its fields. Numbers are big-endian. In flexible versions lengths are unsigned varints, one
more than the length (0 is null), and a structure ends with its tagged fields. What a message claims is never believed:
an array has no more elements than bytes are left, and all arrays of a message together have at most MAX_ELEMENTS.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from headstream.codec.buffer import BytesLike
from headstream.errors import DecodeError
from headstream.server.kafka.schema_text import KafkaField, parse_text

__all__ = ["MAX_ELEMENTS", "Schema", "parse_schemas"]

MAX_ELEMENTS: Final = 200_000
"""Limit of the elements of all arrays of one request: more than a cluster's metadata has; some tens of MiB of objects."""

_PIECE_BYTES: Final = 4 << 10
"""Records from this size on are a piece of a response of their own, without a copy."""

_NUMBERS: Final = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
}
_ZERO: Final = uuid.UUID(int=0)


class _Step(NamedTuple):
    """A field in one version; `plan` is that of a structure's fields."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    plan: _FieldPlan | None
    default: Any


class _FieldPlan(NamedTuple):
    """A structure in one version: its fields in order, and its tagged ones by tag."""

    steps: tuple[_Step, ...]
    tagged: Mapping[int, _Step]
    is_flexible: bool


@dataclass(frozen=True)
class Schema:
    """A request or a response in all its versions.

    Args:
        name: The API's, as `list_offsets`.
        api_key: The API's number.
        first_version: The first supported version.
        last_version: The last one.
        flexible_from: The first flexible version, or None.
        fields: Its fields.
    """

    name: str
    api_key: int
    first_version: int
    last_version: int
    flexible_from: int | None
    fields: tuple[KafkaField, ...]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version is flexible."""
        return self.flexible_from is not None and version >= self.flexible_from

    def decode(self, version: int, data: BytesLike) -> dict[str, Any]:
        """Return a message by the names of its fields; records are parts of the data, not copied.

        Args:
            version: One of those known here.
            data: The message; what follows it is ignored.

        Raises:
            DecodeError: the bytes are not such a message.
        """
        cursor = _Cursor(memoryview(data))
        try:
            return _read_plan(cursor, _plan_of(self, version))
        except (struct.error, UnicodeDecodeError) as error:
            raise DecodeError(f"{self.name} version {version}: {error}", cursor.at) from None

    def encode(self, version: int, values: Mapping[str, Any]) -> list[BytesLike]:
        """Return a message in pieces; missing fields have their defaults.

        Args:
            version: One of those known here.
            values: The fields by name; those that the version does not have are left out. Records are a list of pieces.
        """
        pieces: list[BytesLike] = [bytearray()]
        _write_plan(pieces, _plan_of(self, version), values)
        return [piece for piece in pieces if len(piece)]


@lru_cache(maxsize=1024)
def _plan_of(schema: Schema, version: int) -> _FieldPlan:
    return _make_plan(schema.fields, version, schema.is_flexible(version))


def _make_plan(fields: tuple[KafkaField, ...], version: int, is_flexible: bool) -> _FieldPlan:
    steps: list[_Step] = []
    tagged: dict[int, _Step] = {}
    for field in fields:
        if version not in field.versions:
            continue
        plan = _make_plan(field.fields, version, is_flexible) if field.fields else None
        is_nullable = field.nullable is not None and version in field.nullable
        step = _Step(field.name, field.kind, field.is_array, is_nullable, plan, field.default)
        if field.tag is None:
            steps.append(step)
        else:
            tagged[field.tag] = step
    return _FieldPlan(tuple(steps), tagged, is_flexible)


# -- bytes -> values ------------------------------------------------------------------------------------------


class _Cursor:
    """The read position, and the remaining limit of array elements."""

    __slots__ = ("at", "data", "elements_left", "end")

    def __init__(self, data: memoryview) -> None:
        self.data = data.cast("B")
        self.at = 0
        self.end = self.data.nbytes
        self.elements_left = MAX_ELEMENTS

    def take(self, size: int) -> memoryview:
        at, until = self.at, self.at + size
        if until > self.end:
            raise DecodeError("the message is cut short", at, size, self.end - at)
        self.at = until
        return self.data[at:until]

    def number(self, form: struct.Struct) -> Any:
        value = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise DecodeError("a varint has more than 32 bits", self.at)


def _read_plan(cursor: _Cursor, plan: _FieldPlan) -> dict[str, Any]:
    values = {step.name: _read_step(cursor, step, plan.is_flexible) for step in plan.steps}
    if plan.is_flexible:
        for step in plan.tagged.values():
            values[step.name] = _default(step)
        last = -1
        for _ in range(cursor.varint()):
            tag, size = cursor.varint(), cursor.varint()
            if tag <= last:
                raise DecodeError("tagged fields are not in order", cursor.at)
            last, begin = tag, cursor.at
            known = plan.tagged.get(tag)
            if known is None:
                cursor.take(size)
            else:
                values[known.name] = _read_step(cursor, known, is_flexible=True)
                if cursor.at != begin + size:
                    raise DecodeError("a tagged field's size differs from its header", begin, size, cursor.at - begin)
    return values


def _read_step(cursor: _Cursor, step: _Step, is_flexible: bool) -> Any:
    if not step.is_array:
        return _read_value(cursor, step, step.kind, is_flexible, is_nullable=step.is_nullable)
    count = cursor.varint() - 1 if is_flexible else cursor.number(_NUMBERS["int32"])
    if count < 0:
        if count < -1 or not step.is_nullable:
            raise DecodeError(f"{step.name} has {count} elements", cursor.at)
        return None
    cursor.elements_left -= count
    if count > cursor.end - cursor.at or cursor.elements_left < 0:  # each has at least a byte
        raise DecodeError(f"{step.name} has more elements than bytes", cursor.at, count, cursor.end - cursor.at)
    return [_read_value(cursor, step, step.kind, is_flexible) for _ in range(count)]


def _read_value(cursor: _Cursor, step: _Step, kind: str, is_flexible: bool, *, is_nullable: bool = False) -> Any:
    if step.plan is not None:
        return _read_plan(cursor, step.plan)
    form = _NUMBERS.get(kind)
    if form is not None:
        return cursor.number(form)
    if kind == "uuid":
        return uuid.UUID(bytes=bytes(cursor.take(16)))
    if is_flexible:
        size = cursor.varint() - 1
    else:
        size = cursor.number(_NUMBERS["int16" if kind == "string" else "int32"])
    if size < 0:
        if size < -1 or not is_nullable:
            raise DecodeError(f"{step.name} has {size} bytes", cursor.at)
        return None
    taken = cursor.take(size)
    if kind == "string":
        return str(taken, "utf-8")
    return bytes(taken) if kind == "bytes" else taken


# -- values -> bytes ------------------------------------------------------------------------------------------


def _default(step: _Step) -> Any:
    if step.is_array:
        return None if step.is_nullable else []
    if step.default is not None:
        return step.default
    if step.kind in _NUMBERS:
        return 0
    if step.kind == "uuid":
        return _ZERO
    if step.is_nullable:
        return None
    return "" if step.kind == "string" else b""


def _end_of(pieces: list[BytesLike]) -> bytearray:
    last = pieces[-1]
    if type(last) is not bytearray:
        last = bytearray()
        pieces.append(last)
    return last


def _write_varint(target: bytearray, value: int) -> None:
    while value > 127:
        target.append(value & 127 | 128)
        value >>= 7
    target.append(value)


def _write_plan(pieces: list[BytesLike], plan: _FieldPlan, values: Mapping[str, Any]) -> None:
    for step in plan.steps:
        value = values[step.name] if step.name in values else _default(step)
        _write_step(pieces, step, value, plan.is_flexible)
    if plan.is_flexible:
        given = {
            tag: step for tag, step in sorted(plan.tagged.items()) if values.get(step.name, _default(step)) != _default(step)
        }
        _write_varint(_end_of(pieces), len(given))
        for tag, step in given.items():
            inner: list[BytesLike] = [bytearray()]
            _write_step(inner, step, values[step.name], is_flexible=True)
            target = _end_of(pieces)
            _write_varint(target, tag)
            _write_varint(target, sum(map(len, inner)))
            for piece in inner:
                target += piece


def _write_step(pieces: list[BytesLike], step: _Step, value: Any, is_flexible: bool) -> None:
    if not step.is_array:
        _write_value(pieces, step, value, is_flexible)
        return
    target, count = _end_of(pieces), -1 if value is None else len(value)
    if is_flexible:
        _write_varint(target, count + 1)
    else:
        target += _NUMBERS["int32"].pack(count)
    for element in value or ():
        _write_value(pieces, step, element, is_flexible)


def _write_value(pieces: list[BytesLike], step: _Step, value: Any, is_flexible: bool) -> None:
    if step.plan is not None:
        _write_plan(pieces, step.plan, value)
        return
    target, kind = _end_of(pieces), step.kind
    form = _NUMBERS.get(kind)
    if form is not None:
        target += form.pack(value)
    elif kind == "uuid":
        target += value.bytes
    elif kind == "records":
        size = sum(map(len, value or ()))
        _write_size(target, "bytes", -1 if value is None else size, is_flexible)
        if size < _PIECE_BYTES:
            for piece in value or ():
                target += piece
        else:
            pieces.extend(value)
            pieces.append(bytearray())
    else:
        data = value.encode() if isinstance(value, str) else value
        _write_size(target, kind, -1 if data is None else len(data), is_flexible)
        if data is not None:
            target += data


def _write_size(target: bytearray, kind: str, size: int, is_flexible: bool) -> None:
    if is_flexible:
        _write_varint(target, size + 1)
    else:
        target += _NUMBERS["int16" if kind == "string" else "int32"].pack(size)


def parse_schemas(text: str) -> dict[tuple[str, str], Schema]:
    """Parse schemas; return them by name and `request` or `response`.

    Args:
        text: The notation above; a line without indentation begins a schema.

    Raises:
        ValueError: a line is invalid.
    """
    return {
        (name, way): Schema(name, key, first, last, flexible, fields)
        for name, way, key, first, last, flexible, fields in parse_text(text)
    }
