"""Summaries: files with header values of closed segments, which allow filters to skip segments.

Little-endian, `<base>.summary`:

    head     magic "HSSUMMAR" | version u32 | size_bytes u32 | base_offset u64 | generation u32 | entries u32
             | last_entry 32 bytes | messages u64 | headers u32 | check u32
    header   name_size u8 | name | flags u8 [| least value | greatest value] [| least text value | greatest text value]
             | listed u8 [| value ...] | hashes u8 [| bloom_bytes u32 | bloom]
    value    0 | 1 is_negative u8 magnitude 16 bytes | 2 float64 | 3 boolean u8 | 4 size u16 text
    flags    1 null or missing, 2 kinds unknown to the writer, 4 NaN, 8 floats, 16 false, 32 true, 64 numbers, 128 strings

size_bytes is the file's size; check is the CRC-32C of all other bytes. A summary is valid only for the segment whose index has
this generation, number of entries and last entry. After a compaction, an erasure or a rebuild of the index, the summary is
therefore ignored. `flags` describe the values of messages; least and greatest number follow if flag 64 is set, least and greatest
string if flag 128 is set. These limits can be beyond the values, because strings are truncated to 256 bytes; the greatest
string is value 0 if there is no limit. `listed` is the number of distinct values except null and NaN, 255 if the values are not
listed. `hashes` is 0 if there is no Bloom filter; core/codec/batch/stored/summaries.py describes the hash. States change, so they
are not summarized.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.buffer import Reader, Writer
from headstream.core.filters.value_summary import Bloom, Scalar, ValueSummary
from headstream.errors import DecodeError
from headstream.log.segments.files import ReadFiles
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, SUMMARY_SUFFIX, encode_entry, segment_path

SUMMARY_VERSION: Final = 1
MAX_SUMMARY_BYTES: Final = 16 << 20
"""Maximum size of a summary, bytes: more than eight headers with the largest Bloom filters need. A larger file is not read."""

_MAGIC: Final = b"HSSUMMAR"
_HEAD: Final = struct.Struct(f"<8sIIQII{INDEX_ENTRY_BYTES}sQI")
_CHECK: Final = struct.Struct("<I")
_SIZE_AT: Final = 12
_BODY_AT: Final = _HEAD.size + _CHECK.size
_FLOAT: Final = struct.Struct("<d")
_SHORT: Final = struct.Struct("<H")
_UNLISTED: Final = 255
_NULL, _OPAQUE, _NAN, _FLOATS, _FALSE, _TRUE, _NUMBERS, _TEXTS = (1 << bit for bit in range(8))
_NONE, _WHOLE, _FLOATING, _BOOLEAN, _TEXT = range(5)


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """The number of messages in a closed segment, and the values of its summarized headers by name."""

    messages_count: int
    headers: Mapping[str, ValueSummary]


def encode_summary(index: IndexReader, summary: SegmentSummary) -> bytes:
    """Return the content of a segment's summary."""
    writer = Writer()
    for name, values in summary.headers.items():
        writer.push_text8(name)
        _push_values(writer, values)
    body = writer.to_bytes()
    head = _HEAD.pack(
        _MAGIC,
        SUMMARY_VERSION,
        _BODY_AT + len(body),
        index.base_offset,
        index.generation,
        index.count,
        _last_entry(index),
        summary.messages_count,
        len(summary.headers),
    )
    return head + _CHECK.pack(_check(head, body)) + body


def _check(head: bytes | memoryview, body: bytes | memoryview) -> int:
    return crc32c(body, crc32c(head))


def _last_entry(index: IndexReader) -> bytes:
    return bytes(INDEX_ENTRY_BYTES) if index.last is None else encode_entry(index.last, index.base_offset)


def read_summary(directory: str, index: IndexReader, files: ReadFiles) -> SegmentSummary | None:
    """Return the summary of a closed segment; None if it is missing, damaged, of a newer version, or of other messages."""
    content = read_content(segment_path(directory, index.base_offset, SUMMARY_SUFFIX), files)
    if content is None or not is_whole_summary(content):
        return None
    _, version, _, base_offset, generation, entries, last, messages, headers = _HEAD.unpack_from(content)
    described = (base_offset, generation, entries, last)
    if version != SUMMARY_VERSION or described != (index.base_offset, index.generation, index.count, _last_entry(index)):
        return None
    reader = Reader(content, _BODY_AT)
    try:
        return SegmentSummary(messages, {reader.pull_text8("a name"): _pull_values(reader) for _ in range(headers)})
    except DecodeError:
        return None


def is_whole_summary(content: bytes | bytearray | memoryview) -> bool:
    """Return whether bytes are the complete content of a summary of any version, according to size and check."""
    view = memoryview(content)
    if len(view) < _BODY_AT or bytes(view[: len(_MAGIC)]) != _MAGIC:
        return False
    found = _CHECK.unpack_from(view, _SIZE_AT)[0], _CHECK.unpack_from(view, _HEAD.size)[0]
    return found == (len(view), _check(view[: _HEAD.size], view[_BODY_AT:]))


def read_content(path: str, files: ReadFiles) -> memoryview | None:
    """Return the content of a summary file; empty if the file is too large for a summary, None if it is missing."""
    file = files.open_read(path)
    if file is None:
        return None
    try:
        size_bytes = file.size_bytes()
        content = memoryview(bytearray(size_bytes if size_bytes <= MAX_SUMMARY_BYTES else 0))
        return content[: file.read_into(content, 0)]
    finally:
        file.close()


def _push_values(writer: Writer, values: ValueSummary) -> None:
    writer.push_u8(
        values.has_null * _NULL
        | values.has_opaque * _OPAQUE
        | values.has_nan * _NAN
        | values.has_floats * _FLOATS
        | (False in values.booleans) * _FALSE
        | (True in values.booleans) * _TRUE
        | (values.numbers is not None) * _NUMBERS
        | (values.texts is not None) * _TEXTS
    )
    for bound in (*(values.numbers or ()), *(values.texts or ())):
        _push_value(writer, bound)
    writer.push_u8(_UNLISTED if values.values is None else len(values.values))
    for value in values.values or ():
        _push_value(writer, value)
    writer.push_u8(0 if values.bloom is None else values.bloom.hashes)
    if values.bloom is not None:
        writer.push_u32(len(values.bloom.bits))
        writer.push_bytes(values.bloom.bits)


def _pull_values(reader: Reader) -> ValueSummary:
    flags = reader.pull_u8("the flags")
    numbers = (_pull_value(reader), _pull_value(reader)) if flags & _NUMBERS else None
    texts = (_pull_value(reader), _pull_value(reader)) if flags & _TEXTS else None
    listed = reader.pull_u8("the value count")
    values = None if listed == _UNLISTED else tuple(_pull_value(reader) for _ in range(listed))
    hashes = reader.pull_u8("the hash count")
    bloom = Bloom(reader.pull_view(reader.pull_u32("the Bloom filter's size"), "a Bloom filter"), hashes) if hashes else None
    return ValueSummary(
        has_null=bool(flags & _NULL),
        has_opaque=bool(flags & _OPAQUE),
        booleans=frozenset(value for value, flag in ((False, _FALSE), (True, _TRUE)) if flags & flag),
        numbers=numbers,  # type: ignore[arg-type]  # as they were written: the file is whole
        has_nan=bool(flags & _NAN),
        texts=texts,  # type: ignore[arg-type]
        values=values,  # type: ignore[arg-type]
        bloom=bloom,
        has_floats=bool(flags & _FLOATS),
    )


def _push_value(writer: Writer, value: Scalar | None) -> None:
    if value is None:
        writer.push_u8(_NONE)
    elif isinstance(value, bool):
        writer.push_u8(_BOOLEAN)
        writer.push_u8(value)
    elif isinstance(value, int):
        writer.push_u8(_WHOLE)
        writer.push_u8(value < 0)
        writer.push_bytes(abs(value).to_bytes(16, "little"))
    elif isinstance(value, float):
        writer.push_u8(_FLOATING)
        writer.push_bytes(_FLOAT.pack(value))
    else:
        writer.push_u8(_TEXT)
        writer.push_bytes(_SHORT.pack(len(value)) + value)


def _pull_value(reader: Reader) -> Scalar | None:
    at, kind = reader.at, reader.pull_u8("the value type")
    if kind == _NONE:
        return None
    if kind == _WHOLE:
        is_negative = reader.pull_u8("a sign")
        size = int.from_bytes(reader.pull_bytes(16, "a number"), "little")
        return -size if is_negative else size
    if kind == _FLOATING:
        number: float = reader.pull_struct(_FLOAT, "a float")[0]
        return number
    if kind == _BOOLEAN:
        return reader.pull_u8("a boolean") == 1
    if kind == _TEXT:
        return reader.pull_bytes(reader.pull_struct(_SHORT, "the string size")[0], "a string")
    raise DecodeError(f"unknown value type {kind}", at)
