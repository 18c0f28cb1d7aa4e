"""Names and byte layouts of a log's files.

    DIR/
      headstream.json       the marker: {"format": 1, "identity": "<uuid>", "created_us": <microseconds>}
      headstream.lock       locked (flock) by the one writing process; contains its process id
      catalog.sqlite        streams, topics, partitions (log/catalog/catalog.py)
      streams/<stream>/<topic>/<partition>/     numbered; numbers are never reused; topic 0 is being removed
        00000000000000000000.log                only stored messages, contiguous; named by the first offset
        00000000000000000000.index              a header, then one entry per send
        00000000000000000000-1.log              the first rewrite of a .log; the index names the valid generation
        00000000000000000000.summary            header summary of a closed segment
        00000000000000000040.start              empty; messages before the offset in the name are deleted
        (log/upkeep/prefix_removal.py)
        producers                               producers' newest batches (log/partition/producer_states.py)
      streams/<stream>/<topic>/offsets/         consumer offsets (log/partition/offsets.py)
      staged/ inbox/                            batches to be committed together (log/staged/staging.py)

Index, little-endian, 32 bytes per entry, so that no entry crosses a page boundary:

    header   magic "HSINDEX\\0" | version u32 | entry_size u32 | base_offset u64 | generation u32 | check u32
    entry    byte_position u32 | size_bytes u32 | relative_offset u32 | count u32 | timestamp_us u64 | crc32c u32 | check u32
    seal     end_position u32  | zero u32       | relative_until u32  | zero u32  | zero u64         | zero u32   | check u32

In version 1, no offset is missing and generation is 0; the seal is written once the segment is closed and the next segment
exists. Version 2 is version 3 without a seal, written by older versions of Headstream and by rebuilds after compaction has
removed the segment's last messages. Version 3 is the index of a compacted segment: the entries are runs of messages with
consecutive offsets; between two entries, and after the last entry, offsets can be missing. Version 4 has the same layout, for a
segment from which marked messages were removed, but which was not compacted by key. generation identifies the .log; 0 is the
unnumbered .log. The seal follows the last entry: the .log's size, and the offset at which the next segment starts. The seal
distinguishes a truncated segment, or a missing next segment, from removed messages. relative_offset is relative to base_offset.
All messages of an entry have the entry's timestamp; timestamps never decrease within a partition. The field crc32c is the CRC-32C
of the entry's bytes in the .log, with each state byte treated as 0. The field check is the CRC-32C of the preceding bytes of the
header or entry; its initial value is the lower 32 bits of base_offset, so an entry is invalid in the index of another segment.

The log start offset of a partition is the greater of the greatest .start and the first offset of the oldest segment.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from headstream.core.codec.batch.layout import positions
from headstream.core.codec.batch.stored.scan import crc32c

FORMAT_VERSION: Final = 1
"""The format version of a log's directory that this version of Headstream writes."""
INDEX_VERSION: Final = 4
"""The newest index version that this version of Headstream reads: a segment from which marked messages were removed."""
COMPACTED_VERSION: Final = 3
"""A compacted segment's index; segments that were never rewritten have version 1."""
UNSEALED_VERSION: Final = 2
"""A compacted segment's index without a seal."""
MAX_BASE_OFFSET: Final = (1 << 63) - (1 << 32)
"""Maximum first offset of a segment: its offsets, up to 2^32 more, stay signed 64-bit numbers."""

MARKER_NAME: Final = "headstream.json"
LOCK_NAME: Final = "headstream.lock"
CATALOG_NAME: Final = "catalog.sqlite"
STREAMS_NAME: Final = "streams"
STAGED_NAME: Final = "staged"
INBOX_NAME: Final = "inbox"
GROUPS_NAME: Final = "groups"
"""The directory of consumer groups' lock files; the process that reads for a group holds the group's lock."""
OFFSETS_NAME: Final = "offsets"
PRODUCERS_NAME: Final = "producers"
"""The file with the state of a partition's producers (log/partition/producer_states.py)."""
SYNC_FAILED_NAME: Final = "sync-failed"
"""Marker of a failed sync: cached data may be missing from the disk, and is written again."""
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
REPLACING_SUFFIX: Final = ".index-new"
"""Suffix of an .index until the file is complete."""
DROPPED_SUFFIX: Final = ".log.dropped"
"""Suffix of a .log while retention removes its segment."""
START_SUFFIX: Final = ".start"
"""Suffix of an empty file whose name is the offset before which all messages are deleted."""
SUMMARY_SUFFIX: Final = ".summary"
"""Suffix of a closed segment's header summary; filters read a segment without a summary."""

_MAGIC: Final = b"HSINDEX\0"
_HEADER: Final = struct.Struct("<8sIIQII")
_ENTRY: Final = struct.Struct("<IIIIQII")
_CHECK: Final = struct.Struct("<I")
INDEX_HEADER_BYTES: Final = _HEADER.size
INDEX_ENTRY_BYTES: Final = _ENTRY.size
# A numbered batch in the producers file.
PRODUCER_RECORD: Final = struct.Struct("<Q Q Q Q I I I H 14x I")
_, PRODUCER_BATCH, PRODUCER_OFFSET, PRODUCER_TIME, PRODUCER_SEQUENCE, PRODUCER_COUNT, PRODUCER_STORED, PRODUCER_EPOCH, *_rest = (
    positions(PRODUCER_RECORD.format)
)
PRODUCER_CHECK, PRODUCER_BYTES = positions(PRODUCER_RECORD.format)[-2:]
_DIGITS: Final = 20
_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.index")
_START_NAME: Final = re.compile(r"(\d{20})\.start")
_LOG_NAME: Final = re.compile(r"(\d{20})(?:-(\d+))?\.log")


class IndexHeader(NamedTuple):
    """The header of an index file."""

    version: int
    entry_size: int
    base_offset: int
    generation: int = 0

    @property
    def is_compacted(self) -> bool:
        """Whether offsets can be missing."""
        return self.version > 1

    @property
    def is_by_key(self) -> bool:
        """Whether the segment was compacted by key."""
        return self.version in (UNSEALED_VERSION, COMPACTED_VERSION)


class IndexEntry(NamedTuple):
    """The position of one send in its segment."""

    byte_position: int
    size_bytes: int
    first_offset: int
    messages_count: int
    timestamp_us: int
    crc32c: int

    @property
    def end_position(self) -> int:
        """End of the send's bytes, exclusive."""
        return self.byte_position + self.size_bytes

    @property
    def end_offset(self) -> int:
        """End of the send's offsets, exclusive."""
        return self.first_offset + self.messages_count


class Seal(NamedTuple):
    """The recorded end of a segment."""

    end_position: int
    until_offset: int


def encode_header(base_offset: int, generation: int | None = None, *, is_sealed: bool = True, is_by_key: bool = True) -> bytes:
    """Return the header of a new index file.

    Args:
        generation: Generation of the .log for a rewritten segment; None if the segment was never rewritten.
        is_sealed: Whether a rewritten segment's index ends with a seal.
        is_by_key: Whether the segment was rewritten by a compaction.
    """
    rewritten = UNSEALED_VERSION if not is_sealed else COMPACTED_VERSION if is_by_key else INDEX_VERSION
    version = 1 if generation is None else rewritten
    body = _HEADER.pack(_MAGIC, version, INDEX_ENTRY_BYTES, base_offset, generation or 0, 0)[: -_CHECK.size]
    return body + _CHECK.pack(crc32c(body, base_offset & 0xFFFFFFFF))


def decode_header(data: bytes | memoryview) -> IndexHeader | None:
    """Return the header in the first 32 bytes of an index file; None if invalid."""
    if len(data) < INDEX_HEADER_BYTES:
        return None
    magic, version, entry_size, base_offset, generation, check = _HEADER.unpack_from(data)
    if magic != _MAGIC or check != crc32c(data[: INDEX_HEADER_BYTES - _CHECK.size], base_offset & 0xFFFFFFFF):
        return None
    return IndexHeader(version, entry_size, base_offset, generation)


def encode_entry(entry: IndexEntry, base_offset: int) -> bytes:
    """Return the bytes of an entry in the index of the segment that starts at `base_offset`."""
    position, size, first, count, timestamp, checksum = entry
    body = _ENTRY.pack(position, size, first - base_offset, count, timestamp, checksum, 0)[: -_CHECK.size]
    return body + _CHECK.pack(crc32c(body, base_offset & 0xFFFFFFFF))


def encode_seal(seal: Seal, base_offset: int) -> bytes:
    """Return the bytes of the seal in the index of the segment that starts at `base_offset`."""
    body = _ENTRY.pack(seal.end_position, 0, seal.until_offset - base_offset, 0, 0, 0, 0)[: -_CHECK.size]
    return body + _CHECK.pack(crc32c(body, base_offset & 0xFFFFFFFF))


def decode_seal(data: bytes | bytearray | memoryview, base_offset: int) -> Seal | None:
    """Decode a seal from its 32 bytes; None if the bytes are not a valid seal."""
    position, size, relative, count, timestamp, checksum, check = _ENTRY.unpack(data)
    if size or count or timestamp or checksum or relative == 0:
        return None
    if check != crc32c(data[: INDEX_ENTRY_BYTES - _CHECK.size], base_offset & 0xFFFFFFFF):
        return None
    return Seal(position, base_offset + relative)


def peek_entry(data: bytes | bytearray | memoryview, base_offset: int) -> tuple[int, int]:
    """Return an entry's first offset and timestamp, unchecked, for a search that then decodes the found entry."""
    _, _, relative, _, timestamp, _, _ = _ENTRY.unpack(data)
    return base_offset + relative, timestamp


def sum_counts(entries: memoryview) -> int:
    """Return the number of messages in complete entries, unchecked."""
    return sum(struct.unpack(f"<{len(entries) // 4}I", entries)[3::8])


def decode_entry(data: bytes | bytearray | memoryview, base_offset: int) -> IndexEntry | None:
    """Decode an entry from its 32 bytes; None if the bytes are invalid (torn, altered or from a different file)."""
    position, size, relative, count, timestamp, checksum, check = _ENTRY.unpack(data)
    if count == 0 or size == 0 or check != crc32c(data[: INDEX_ENTRY_BYTES - _CHECK.size], base_offset & 0xFFFFFFFF):
        return None
    return IndexEntry(position, size, base_offset + relative, count, timestamp, checksum)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Return the path of a segment's file in its partition's directory."""
    return f"{directory}/{base_offset:020d}{suffix}"


def log_suffix(generation: int) -> str:
    """Return the suffix, after the base offset, of the .log with a generation."""
    return f"-{generation}{LOG_SUFFIX}" if generation else LOG_SUFFIX


def log_offsets(names: list[str]) -> list[tuple[int, int]]:
    """Return base offset and generation of each .log among a partition's file names, ascending."""
    found = (match for name in names if (match := _LOG_NAME.fullmatch(name)) and int(match[1]) <= MAX_BASE_OFFSET)
    return sorted((int(match[1]), int(match[2] or 0)) for match in found)


def base_offsets(names: list[str]) -> list[int]:
    """Return the base offsets of a partition's segments, ascending. A segment exists from the creation of its index until its
    .log is renamed to `.log.dropped`.
    """
    dropped = {name.removesuffix(DROPPED_SUFFIX) for name in names if name.endswith(DROPPED_SUFFIX)}
    found = (match[1] for name in names if (match := _SEGMENT_NAME.fullmatch(name)) and match[1] not in dropped)
    return sorted(base for base in map(int, found) if base <= MAX_BASE_OFFSET)


def start_offsets(names: list[str]) -> list[int]:
    """Return the offsets of the .start files among a partition's file names, ascending; only the last offset is valid."""
    return sorted(int(match[1]) for name in names if (match := _START_NAME.fullmatch(name)))


def unindexed_logs(names: list[str]) -> dict[int, list[int]]:
    """Return the generations of the .log files without an index, by base offset, among a partition's file names.

    A writer creates a .log before its index, and a segment that is being dropped has no file with either name. For all segments
    except the newest, a missing index therefore means that the index was lost.
    """
    # Called at each listing, mostly with an empty result: names are compared before they are parsed.
    known = {name[:_DIGITS] for name in names if name.endswith((INDEX_SUFFIX, DROPPED_SUFFIX))}
    lone = [name for name in names if name.endswith(LOG_SUFFIX) and name[:_DIGITS] not in known]
    found: dict[int, list[int]] = {}
    for base, generation in log_offsets(lone):
        found.setdefault(base, []).append(generation)
    return found


def topic_directory(root: str, stream_number: int, topic_number: int) -> str:
    """Return the directory of a topic, which contains one directory per partition, named by partition number."""
    return f"{root}/{STREAMS_NAME}/{stream_number}/{topic_number}"
