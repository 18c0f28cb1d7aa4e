"""What the kernels return: the same classes whether they run compiled or interpreted."""

from __future__ import annotations

from dataclasses import dataclass

from headstream.errors import DecodeError

__all__ = ["Columns", "Scan", "Stamped"]


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
