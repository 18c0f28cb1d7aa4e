"""Arguments and results of the kernels; compiled and interpreted kernels use the same classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError


@dataclass(slots=True)
class Stamped:
    """Stored messages created from sent messages. The CRC-32C is computed with each state byte treated as 0."""

    data: bytearray
    count: int
    crc32c: int


@dataclass(slots=True)
class Scan:
    """The complete messages at the beginning of a range of stored messages.

    Args:
        end: The byte position after the last complete message.
        first_offset: Offset of the first message. Offsets and times (microseconds since 1970 UTC) are -1 if there is no message.
        crc32c: CRC-32C of the complete messages with each state byte treated as 0.
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
    """The stored messages that compaction retains.

    Args:
        entries: One index entry (log/segments/layout.py) per run of messages with consecutive offsets and equal times.
        oldest_null_us: Time of the oldest retained null payload, microseconds since 1970 UTC, or None.
    """

    data: memoryview
    entries: memoryview
    count: int
    dropped_count: int
    oldest_null_us: int | None


@dataclass(slots=True)
class Sends:
    """The boundaries of the sends in stored messages, as far as the messages prove these boundaries.

    Args:
        rows: One index entry of 32 bytes per run of messages with the same time.
        end: End position of the last message that has a row.
        until_offset: One past the offset of this message.
        fault: Why the rows end: `` at the end of the input or at the maximum number of rows; `cut` at a truncated message,
            `offset` at a message that does not have the next offset, `payload` at a message with a damaged payload.
    """

    rows: bytes
    end: int
    until_offset: int
    fault: str


@dataclass(slots=True)
class Matches:
    """The stored messages that match a filter.

    Args:
        data: The matching messages, contiguous; a view of the input if they are contiguous there.
        end: Byte position where the scan ended: the first message that was not examined or that stopped the scan.
        scanned_count: Number of examined messages, excluding a message that stopped the scan.
        failed_count: Number of examined messages whose values cannot be compared.
        last_offset: Offset of the last examined message; -1 if no message was examined.
        is_stopped: Whether the message at `end` stopped the scan because its values cannot be compared.
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

    Offsets are int32, one more than there are messages. A validity is a bitmap, lowest bit first, or None if no value is null.
    Columns that were not requested are None.

    Args:
        offset: int64.
        timestamp: int64, microseconds since 1970 UTC.
        state: uint8.
        checksum: uint32, the payload's CRC-32 as stored in the message.
        id_data: The ids of the messages as UUIDs of 36 characters, contiguous.
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
    """Contiguous header blocks; the offsets are int32, one more than there are messages."""

    offsets: bytearray
    data: bytearray


class VariableColumn(NamedTuple):
    """Values of variable length, in Arrow's layout.

    The offsets are int32, one more than there are values. The validity is a bitmap, lowest bit first; None if no value is null.
    """

    offsets: BytesLike
    data: BytesLike
    validity: BytesLike | None = None


HeaderType: TypeAlias = Literal["bool", "int8", "int16", "int32", "int64", "decimal", "float32", "float64", "string", "binary"]
"""The type of a column for one header."""


@dataclass(frozen=True, slots=True)
class WantedHeader:
    """A header to convert to a column; a decimal has a precision of 1 to 38 digits."""

    name: str
    type: HeaderType
    digits: int = 0


@dataclass(slots=True)
class HeaderColumn:
    """One header of many messages as a column, in Arrow's layout.

    Args:
        validity: Bitmap of messages with a value that fits the column; None if all messages have such a value.
        data: The values: 1 byte for a bool, 16 bytes for a decimal, otherwise the width of the type.
        misfit: Number of the first message whose value does not fit the column; -1 if all values fit.
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
        value_data: The values as stored bytes, or as VARIANT values, all with the metadata of an empty key list.
        repeated: uint8, 1 if a key repeats among a message's headers.
    """

    offsets: bytearray
    key_offsets: bytearray
    key_data: bytearray
    kinds: bytearray
    value_offsets: bytearray
    value_data: bytearray
    repeated: bytearray
