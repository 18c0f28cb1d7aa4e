"""Fault numbers of batches: a kernel returns a fault as a negative number, and its caller raises an error.

faults.pxd holds the same numbers for compiled code.
"""

from __future__ import annotations

from typing import Final

from headstream.errors import DecodeError

MESSAGE_CUT: Final = 1
HEADERS_CUT: Final = 2
PAYLOAD_CUT: Final = 3
HEADER_CUT: Final = 4
KEY_CUT: Final = 5
VALUE_CUT: Final = 6
VALUE_WIDTH: Final = 7
KEY_LENGTH: Final = 8
KEY_TEXT: Final = 9
VALUE_TEXT: Final = 10
VALUE_BOOL: Final = 11
KIND_ZERO: Final = 12
CHECKSUM: Final = 13
KEY_SIZE: Final = 20
KIND: Final = 21
VALUE_SIZE: Final = 22
VALUES_TOTAL: Final = 23
PAYLOAD_EMPTY: Final = 24
PAYLOADS_TOTAL: Final = 25
OFFSETS: Final = 30
RESERVED: Final = 31

_TEXTS: Final = {
    MESSAGE_CUT: "a message is cut short",
    HEADERS_CUT: "a message's headers are cut short",
    PAYLOAD_CUT: "a message's payload is cut short",
    HEADER_CUT: "a header is cut short",
    KEY_CUT: "a header key is cut short",
    VALUE_CUT: "a header value is cut short",
    VALUE_WIDTH: "a header value does not have the width of its kind",
    KEY_LENGTH: "a header key must have 1 to 255 bytes",
    KEY_TEXT: "a header key is not UTF-8",
    VALUE_TEXT: "a string header value is not UTF-8",
    VALUE_BOOL: "a bool header value is not 0 or 1",
    KIND_ZERO: "a header has the invalid kind 0",
    CHECKSUM: "a payload does not match its checksum",
}


def decode_error(code: int, at: int, need: int, have: int, where: str | None = None) -> DecodeError:
    """Return the error for a fault (a number up to CHECKSUM); `need` and `have` are bytes, `where` the message or header."""
    if code <= VALUE_WIDTH:
        return DecodeError(_TEXTS[code], at, need, have, where=where)
    return DecodeError(_TEXTS[code], at, where=where)
