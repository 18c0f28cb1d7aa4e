"""Arguments and results of the kernels: the same classes for compiled and interpreted kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError


@dataclass(slots=True)
class Stamped:
    """Stored messages created from sent messages; each message's state byte counts as 0 in the CRC-32C."""

    data: bytearray
    count: int
    crc32c: int


@dataclass(slots=True)
class Scan:
    """The complete messages at the begin of a range of stored messages.

    Args:
        end: The byte position after the last complete message.
        first_offset: Offset of the first message, or -1 if there is none; so are the two times, microseconds since 1970 UTC.
        crc32c: CRC-32C of the complete messages with each state byte taken as 0.
        fault: The fault of the next message; None if the range ends with a complete message.
    """

    count: int
    end: int
    first_offset: int
    last_offset: int
    first_timestamp_us: int
    last_timestamp_us: int
    crc32c: int
    fault: DecodeError | None


@dataclass(slots=True)
class Compacted:
    """The stored messages that a compaction retains.

    Args:
        entries: An index entry of 32 bytes (log/segments/layout.py) for each run of messages with consecutive offsets
            and equal times.
        oldest_null_us: The time of the oldest retained null payload, or None.
    """

    data: memoryview
    entries: memoryview
    count: int
    dropped_count: int
    oldest_null_us: int | None


@dataclass(slots=True)
class Sends:
    """The boundaries of the sends of stored messages, as far as the messages prove them.

    Args:
        rows: An index entry of 32 bytes for each run of messages of the same time, back to back.
        end: The byte after the last of them.
        until_offset: One past its offset.
        fault: Why the rows end: `` at the end of the input or at the maximum number of rows; `cut`, `offset`, `payload` at
            a message that is cut short, does not have the next offset, or has a damaged payload.
    """

    rows: bytes
    end: int
    until_offset: int
    fault: str


@dataclass(slots=True)
class Matches:
    """The stored messages that match a filter.

    Args:
        data: The matching messages, back to back; a view of the input if it is one piece of it.
        end: The byte position where the scan ended: of the first message that was not examined, or that failed.
        scanned_count: The number of messages examined, without a message that stopped the scan.
        failed_count: The number of them that compare incomparable values.
        last_offset: The offset of the last message examined; -1 for none.
        is_stopped: Whether the message at `end` stopped the scan, because its values cannot be compared.
    """

    data: memoryview
    count: int
    end: int
    scanned_count: int
    failed_count: int
    last_offset: int
    is_stopped: bool


@dataclass(slots=True)
class Columns:
    """Stored messages as columns: buffers in Arrow's layout, little-endian.

    Offsets are int32, one more than messages. A validity is a bitmap, lowest bit first, or None if no value
    is null. Columns that were not requested are None.

    Args:
        offset: int64.
        timestamp: int64, microseconds since 1970 UTC.
        state: uint8.
        checksum: uint32, the CRC-32 each message carries of its payload.
        id_data: The id of each message as a UUID of 36 characters, back to back.
        headers_data: Header blocks without the reserved headers, or VARIANT values.
        repeated: uint8, 1 if a key repeats among a message's headers.
    """

    count: int
    offset: bytearray
    timestamp: bytearray
    state: bytearray
    checksum: bytearray
    id_data: bytearray | None
    key_offsets: bytearray
    key_data: bytearray
    key_validity: bytearray | None
    payload_offsets: bytearray
    payload_data: bytearray
    payload_validity: bytearray | None
    headers_offsets: bytearray | None
    headers_data: bytearray | None
    metadata_offsets: bytearray | None
    metadata_data: bytearray | None
    repeated: bytearray | None


class Blocks(NamedTuple):
    """Header blocks back to back; the offsets are int32, one more than messages."""

    offsets: bytearray
    data: bytearray


class VariableColumn(NamedTuple):
    """Values of variable length, in Arrow's layout.

    The offsets are int32, one more than values; the validity is a bitmap, lowest bit first, None for all.
    """

    offsets: BytesLike
    data: BytesLike
    validity: BytesLike | None = None


HeaderType: TypeAlias = Literal["bool", "int8", "int16", "int32", "int64", "decimal", "float32", "float64", "string", "binary"]
"""The type of a header's own column."""


@dataclass(frozen=True, slots=True)
class WantedHeader:
    """A header that gets a column; a decimal has at most 1 to 38 digits."""

    name: str
    type: HeaderType
    digits: int = 0


@dataclass(slots=True)
class HeaderColumn:
    """One header of many messages as a column, in Arrow's layout.

    Args:
        validity: Bitmap: which messages have a value that fits; None for all.
        data: The values: a byte for a bool, 16 for a decimal, otherwise the width of the type.
        misfit: The first message whose header has a value that does not fit; -1 for none.
    """

    validity: bytearray | None
    offsets: bytearray | None
    data: bytearray
    misfit: int = -1


@dataclass(slots=True)
class HeaderLists:
    """The headers of many messages as lists, in Arrow's layout; offsets are int32.

    Args:
        kinds: uint8, the kind of each value.
        value_data: The values: their bytes as stored, or VARIANT values, all with the metadata of no keys.
        repeated: uint8, 1 if a key repeats among a message's headers.
    """

    offsets: bytearray
    key_offsets: bytearray
    key_data: bytearray
    kinds: bytearray
    value_offsets: bytearray
    value_data: bytearray
    repeated: bytearray
