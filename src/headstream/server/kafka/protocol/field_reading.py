"""Reads the fields of Kafka's messages, with one function per structure and version, built once.

Neighbouring numbers are read together. Declared sizes are always checked: an array can have at most one element per remaining
byte, and all arrays of a message together at most MAX_ELEMENTS elements.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from headstream.errors import DecodeError
from headstream.server.kafka.protocol.field_kinds import NUMBERS, default_of, is_number, number_runs
from headstream.server.kafka.protocol.schema_text import KafkaField

MAX_ELEMENTS: Final = 200_000
"""Maximum elements of all arrays of one request; the elements use up to several tens of MiB."""

_COUNT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")


class Cursor:
    """The read position in a message, and the remaining limit of array elements."""

    __slots__ = ("at", "data", "elements_left", "end")

    def __init__(self, data: memoryview) -> None:
        self.data = data.cast("B")
        self.at = 0
        self.end = self.data.nbytes
        self.elements_left = MAX_ELEMENTS

    def take(self, size: int) -> memoryview:
        """Return the next bytes."""
        at, until = self.at, self.at + size
        if until > self.end:
            raise DecodeError("the message is cut short", at, size, self.end - at)
        self.at = until
        return self.data[at:until]

    def number(self, form: struct.Struct) -> int:
        """Return the next number."""
        value: int = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def varint(self) -> int:
        """Return the next unsigned varint."""
        data, at, value = self.data, self.at, 0
        for shift in range(0, 35, 7):
            if at >= self.end:
                raise DecodeError("the message is cut short", at, 1, 0)
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self.at = at
                return value
        raise DecodeError("a varint has more than 32 bits", at)


Read = Callable[[Cursor], Any]
_ReadInto = Callable[[Cursor, dict[str, Any]], None]


def make_reader(fields: Sequence[KafkaField], version: int, *, is_flexible: bool) -> Callable[[Cursor], dict[str, Any]]:
    """Return a function that reads a structure in a version; `fields` are the fields of all versions."""
    there = [field for field in fields if version in field.versions]
    steps = [
        _numbers_step(run) if is_number(run[0]) else _field_step(run[0], version, is_flexible)
        for run in number_runs([field for field in there if field.tag is None])
    ]
    if is_flexible:
        steps.append(_tagged_step([field for field in there if field.tag is not None], version))

    def read(cursor: Cursor) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for step in steps:
            step(cursor, values)
        return values

    return read


def _numbers_step(run: Sequence[KafkaField]) -> _ReadInto:
    names = [field.name for field in run]
    form = struct.Struct(">" + "".join(NUMBERS[field.kind] for field in run))

    def read_into(cursor: Cursor, values: dict[str, Any]) -> None:
        values.update(zip(names, form.unpack_from(cursor.data, cursor.at), strict=True))
        cursor.at += form.size

    return read_into


def _field_step(field: KafkaField, version: int, is_flexible: bool) -> _ReadInto:
    name, read = field.name, _field_reader(field, version, is_flexible)

    def read_into(cursor: Cursor, values: dict[str, Any]) -> None:
        values[name] = read(cursor)

    return read_into


def _tagged_step(fields: Sequence[KafkaField], version: int) -> _ReadInto:
    known = {field.tag: (field.name, _field_reader(field, version, is_flexible=True)) for field in fields}

    def read_into(cursor: Cursor, values: dict[str, Any]) -> None:
        for field in fields:
            values[field.name] = default_of(field, version)
        last = -1
        for _ in range(cursor.varint()):
            tag, size = cursor.varint(), cursor.varint()
            if tag <= last:
                raise DecodeError("tagged fields are not in order", cursor.at)
            last, begin = tag, cursor.at
            if tag not in known:
                cursor.take(size)
                continue
            name, read = known[tag]
            values[name] = read(cursor)
            if cursor.at != begin + size:
                raise DecodeError("the size of a tagged field does not match its header", begin, size, cursor.at - begin)

    return read_into


def _field_reader(field: KafkaField, version: int, is_flexible: bool) -> Read:
    is_nullable = field.nullable is not None and version in field.nullable
    if not field.is_array:
        return _value_reader(field, version, is_flexible, is_nullable)
    name, read = field.name, _value_reader(field, version, is_flexible, is_nullable=False)

    def read_array(cursor: Cursor) -> Any:
        count = cursor.varint() - 1 if is_flexible else cursor.number(_COUNT)
        if count < 0:
            if count < -1 or not is_nullable:
                raise DecodeError(f"{name} has an invalid count of {count} elements", cursor.at)
            return None
        cursor.elements_left -= count
        if count > cursor.end - cursor.at or cursor.elements_left < 0:  # each has at least a byte
            raise DecodeError(f"{name} has more elements than bytes", cursor.at, count, cursor.end - cursor.at)
        return [read(cursor) for _ in range(count)]

    return read_array


def _value_reader(field: KafkaField, version: int, is_flexible: bool, is_nullable: bool) -> Read:
    if field.fields:
        return make_reader(field.fields, version, is_flexible=is_flexible)
    if field.kind in NUMBERS:
        form = struct.Struct(">" + NUMBERS[field.kind])
        return lambda cursor: cursor.number(form)
    if field.kind == "uuid":
        return lambda cursor: uuid.UUID(bytes=bytes(cursor.take(16)))
    name, size_form = field.name, _SHORT if field.kind == "string" else _COUNT
    make = _MAKERS.get(field.kind, _same)

    def read_sized(cursor: Cursor) -> Any:
        size = cursor.varint() - 1 if is_flexible else cursor.number(size_form)
        if size < 0:
            if size < -1 or not is_nullable:
                raise DecodeError(f"{name} has the invalid length {size}", cursor.at)
            return None
        return make(cursor.take(size))

    return read_sized


def _text(taken: memoryview) -> str:
    return str(taken, "utf-8")


def _same(taken: memoryview) -> memoryview:
    return taken


_MAKERS: Final[dict[str, Callable[[memoryview], Any]]] = {"string": _text, "bytes": bytes}
