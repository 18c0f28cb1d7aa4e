"""What the kernels return: the same classes whether they run compiled or interpreted."""

from __future__ import annotations

from dataclasses import dataclass

from headstream.errors import DecodeError

__all__ = ["Scan", "Stamped"]


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
