"""What the kernels return and take: the same classes whether they run compiled or interpreted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from headstream.codec.buffer import BytesLike
from headstream.errors import DecodeError

__all__ = [
    "Blocks",
    "Columns",
    "HeaderColumn",
    "HeaderLists",
    "HeaderType",
    "Kept",
    "Scan",
    "Sends",
    "Stamped",
    "VariedColumn",
    "WantedHeader",
]


@dataclass(slots=True)
class Stamped:
    """Stored messages made of sent ones.

    Args:
        data: The stored messages, back to back.
        count: How many there are.
        crc32c: CRC-32C of `data` with each message's state byte taken as 0.
    """

    data: bytearray
    count: int
    crc32c: int


@dataclass(slots=True)
class Scan:
    """What a range of stored messages holds, up to the first that is not whole.

    Args:
        count: Messages that are whole.
        end: The byte position after the last whole one.
        first_offset: Offset of the first one; -1 where there is none, as in the following three.
        last_offset: Offset of the last one.
        first_timestamp_us: Time of the first one, microseconds since 1970 UTC.
        last_timestamp_us: Time of the last one.
        crc32c: CRC-32C of the whole ones with each message's state byte taken as 0.
        fault: Why the next one is not whole; None where the range ends with a whole one.
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
class Kept:
    """What is left of stored messages when those go that others have taken the place of.

    Args:
        data: The messages that stay, back to back, in order.
        entries: An index entry of 32 bytes, as segments.layout draws it, for each run of them whose offsets follow each
            other and whose times are the same.
        count: How many stay.
        dropped_count: How many go.
        oldest_null_us: The time of the oldest null payload that stays for a while, or None where there is none.
    """

    data: memoryview
    entries: memoryview
    count: int
    dropped_count: int
    oldest_null_us: int | None


@dataclass(slots=True)
class Sends:
    """What stored messages prove about the sends they came in.

    Args:
        rows: An index entry of 32 bytes for each run of messages of the same time, back to back.
        end: The byte after the last of them.
        until_offset: One past its offset.
        fault: Why they end there: `` at the end of what was given, or of as many as are made at once; `cut`, `offset`,
            `payload` at a message that is cut short, has not the offset that follows, or a damaged payload.
    """

    rows: bytes
    end: int
    until_offset: int
    fault: str


@dataclass(slots=True)
class Columns:
    """Stored messages as columns: buffers laid out as Arrow has them, little-endian.

    Offsets are int32, one more than there are messages. A validity is a bitmap, lowest bit first, or None
    where every value is there. What was not asked for is None.

    Args:
        count: Messages.
        offset: int64.
        timestamp: int64, microseconds since 1970 UTC.
        state: uint8.
        checksum: uint32, the CRC-32 each message carries of its payload.
        id_data: The id of each message as a UUID of 36 characters, back to back.
        key_offsets: Where each key begins in key_data.
        key_data: The keys, back to back.
        key_validity: Which messages have a key.
        payload_offsets: Where each payload begins in payload_data.
        payload_data: The payloads, back to back.
        payload_validity: Which payloads are not null.
        headers_offsets: Where each message's headers begin in headers_data.
        headers_data: Header blocks without the reserved headers, or VARIANT values.
        metadata_offsets: Where each message's VARIANT metadata begins in metadata_data.
        metadata_data: VARIANT metadata.
        repeated: uint8, 1 where some key occurs more than once among a message's headers.
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
    """Header blocks back to back.

    Args:
        offsets: int32, one more than there are messages.
        data: The blocks.
    """

    offsets: bytearray
    data: bytearray


class VariedColumn(NamedTuple):
    """Values of varied lengths, laid out as Arrow has them.

    Args:
        offsets: int32, one more than there are values.
        data: The values.
        validity: Bitmap, lowest bit first: which are not null; all if None.
    """

    offsets: BytesLike
    data: BytesLike
    validity: BytesLike | None = None


HeaderType: TypeAlias = Literal["bool", "int8", "int16", "int32", "int64", "decimal", "float32", "float64", "string", "binary"]
"""What a header's values become in a column of their own."""


@dataclass(frozen=True, slots=True)
class WantedHeader:
    """A header that gets a column of its own.

    Args:
        name: Its key.
        type: What its values become.
        digits: Of a decimal, how many digits at most: 1 to 38.
    """

    name: str
    type: HeaderType
    digits: int = 0


@dataclass(slots=True)
class HeaderColumn:
    """One header of many messages as a column, laid out as Arrow has it.

    Args:
        validity: Which messages have a value that fits, as a bitmap; None where all have.
        offsets: Of strings and bytes, where each begins in `data`; int32.
        data: The values: a byte for a bool, 16 for a decimal, otherwise as wide as the type.
    """

    validity: bytearray | None
    offsets: bytearray | None
    data: bytearray


@dataclass(slots=True)
class HeaderLists:
    """The headers of many messages as lists, laid out as Arrow has them.

    Args:
        offsets: Where each message's headers begin among all of them, int32.
        key_offsets: Where each key begins in key_data.
        key_data: The keys, back to back.
        kinds: uint8, the kind of each value.
        value_offsets: Where each value begins in value_data.
        value_data: The values: their bytes as stored, or VARIANT values, which all have the metadata of no keys.
        repeated: uint8, 1 where some key occurs more than once among a message's headers.
    """

    offsets: bytearray
    key_offsets: bytearray
    key_data: bytearray
    kinds: bytearray
    value_offsets: bytearray
    value_data: bytearray
    repeated: bytearray
