"""The kinds of header values: codes, names, widths, and how their bytes are decoded.

    code  kind      bytes      code  kind      bytes      code  kind      bytes
    1     raw       any        7     int64     8          13    uint128   16
    2     string    UTF-8      8     int128    16         14    float32   4 (IEEE 754)
    3     bool      1 (0, 1)   9     uint8     1          15    float64   8 (IEEE 754)
    4     int8      1          10    uint16    2          64    null      0   beyond Iggy
    5     int16     2          11    uint32    4          65    char      2   beyond Iggy: one UTF-16 code unit
    6     int32     4          12    uint64    8

Codes from 256 occur in the KIP-82 dialect only: 256 + n is a value whose type code n is not defined by KIP-82. Such a value can
be read as bytes, and is forwarded unchanged, but only in the KIP-82 dialect.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from headstream.errors import HeaderError

FOREIGN_KINDS: Final = range(256 + 10, 512)
"""Kinds of values that exist only in KIP-82: 256 + type code."""


class HeaderKind(enum.IntEnum):
    """The kind of a header's value; codes 1 to 15 are as in Iggy."""

    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15
    NULL = 64
    CHAR = 65


KIND_WIDTHS: Final[dict[int, int]] = {
    HeaderKind.BOOL: 1,
    HeaderKind.INT8: 1,
    HeaderKind.INT16: 2,
    HeaderKind.INT32: 4,
    HeaderKind.INT64: 8,
    HeaderKind.INT128: 16,
    HeaderKind.UINT8: 1,
    HeaderKind.UINT16: 2,
    HeaderKind.UINT32: 4,
    HeaderKind.UINT64: 8,
    HeaderKind.UINT128: 16,
    HeaderKind.FLOAT32: 4,
    HeaderKind.FLOAT64: 8,
    HeaderKind.NULL: 0,
    HeaderKind.CHAR: 2,
}
KIND_NAMES: Final[dict[int, str]] = {kind.value: kind.name.lower() for kind in HeaderKind}
FLOAT_LAYOUTS: Final = {HeaderKind.FLOAT32: struct.Struct("<f"), HeaderKind.FLOAT64: struct.Struct("<d")}

PlainValue: TypeAlias = None | bool | int | float | str | bytes


def parse_kind(name: str) -> int:
    """Return the code of a kind from its name (see HeaderValue.kind_name)."""
    code = _CODES.get(name)
    if code is not None:
        return code
    match = _NUMBERED.fullmatch(name)
    if match is None:
        raise HeaderError(f"{name[:40]!r} is not a header kind", advice=f"Use one of {' '.join(KIND_NAMES.values())}")
    number = int(match[2])
    if match[1] == "kip82":
        if number + 256 not in FOREIGN_KINDS:
            raise HeaderError(f"{name} must be a type code that KIP-82 leaves undefined", advice="Use 10 to 255")
        return number + 256
    if number in KIND_NAMES:
        raise HeaderError(f"{name} is the kind {KIND_NAMES[number]}", advice="Use that name")
    if not 1 <= number <= 255:
        raise HeaderError(f"a header kind must be a number from 1 to 255, not {number}")
    return number


_CODES: Final = {name: code for code, name in KIND_NAMES.items()}
_NUMBERED: Final = re.compile(r"(unknown|kip82)\(([0-9]{1,3})\)", re.ASCII)


def _read_signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _read_unsigned(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _read_float32(data: bytes) -> float:
    number: float = FLOAT_LAYOUTS[HeaderKind.FLOAT32].unpack(data)[0]
    return number


def _read_float64(data: bytes) -> float:
    number: float = FLOAT_LAYOUTS[HeaderKind.FLOAT64].unpack(data)[0]
    return number


READERS: Final[dict[int, Callable[[bytes], PlainValue]]] = {
    HeaderKind.STRING: bytes.decode,
    HeaderKind.BOOL: lambda data: data != b"\x00",
    **dict.fromkeys(range(HeaderKind.INT8, HeaderKind.INT128 + 1), _read_signed),
    **dict.fromkeys(range(HeaderKind.UINT8, HeaderKind.UINT128 + 1), _read_unsigned),
    HeaderKind.FLOAT32: _read_float32,
    HeaderKind.FLOAT64: _read_float64,
    HeaderKind.NULL: lambda data: None,
    HeaderKind.CHAR: lambda data: chr(int.from_bytes(data, "little")),
}
"""Kind -> decoder of its value; the value of any other kind is its bytes."""
