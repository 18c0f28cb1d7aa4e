"""Walk functions for Kafka's big-endian formats: KIP-82, message sets (core/codec/kip82/message.py), and record batches:

    batch    base_offset i64 | length i32 | leader_epoch i32 | magic i8 = 2 | crc u32 | attributes i16 | last_offset_delta i32
             | base_timestamp i64 | max_timestamp i64 | producer_id i64 | producer_epoch i16 | base_sequence i32 | count i32
             | records, compressed as one block if the attributes name a codec
    record   length v | attributes i8 | timestamp_delta v | offset_delta v | key_length v | key | value_length v | value
             | headers_count v | (key_length v | key | value_length v | value)*

v is a zig-zag varint; a length of -1 means null. crc is the CRC-32C of the bytes from attributes to the end of the batch.
"""

from __future__ import annotations

import zlib
from typing import Final

from headstream.cli.inspecting.fields import FieldReader
from headstream.cli.shared.output import format_time
from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.kip82 import LENIENT, TypedHeaders, decode_message
from headstream.core.codec.kip82.headers import STRICT
from headstream.core.codec.kip82.sets import COMPRESSIONS, decompress
from headstream.core.model.headers import Headers
from headstream.errors import DecodeError, MissingExtraError

_MAX_BYTES: Final = 64 << 20
_HEADERS_BIT: Final = 0x10


def walk_messages(reader: FieldReader) -> None:
    """Read a message set of KIP-82, or with magic 0 or 1."""
    if not reader.remaining:
        raise DecodeError("there is no message", reader.at)
    while reader.remaining:
        reader.begin("message")
        at = reader.at
        if reader.remaining < 12 or int.from_bytes(reader.data[at + 8 : at + 12], "big", signed=True) > reader.remaining - 12:
            if not at:
                raise DecodeError("a message header is cut short", at, 12, reader.remaining)
            reader.bytes("incomplete", reader.remaining)
            reader.notes.append(f"the last message, at byte {at}, is truncated, which is normal for a fetch")
            return
        reader.number("offset", "q")
        size = reader.number("message_size", "i")
        message = FieldReader(reader.data[: at + 12 + max(size, 0)], reader.at, ">", limit=1 << 30)
        message.prefix = reader.prefix
        try:
            _walk_message(message, at)
        finally:
            for field in message.fields:
                reader.note(field.at, field.size_bytes, field.name.removeprefix(reader.prefix), field.value)
            reader.notes += message.notes
            reader.evidence += message.evidence
            reader.skip_to(message.at)
        reader.end()


def _walk_message(reader: FieldReader, at: int) -> None:
    crc = reader.number("crc", "I", lambda value: f"{value:#010x}")
    actual = zlib.crc32(reader.data[at + 16 :])
    if crc == actual:
        reader.evidence += 1
    else:
        reader.notes.append(f"the checksum at byte {at + 12} does not match the bytes, whose checksum is {actual:#010x}")
    magic = reader.number("magic", "b")
    if magic not in (0, 1, 2):
        raise DecodeError(f"the magic must be 0, 1 or 2, not {magic}", at + 16)
    attributes = reader.number("attributes", "B", lambda value: f"{value:#04x}")
    compression = attributes & 7
    if magic:
        reader.number("timestamp", "q", lambda value: format_time(value * 1000) if value >= 0 else "none")
    reader.bytes("key", reader.number("key_length", "i"))
    if magic == 2 and attributes & _HEADERS_BIT:
        _walk_typed_headers(reader, reader.number("headers_length", "i"))
    value = reader.bytes("value", reader.number("value_length", "i"))
    if reader.remaining:
        raise DecodeError(f"{reader.remaining} unexpected bytes after the value of a message", reader.at)
    if compression:
        _note_compressed(reader, compression, value)


def _walk_typed_headers(reader: FieldReader, size: int) -> None:
    begin = reader.at
    if size < 0:
        raise DecodeError(f"the headers have the invalid length {size}", begin - 4)
    if size > reader.remaining:
        raise DecodeError("the headers are cut short", begin, size, reader.remaining)
    block = reader.data[begin : begin + size]
    layout: TypedHeaders = STRICT
    try:
        Headers.from_bytes(block, STRICT, at=begin).items()
    except DecodeError as error:
        Headers.from_bytes(block, LENIENT, at=begin).items()
        layout = LENIENT
        reader.notes.append(f"the headers are invalid by the strict rules: {error}")
    headers = Headers.from_bytes(block, layout, at=begin)
    before = begin
    for place, (key, value) in zip(layout.split(block, begin), headers.items(), strict=True):
        reader.skip_to(begin + place[2])
        reader.header(before, key, value)
        before = reader.at


def _note_compressed(reader: FieldReader, compression: int, value: bytes) -> None:
    name = COMPRESSIONS[compression] if compression < len(COMPRESSIONS) else str(compression)
    try:
        data = decompress(compression, value, _MAX_BYTES)
    except MissingExtraError as error:
        reader.notes.append(str(error))
        return
    count, at = 0, 0
    while at < len(data):
        _, at = decode_message(data, at, layout=LENIENT)
        count += 1
    reader.notes.append(f"the value is a message set compressed with {name}: {count} messages in {len(data)} bytes")


def walk_batches(reader: FieldReader) -> None:
    """Read Kafka record batches, from a segment of a Kafka log or from a fetch response."""
    if not reader.remaining:
        raise DecodeError("there is no batch", reader.at)
    while reader.remaining:
        at = reader.at
        reader.prefix = "batch "
        reader.number("base_offset", "q")
        length = reader.number("length", "i")
        if length > reader.remaining and at:
            reader.bytes("incomplete", reader.remaining)
            reader.notes.append(f"the last batch, at byte {at}, is truncated, which is normal for a fetch")
            return
        if not 49 <= length <= reader.remaining:
            raise DecodeError("a batch is cut short, or shorter than its fixed fields", at + 8, length, reader.remaining)
        end = reader.at + length
        reader.number("leader_epoch", "i")
        if reader.number("magic", "b") != 2:
            raise DecodeError("the magic is not 2: this is an older message set", at + 16)
        crc = reader.number("crc", "I", lambda value: f"{value:#010x}")
        actual = crc32c(reader.data[at + 21 : end])
        if crc == actual:
            reader.evidence += 1
        else:
            reader.notes.append(f"the checksum at byte {at + 17} does not match the batch, whose checksum is {actual:#010x}")
        attributes = reader.number("attributes", "h", lambda value: f"{value & 0xFFFF:#06x}")
        reader.number("last_offset_delta", "i")
        reader.number("base_timestamp", "q", lambda value: format_time(value * 1000))
        reader.number("max_timestamp", "q", lambda value: format_time(value * 1000))
        for name, code in (("producer_id", "q"), ("producer_epoch", "h"), ("base_sequence", "i")):
            reader.number(name, code)
        count = reader.number("count", "i")
        if attributes & 7:
            _walk_compressed(reader, attributes & 7, end, count)
        else:
            _walk_records(reader, end, count)
        reader.end()


def _walk_compressed(reader: FieldReader, compression: int, end: int, count: int) -> None:
    packed = reader.bytes("records", end - reader.at)
    try:
        data = decompress(compression, packed, _MAX_BYTES)
    except (DecodeError, MissingExtraError) as error:
        reader.notes.append(str(error))
        return
    inner = FieldReader(data, 0, ">", limit=0)
    _walk_records(inner, len(data), count)
    reader.notes.append(f"{count} records, compressed with {COMPRESSIONS[compression]} from {len(data)} bytes")


def _walk_records(reader: FieldReader, end: int, count: int) -> None:
    for _ in range(count):
        reader.begin("record")
        at = reader.at
        length = reader.varint("length")
        if not 0 < length <= end - reader.at:
            raise DecodeError("a record is cut short", at, length, end - reader.at)
        until = reader.at + length
        reader.number("attributes", "b")
        reader.varint("timestamp_delta")
        reader.varint("offset_delta")
        reader.bytes("key", reader.varint("key_length"))
        reader.bytes("value", reader.varint("value_length"))
        for _ in range(reader.varint("headers_count")):
            _walk_header(reader)
        if reader.at != until:
            raise DecodeError("the length of a record does not match its end", at, length, reader.at - until + length)
    if reader.at != end:
        raise DecodeError(f"{end - reader.at} unexpected bytes after the records of a batch", reader.at)


def _walk_header(reader: FieldReader) -> None:
    at = reader.at
    hidden = FieldReader(reader.data, at, ">", limit=0)
    hidden.begin("")
    key = hidden.bytes("the key of a header", hidden.varint("the length of a header's key"))
    size = hidden.varint("the length of a header's value")
    value = hidden.bytes("the value of a header", size)
    reader.skip_to(hidden.at)
    shown = "null" if size < 0 else repr(value.decode("utf-8", "backslashreplace"))[1:-1]
    reader.note(at, reader.at - at, "header", f"{key.decode('utf-8', 'backslashreplace')}={shown}")
