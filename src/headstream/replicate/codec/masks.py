"""Column masks: the columns of a table that changed (changeMask) or are in the message (columnMask).

A mask of any width has one bit per column, by the column's ordinal in the table:

    little-endian   byte 0 has ordinals 1-8, its bit 0 is ordinal 1; byte 1 has ordinals 9-16; ...
    big-endian      the same bytes in reverse
    JSON            the big-endian bytes as a hexadecimal number, whose last digit has ordinals 1-4

In this package a mask is little-endian bytes unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from headstream.errors import DecodeError, InvalidInputError

ByteOrder = Literal["little", "big"]


def decode_mask(mask: bytes, order: ByteOrder = "little") -> frozenset[int]:
    """Return the ordinals (from 1) whose bits are set."""
    number = int.from_bytes(mask, order)
    ordinals = []
    for byte_position, byte in enumerate(number.to_bytes(len(mask), "little")):
        while byte:
            low = byte & -byte
            ordinals.append(byte_position * 8 + low.bit_length())
            byte ^= low
    return frozenset(ordinals)


def encode_mask(ordinals: Iterable[int], width_bytes: int | None = None, order: ByteOrder = "little") -> bytes:
    """Return the mask of the given columns.

    Args:
        ordinals: Column ordinals, from 1.
        width_bytes: The length of the mask; None: the minimum for the ordinals, at least 1.

    Raises:
        InvalidInputError: an ordinal is less than 1, or beyond the width.
    """
    wanted = set(ordinals)
    if wanted and min(wanted) < 1:
        raise InvalidInputError(f"a column ordinal must be at least 1, not {min(wanted)}")
    least = max(1, (max(wanted, default=0) + 7) // 8)
    width = least if width_bytes is None else width_bytes
    if width < least and wanted:
        raise InvalidInputError(f"a mask of {width} bytes has no bit for ordinal {max(wanted)}", advice=f"Use {least} bytes")
    mask = bytearray(width)
    for ordinal in wanted:
        mask[(ordinal - 1) // 8] |= 1 << (ordinal - 1) % 8
    return bytes(mask if order == "little" else mask[::-1])


def mask_from_hex(text: str) -> bytes:
    """Return a mask from its hex digits in JSON.

    Args:
        text: Hex digits, the most significant first; any number of leading zeros can be missing.

    Returns:
        The mask, little-endian.

    Raises:
        DecodeError: the string contains characters that are not hex digits.
    """
    for at, digit in enumerate(text):
        if digit not in "0123456789abcdefABCDEF":
            raise DecodeError(f"the mask {text[:80]!r} has {digit!r}, which is not a hex digit", at)
    return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)[::-1]


def mask_to_hex(mask: bytes) -> str:
    """Return a little-endian mask in its JSON form: upper-case hex digits, two per byte, the last byte first."""
    return mask[::-1].hex().upper()
