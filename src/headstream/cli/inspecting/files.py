"""Walk functions for a segment's index (log/segments/layout.py), Iggy's JSON, and export lines."""

from __future__ import annotations

from headstream.cli.inspecting.fields import FieldReader, Walk
from headstream.cli.shared.lines import decode_line
from headstream.cli.shared.message_view import describe_bytes
from headstream.cli.shared.output import format_time
from headstream.core.codec import json as json_transport
from headstream.core.model.header_block import BINARY, HeaderLayout
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, state_name
from headstream.errors import DecodeError, HeadstreamError
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, decode_entry, decode_header, decode_seal

INDEX_MAGIC = b"HSINDEX\0"


def walk_index(reader: FieldReader) -> None:
    """Read the index of a segment."""
    if not reader.data.startswith(INDEX_MAGIC):
        raise DecodeError("not an index: the file does not begin with the magic bytes of an index", 0)
    reader.evidence += 1
    head = reader.bytes("header", INDEX_HEADER_BYTES, lambda data: "damaged")
    header = decode_header(head)
    if header is None:
        raise DecodeError("the checksum of the index's header does not match", INDEX_HEADER_BYTES - 4)
    reader.fields[-1] = reader.fields[-1]._replace(
        value=f"version {header.version}, entries of {header.entry_size} bytes, base_offset {header.base_offset}"
    )
    reader.evidence += 1
    while reader.remaining >= INDEX_ENTRY_BYTES:
        reader.begin("entry")
        at = reader.at
        data = reader.data[at : at + INDEX_ENTRY_BYTES]
        reader.skip_to(at + INDEX_ENTRY_BYTES)
        entry = decode_entry(data, header.base_offset)
        seal = decode_seal(data, header.base_offset)
        if seal is not None:
            reader.evidence += 1
            what = f"sealed at byte {seal.end_position}, and the next segment begins at offset {seal.until_offset}"
            reader.note(at, INDEX_ENTRY_BYTES, "", what)
            continue
        if entry is None:
            reader.note(at, INDEX_ENTRY_BYTES, "", "damaged" if any(data) else "zeros")
            reader.notes.append(f"the entry at byte {at} is incomplete, altered, or from another file")
            continue
        reader.evidence += 1
        reader.note(
            at,
            INDEX_ENTRY_BYTES,
            "",
            f"bytes {entry.byte_position} to {entry.end_position}, offsets {entry.first_offset} to {entry.end_offset - 1}, "
            f"{format_time(entry.timestamp_us)}, crc32c {entry.crc32c:#010x}",
        )
    reader.end()
    if reader.remaining:
        reader.bytes("torn", reader.remaining)
        reader.notes.append("the last entry is incomplete, which is normal after a crash")


def walk_json(reader: FieldReader) -> None:
    """Read a document of Iggy's JSON transport."""
    data = reader.data
    if b'"messages"' not in data:
        raise DecodeError("the JSON document contains no messages", 0)
    if b'"partitioning"' in data:
        sent = json_transport.decode_sent(data)
        reader.note(0, len(data), "partitioning", sent.partitioning.kind.name.lower())
        messages = sent.messages
    else:
        polled = json_transport.decode_polled(data)
        reader.note(0, len(data), "partition", polled.partition)
        reader.note(0, len(data), "current_offset", polled.current_offset)
        messages = polled.messages
    reader.evidence += 1
    reader.skip_to(len(data))
    for message in messages:
        _note_message(reader, message, 0, 0)


def walk_lines(reader: FieldReader) -> None:
    """Read export lines."""
    if not reader.data.lstrip().startswith(b"{"):
        raise DecodeError("the first line is not a JSON object", 0)
    at = 0
    for line in reader.data.splitlines(keepends=True):
        if line.strip():
            try:
                message = decode_line(line)
            except HeadstreamError as error:
                reader.skip_to(at)
                raise DecodeError(error.what, at, where=error.where) from None
            _note_message(reader, message, at, len(line))
            reader.evidence += message.payload is not None
        at += len(line)
    reader.skip_to(len(reader.data))


def walk_block(layout: HeaderLayout = BINARY) -> Walk:
    """Return a walk function for a header block."""

    def walk(reader: FieldReader) -> None:
        data = reader.data
        if not data:
            raise DecodeError("the file has no header", 0)
        headers = Headers.from_bytes(data, layout)
        before = 0
        for place, (key, value) in zip(layout.split(data, 0), headers.items(), strict=True):
            reader.skip_to(place[2])
            reader.header(before, key, value)
            before = place[2]

    return walk


def _note_message(reader: FieldReader, message: Message, at: int, size: int) -> None:
    reader.begin("message")
    if message.offset is not None:
        reader.note(at, size, "offset", message.offset)
        reader.note(at, size, "state", state_name(message.state))
        if not message.verify():
            reader.notes.append(f"the checksum of the message at offset {message.offset} does not match its payload")
    if message.key is not None:
        reader.note(at, size, "key", describe_bytes(message.key))
    for key, value in message.headers.items():
        reader.skip_to(max(reader.at, at))
        reader.note(at, size, "header", f"{key}={value.kind_name}:{value}")
    reader.note(at, size, "payload", describe_bytes(message.payload))
    reader.end()
