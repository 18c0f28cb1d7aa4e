"""Sizes in JSON: texts with a unit, as in "1.5 KB".

The unit is the largest of EiB, EB, PiB, PB, ... KiB, KB in which the size is at least 1 and needs at most three decimals, else B.
"""

from __future__ import annotations

from typing import Any, Final

from headstream.core.model.quantities import SIZE_UNITS, parse_size_bytes
from headstream.errors import DecodeError, InvalidInputError

__all__ = ["format_size", "parse_size"]

_UNITS: Final = list(reversed(SIZE_UNITS.items()))[:-1]


def format_size(size: int) -> str:
    """Return a size with its unit.

    Args:
        size: Bytes, unsigned 64-bit.
    """
    for name, scale in _UNITS:
        if size >= scale and size * 1000 % scale == 0:
            whole, rest = divmod(size * 1000 // scale, 1000)
            return f"{whole}{f'.{rest:03}'.rstrip('0') if rest else ''} {name}"
    return f"{size} B"


def parse_size(json_value: Any, where: str = "size") -> int:
    """Return the bytes of a text with a unit, or of a plain number.

    Args:
        json_value: A decoded JSON value.
        where: Its path, for errors.

    Raises:
        DecodeError: the value is neither, or exceeds 64 bits.
    """
    try:
        return parse_size_bytes(json_value)
    except InvalidInputError:
        raise DecodeError(
            f"a size is a number of bytes from 0 to 2^64-1 or a text such as '1.5 KB', not {json_value!r:.40}", 0, where=where
        ) from None
