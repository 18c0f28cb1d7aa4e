"""Walk functions for Iggy's binary formats: messages with and without state and checksum, as sent, in frames, and newer formats.

core/codec/binary.py describes the first three formats. Messages of servers from 0.5.0 on have no state (little-endian):

    message   checksum u64 | id u128 | offset u64 | timestamp u64 | origin_timestamp u64 | headers_length u32
              | payload_length u32 | [reserved u64, from server 0.7.0] | payload | headers
    headers   as in core/codec/binary.py; since 2026 with a kind before each key:
              (key_kind u8 | key_length u32 | key | kind u8 | value_length u32 | value)*

Frames of the TCP transport:

    response  status u32 = 0 | length u32 | partition u32 | current_offset u64 | count u32 | messages
    request   length u32 | code u32 = 101 | stream | topic | partitioning, each kind u8, length u8, value | messages
"""

from __future__ import annotations

import zlib
from typing import Final

from headstream.cli.inspecting.fields import FieldReader, Walk
from headstream.cli.shared.output import format_time
from headstream.core.codec.batch.stored.scan import find_states, scan
from headstream.core.codec.batch.to_columns.payloads import find_damaged_payload
from headstream.core.model.header_block import MAX_KEY_BYTES
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import MessageState, state_name
from headstream.errors import DecodeError, HeaderError

_SEND_MESSAGES: Final = 101
_STATES: Final = frozenset(MessageState.__members__.values())
_CHUNK_BYTES: Final = 1 << 20
_TIMES: Final = range(10**15, 4 * 10**15)
"""Plausible timestamps: microseconds of the years 2001 to 2096."""


def walk_stored(reader: FieldReader) -> None:
    """Read stored messages."""
    _require_message(reader)
    while reader.remaining:
        if reader.is_full:
            _skip_valid(reader)
            if not reader.remaining:
                return
        reader.begin("message")
        reader.number("offset", "Q")
        state = reader.number("state", "B", state_name)
        reader.number("timestamp", "Q", format_time)
        reader.number("id", "16s", format_message_id)
        at = reader.at
        checksum = reader.number("checksum", "I", lambda value: f"{value:#010x}")
        _walk_headers(reader, reader.number("headers_length", "I"))
        payload = reader.bytes("payload", reader.number("payload_length", "I"))
        if checksum == zlib.crc32(payload):
            reader.evidence += bool(payload)  # the checksum of an empty payload is 0, which proves nothing
        else:
            reader.notes.append(
                f"the checksum at byte {at} does not match the payload, whose checksum is {zlib.crc32(payload):#010x}"
            )
        if state not in _STATES:
            reader.notes.append(f"the state at byte {at - 25} is unknown: {state}")
        reader.end()


def _skip_valid(reader: FieldReader) -> None:
    data = memoryview(reader.data)
    while reader.remaining:
        chunk = data[reader.at : reader.at + _CHUNK_BYTES]
        chunk = chunk[: scan(chunk).end]
        wrong = find_damaged_payload(chunk)
        sound = chunk if wrong < 0 else chunk[:wrong]
        odd = [position for position, _, state in find_states(sound) if state not in _STATES]
        sound = sound[: odd[0]] if odd else sound
        if not sound:
            return
        reader.evidence += 1
        reader.skip(scan(sound).count, len(sound))


def walk_first(reader: FieldReader) -> None:
    """Read polled messages in the format without states."""
    _require_message(reader)
    while reader.remaining:
        reader.begin("message")
        reader.number("offset", "Q")
        _count_time(reader, reader.number("timestamp", "Q", format_time))
        reader.number("id", "16s", format_message_id)
        _walk_headers(reader, reader.number("headers_length", "I"))
        reader.bytes("payload", reader.number("payload_length", "I"))
        reader.end()


def walk_sent(reader: FieldReader) -> None:
    """Read messages as a client sends them."""
    _require_message(reader)
    while reader.remaining:
        reader.begin("message")
        reader.number("id", "16s", format_message_id)
        _walk_headers(reader, reader.number("headers_length", "I"))
        at = reader.at
        size = reader.number("payload_length", "I")
        if not size and reader.count == 1 and not reader.remaining:
            raise DecodeError("the single message has no payload", at)
        reader.bytes("payload", size)
        reader.end()


def walk_later_56(reader: FieldReader) -> None:
    """Read messages of the newer format with a header of 56 bytes."""
    _walk_later(reader, reserved=False)


def walk_later_64(reader: FieldReader) -> None:
    """Read messages of the newer format with a header of 64 bytes."""
    _walk_later(reader, reserved=True)


def walk_response(reader: FieldReader) -> None:
    """Read the response to a poll."""
    at = reader.at
    if reader.number("status", "I"):
        raise DecodeError("the status is not 0: the response reports an error and has no messages", at)
    _frame_length(reader)
    reader.number("partition", "I")
    reader.number("current_offset", "Q")
    at = reader.at
    count = reader.number("count", "I")
    _walk_one_of(reader, walk_stored, walk_later_56, walk_later_64)
    if reader.count != count:
        raise DecodeError(f"the count is {count}, but there are {reader.count} messages", at)


def walk_request(reader: FieldReader) -> None:
    """Read a request to send messages."""
    _frame_length(reader)
    at = reader.at
    if reader.number("code", "I") != _SEND_MESSAGES:
        raise DecodeError("the command code is not 101 (send messages)", at)
    if reader.data[at + 4 : at + 5] not in (b"\1", b"\2"):  # the newer format has a length here
        reader.number("metadata_length", "I")
        _walk_targets(reader)
        count = reader.number("count", "I")
        reader.bytes("index", 16 * count)
        _walk_one_of(reader, walk_later_56, walk_later_64)
        return
    _walk_targets(reader)
    walk_sent(reader)


def _walk_targets(reader: FieldReader) -> None:
    for name in ("stream", "topic", "partitioning"):
        reader.number(f"{name} kind", "B")
        reader.bytes(name, reader.number(f"{name} length", "B"))


def _frame_length(reader: FieldReader) -> None:
    at = reader.at
    length = reader.number("length", "I")
    if length != reader.remaining:
        raise DecodeError("the frame is cut short or too long", at, length, reader.remaining)
    reader.evidence += 1


def _walk_one_of(reader: FieldReader, *walks: Walk) -> None:
    """Continue with the walk function that reads to the end; if there is none, with the function that reads farthest."""
    best: tuple[int, Walk] | None = None
    for walk in walks:
        trial = FieldReader(reader.data, reader.at, limit=0)
        try:
            walk(trial)
            best = len(reader.data) + trial.evidence + 1, walk
        except DecodeError:
            if best is None or trial.at > best[0]:
                best = trial.at, walk
            continue
        break
    if best is not None:
        reader.notes.append(f"the frame contains {_NAMES[best[1]]}")
        best[1](reader)


def _walk_later(reader: FieldReader, *, reserved: bool) -> None:
    _require_message(reader)
    while reader.remaining:
        reader.begin("message")
        reader.number("checksum", "Q", lambda value: f"{value:#018x}")
        reader.number("id", "16s", format_message_id)
        reader.number("offset", "Q")
        reader.number("timestamp", "Q", format_time)
        _count_time(reader, reader.number("origin_timestamp", "Q", format_time))
        headers_length = reader.number("headers_length", "I")
        payload_length = reader.number("payload_length", "I")
        if reserved:
            at = reader.at
            if reader.number("reserved", "Q"):
                raise DecodeError("the reserved bytes are not 0", at)
        reader.bytes("payload", payload_length)
        _walk_headers(reader, headers_length, may_have_key_kinds=True)
        reader.end()


def _count_time(reader: FieldReader, timestamp: int) -> None:
    reader.evidence += timestamp in _TIMES


def _require_message(reader: FieldReader) -> None:
    if not reader.remaining:
        raise DecodeError("there is no message", reader.at)


def _walk_headers(reader: FieldReader, size: int, *, may_have_key_kinds: bool = False) -> None:
    """Read a header block; if keys without a kind cannot be read, try keys with a kind."""
    begin, end = reader.at, reader.at + size
    if size > reader.remaining:
        raise DecodeError("the headers are cut short", begin, size, reader.remaining)
    noted = len(reader.fields)
    try:
        _walk_block(reader, end, key_kinds=False)
    except DecodeError:
        if not may_have_key_kinds:
            raise
        del reader.fields[noted:]
        reader.skip_to(begin)
        _walk_block(reader, end, key_kinds=True)
        reader.notes.append(f"the keys of the headers at byte {begin} have kinds")


def _walk_block(reader: FieldReader, end: int, *, key_kinds: bool) -> None:
    data = reader.data
    while reader.at < end:
        begin = at = reader.at
        if key_kinds:
            if data[at] != 2:
                raise DecodeError(f"the key is of kind {data[at]}, not a string", at)
            at += 1
        if end - at < 4:
            raise DecodeError("a header is cut short", at, 4, end - at)
        key_end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if key_end + 5 > end:
            raise DecodeError("the key of a header is cut short", at + 4, key_end + 1 - at, end - at - 4)
        value_end = key_end + 5 + int.from_bytes(data[key_end + 1 : key_end + 5], "little")
        if value_end > end:
            raise DecodeError("the value of a header is cut short", key_end + 5, value_end - key_end - 5, end - key_end - 5)
        if not 1 <= key_end - at - 4 <= MAX_KEY_BYTES:
            raise DecodeError(f"the key of a header must have 1 to {MAX_KEY_BYTES} bytes, not {key_end - at - 4}", at)
        try:
            key = data[at + 4 : key_end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError("the key of a header is not UTF-8", at + 4 + error.start) from None
        try:
            value = HeaderValue(data[key_end], data[key_end + 5 : value_end])
        except HeaderError as error:
            raise DecodeError(error.what, key_end + 5, where=f"header {key!r}") from None
        reader.skip_to(value_end)
        reader.header(begin, key, value)


_NAMES: Final[dict[Walk, str]] = {
    walk_stored: "Iggy messages with state and checksum",
    walk_later_56: "messages of a newer Iggy version, with a header of 56 bytes",
    walk_later_64: "messages of a newer Iggy version, with a header of 64 bytes",
}
