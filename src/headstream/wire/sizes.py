"""Sizes in JSON: texts with a unit, as in "1.5 KB".

The unit is the largest of EiB, EB, PiB, PB, ... KiB, KB in which the size is at least 1 and needs at most three decimals, else B.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Final

from headstream.errors import DecodeError

__all__ = ["format_size", "parse_size"]

_UNITS: Final = [
    (f"{prefix}{suffix}", base**power)
    for power, prefix in reversed(list(enumerate("KMGTPE", start=1)))
    for suffix, base in (("iB", 1024), ("B", 1000))
]
_SCALES: Final = {name.lower(): scale for name, scale in _UNITS} | {"b": 1, "": 1}
_SIZE: Final = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,18}))?\s*([a-zA-Z]{0,3})", re.ASCII)


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


def parse_size(spelled: Any, where: str = "size") -> int:
    """Return the bytes that a text with a unit, or a plain number, spells.

    Args:
        spelled: A decoded JSON value.
        where: Its place, for errors.

    Raises:
        DecodeError: it is neither, or beyond 64 bits.
    """
    if type(spelled) is int:
        size = Fraction(spelled)
    else:
        found = _SIZE.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
        if found is None or found[3].lower() not in _SCALES:
            raise DecodeError(f"a size is a number of bytes or a text such as '1.5 KB', not {spelled!r:.40}", 0, where=where)
        size = Fraction(f"{found[1]}.{found[2] or 0}") * _SCALES[found[3].lower()]
    if not 0 <= size < 1 << 64:
        raise DecodeError("a size is from 0 to 2^64-1 bytes", 0, where=where)
    return int(size)
