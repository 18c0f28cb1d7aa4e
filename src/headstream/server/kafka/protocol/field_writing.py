"""Writes the fields of Kafka's messages, with one function per structure and version, built once.

Neighbouring numbers are written together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headstream.core.codec.buffer import BytesLike
from headstream.server.kafka.protocol.field_kinds import NUMBERS, default_of, is_number, number_runs
from headstream.server.kafka.protocol.schema_text import KafkaField

_PIECE_BYTES: Final = 4 << 10
"""Records from this size on are a separate piece of a response and are not copied."""

_COUNT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")

Write = Callable[[list[BytesLike], Any], None]
"""Writes a value to pieces whose last piece is a bytearray, to which the function appends."""


def make_writer(fields: Sequence[KafkaField], version: int, *, is_flexible: bool) -> Write:
    """Return a function that writes a structure in a version from values by field name; missing fields get defaults."""
    there = [field for field in fields if version in field.versions]
    steps = [
        _numbers_step(run, version) if is_number(run[0]) else _field_step(run[0], version, is_flexible)
        for run in number_runs([field for field in there if field.tag is None])
    ]
    if is_flexible:
        steps.append(_tagged_step([field for field in there if field.tag is not None], version))

    def write(pieces: list[BytesLike], values: Mapping[str, Any]) -> None:
        for step in steps:
            step(pieces, values)

    return write


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


def _numbers_step(run: Sequence[KafkaField], version: int) -> Write:
    defaults = [(field.name, default_of(field, version)) for field in run]
    pack = struct.Struct(">" + "".join(NUMBERS[field.kind] for field in run)).pack

    def write(pieces: list[BytesLike], values: Mapping[str, Any]) -> None:
        target = _end_of(pieces)
        target += pack(*[values.get(name, default) for name, default in defaults])

    return write


def _field_step(field: KafkaField, version: int, is_flexible: bool) -> Write:
    name, default, write_field = field.name, default_of(field, version), _field_writer(field, version, is_flexible)

    def write(pieces: list[BytesLike], values: Mapping[str, Any]) -> None:
        write_field(pieces, values.get(name, default))

    return write


def _tagged_step(fields: Sequence[KafkaField], version: int) -> Write:
    """Return a function that writes the tagged fields that differ from their defaults, by tag."""
    tagged = [
        (field.tag or 0, field.name, default_of(field, version), _field_writer(field, version, is_flexible=True))
        for field in sorted(fields, key=lambda field: field.tag or 0)
    ]

    def write(pieces: list[BytesLike], values: Mapping[str, Any]) -> None:
        given = [each for each in tagged if values.get(each[1], each[2]) != each[2]]
        _write_varint(_end_of(pieces), len(given))
        for tag, name, _, write_field in given:
            inner: list[BytesLike] = [bytearray()]
            write_field(inner, values[name])
            target = _end_of(pieces)
            _write_varint(target, tag)
            _write_varint(target, sum(map(len, inner)))
            for piece in inner:
                target += piece

    return write


def _field_writer(field: KafkaField, version: int, is_flexible: bool) -> Write:
    write_value = _value_writer(field, version, is_flexible)
    if not field.is_array:
        return write_value

    def write_array(pieces: list[BytesLike], values: Sequence[Any] | None) -> None:
        target, count = _end_of(pieces), -1 if values is None else len(values)
        if is_flexible:
            _write_varint(target, count + 1)
        else:
            target += _COUNT.pack(count)
        for value in values or ():
            write_value(pieces, value)

    return write_array


def _value_writer(field: KafkaField, version: int, is_flexible: bool) -> Write:
    if field.fields:
        return make_writer(field.fields, version, is_flexible=is_flexible)
    if field.kind in NUMBERS:
        pack = struct.Struct(">" + NUMBERS[field.kind]).pack
        return lambda pieces, value: _end_of(pieces).extend(pack(value))
    if field.kind == "uuid":
        return lambda pieces, value: _end_of(pieces).extend(value.bytes)
    size_form = _SHORT if field.kind == "string" else _COUNT

    def write_size(target: bytearray, size: int) -> None:
        if is_flexible:
            _write_varint(target, size + 1)
        else:
            target += size_form.pack(size)

    def write_sized(pieces: list[BytesLike], value: str | bytes | None) -> None:
        target, data = _end_of(pieces), value.encode() if isinstance(value, str) else value
        write_size(target, -1 if data is None else len(data))
        if data is not None:
            target += data

    def write_records(pieces: list[BytesLike], records: Sequence[BytesLike] | None) -> None:
        target, size = _end_of(pieces), sum(map(len, records or ()))
        write_size(target, -1 if records is None else size)
        if records is None or size < _PIECE_BYTES:
            for piece in records or ():
                target += piece
        else:
            pieces.extend(records)
            pieces.append(bytearray())

    return write_records if field.kind == "records" else write_sized
