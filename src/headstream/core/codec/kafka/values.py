"""Code that the header conventions share: the kinds that Java has, and conversion of values from JSON or text."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

from headstream.core.model.constructors import CONSTRUCTORS, string
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.errors import HeaderError

Pair: TypeAlias = tuple[str, HeaderValue]
_WIDER: Final = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64", "int128": "int64", "uint128": "int64"}
_NOT_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def widened(value: HeaderValue) -> str:
    """Return the kind for a value in a format whose numbers are signed and have at most 64 bits."""
    return _WIDER.get(value.kind_name, value.kind_name)


def check_long(key: str, value: HeaderValue, where: str) -> None:
    """Raise HeaderError if a number exceeds the range of Java's long."""
    plain = value.value
    if isinstance(plain, int) and not -(1 << 63) <= plain < 1 << 63:
        raise HeaderError(f"{plain} does not fit a long, the widest type of {where}", where=repr(key), advice="Use string or raw")


def name_float(number: float) -> str:
    """Return Java's name for a float that is not finite."""
    return next((name for name, value in _NOT_NUMBERS.items() if value == number), "NaN")


def raw_or_null(data: bytes | None) -> HeaderValue:
    """Return a header value for bytes without a kind: raw, or null for None."""
    return HeaderValue(HeaderKind.NULL, b"") if data is None else HeaderValue(HeaderKind.RAW, data)


def read_text(data: bytes) -> HeaderValue:
    """Return bytes as a string, or as raw if they are not UTF-8."""
    try:
        return string(data.decode("utf-8"))
    except UnicodeDecodeError:
        return raw_or_null(data)


def make_value(kind: str, plain: Any, otherwise: HeaderValue) -> HeaderValue:
    """Return a value of a kind, or `otherwise` if the plain value has the wrong type or is out of range."""
    if kind in ("float32", "float64") and isinstance(plain, str):
        plain = _NOT_NUMBERS.get(plain, plain)
    try:
        made: HeaderValue = CONSTRUCTORS[kind](plain)
        return made
    except HeaderError:
        return otherwise
