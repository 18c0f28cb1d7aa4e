"""Byte positions within a stored message, a sent message, and an entry of a segment's index.

    stored   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
             | headers_size u32 | headers | payload_size u32 | payload
    sent     id u128 | headers_size u32 | headers | payload_size u32 | payload
    entry    position u32 | size u32 | relative offset u32 | count u32 | timestamp u64 | crc32c u32 | check u32

OVERHEAD is the size of a stored message without headers and payload, SENT_OVERHEAD the size of a sent message without them.
layout.pxd holds the same numbers for compiled code. The checks below fail the import if a field does not begin where the previous
field ends.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Final

STATE: Final = 8
TIMESTAMP: Final = 9
ID: Final = 17
CHECKSUM: Final = 33
HEADERS_SIZE: Final = 37
HEADERS: Final = 41
OVERHEAD: Final = 45

SENT_HEADERS_SIZE: Final = 16
SENT_HEADERS: Final = 20
SENT_OVERHEAD: Final = 24

ENTRY_SIZE: Final = 4
ENTRY_OFFSET: Final = 8
ENTRY_COUNT: Final = 12
ENTRY_TIMESTAMP: Final = 16
ENTRY_CHECKSUM: Final = 24
ENTRY_CHECK: Final = 28
ENTRY_BYTES: Final = 32


def _check(fields: str, *positions: int) -> None:
    """Check where the fields of a layout, formats of the struct module, begin, from the second one on, and the last one ends."""
    ends = tuple(accumulate(struct.calcsize(f"<{each}") for each in fields.split()))
    if positions != ends:
        raise AssertionError(f"the fields {fields} end at {ends}, not at {positions}")


# A message without headers: the size of its payload follows at once.
_check("Q B Q 16s I I I", STATE, TIMESTAMP, ID, CHECKSUM, HEADERS_SIZE, HEADERS, OVERHEAD)
_check("16s I I", SENT_HEADERS_SIZE, SENT_HEADERS, SENT_OVERHEAD)
_check("I I I I Q I I", ENTRY_SIZE, ENTRY_OFFSET, ENTRY_COUNT, ENTRY_TIMESTAMP, ENTRY_CHECKSUM, ENTRY_CHECK, ENTRY_BYTES)
