"""Constructors of header values, one a kind, and the default kind of each plain Python type."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from headstream.core.model.header_values import (
    FLOAT_LAYOUTS,
    KIND_NAMES,
    KIND_WIDTHS,
    HeaderKind,
    HeaderValue,
    PlainValue,
    trusted_value,
)
from headstream.errors import HeaderError

__all__ = [
    "CONSTRUCTORS",
    "HeaderInput",
    "bool_",
    "char",
    "float32",
    "float64",
    "header_value",
    "int8",
    "int16",
    "int32",
    "int64",
    "int128",
    "null",
    "raw",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint128",
]


def _integer(kind: HeaderKind, value: int) -> HeaderValue:
    name, width, signed = KIND_NAMES[kind], KIND_WIDTHS[kind], kind <= HeaderKind.INT128
    if isinstance(value, bool) or not isinstance(value, int):
        raise HeaderError(f"{name} takes an int, not {type(value).__name__}")
    try:
        return trusted_value(kind, value.to_bytes(width, "little", signed=signed))
    except OverflowError:
        low, high = (-(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1) if signed else (0, (1 << (8 * width)) - 1)
        fitting = [KIND_NAMES[k] for k in _INTEGER_KINDS if _fits(value, k)]
        advice = f"Use {' or '.join(fitting)}" if fitting else "Use string or raw"
        raise HeaderError(f"{value} is out of range for {name} ({low} to {high})", advice=advice) from None


_TRUE: Final = trusted_value(HeaderKind.BOOL, b"\x01")
_FALSE: Final = trusted_value(HeaderKind.BOOL, b"\x00")
_NULL: Final = trusted_value(HeaderKind.NULL, b"")
_INTEGER_KINDS: Final = (HeaderKind.INT64, HeaderKind.UINT64, HeaderKind.INT128, HeaderKind.UINT128)


def _fits(value: int, kind: HeaderKind) -> bool:
    bits = 8 * KIND_WIDTHS[kind]
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if kind <= HeaderKind.INT128 else 0 <= value < 1 << bits


def raw(value: bytes | bytearray | memoryview) -> HeaderValue:
    """Return a raw header value: bytes of any meaning."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise HeaderError(f"raw takes bytes, not {type(value).__name__}")
    return trusted_value(HeaderKind.RAW, bytes(value))


def string(value: str) -> HeaderValue:
    """Return a string header value: any text that UTF-8 can encode."""
    if not isinstance(value, str):
        raise HeaderError(f"string takes a str, not {type(value).__name__}")
    try:
        return trusted_value(HeaderKind.STRING, value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise HeaderError(f"character {error.start} of the text cannot be encoded as UTF-8", where=repr(value[:40])) from None


def bool_(value: bool) -> HeaderValue:
    """Return a bool header value."""
    if not isinstance(value, bool):
        raise HeaderError(f"bool takes True or False, not {type(value).__name__}")
    return _TRUE if value else _FALSE


def int8(value: int) -> HeaderValue:
    """Return an int8 header value, -128 to 127."""
    return _integer(HeaderKind.INT8, value)


def int16(value: int) -> HeaderValue:
    """Return an int16 header value."""
    return _integer(HeaderKind.INT16, value)


def int32(value: int) -> HeaderValue:
    """Return an int32 header value."""
    return _integer(HeaderKind.INT32, value)


def int64(value: int) -> HeaderValue:
    """Return an int64 header value."""
    return _integer(HeaderKind.INT64, value)


def int128(value: int) -> HeaderValue:
    """Return an int128 header value."""
    return _integer(HeaderKind.INT128, value)


def uint8(value: int) -> HeaderValue:
    """Return a uint8 header value, 0 to 255."""
    return _integer(HeaderKind.UINT8, value)


def uint16(value: int) -> HeaderValue:
    """Return a uint16 header value."""
    return _integer(HeaderKind.UINT16, value)


def uint32(value: int) -> HeaderValue:
    """Return a uint32 header value."""
    return _integer(HeaderKind.UINT32, value)


def uint64(value: int) -> HeaderValue:
    """Return a uint64 header value."""
    return _integer(HeaderKind.UINT64, value)


def uint128(value: int) -> HeaderValue:
    """Return a uint128 header value."""
    return _integer(HeaderKind.UINT128, value)


def float32(value: float) -> HeaderValue:
    """Return a float32 header value, rounded to single precision; HeaderError where it is out of range."""
    return _float(HeaderKind.FLOAT32, value)


def float64(value: float) -> HeaderValue:
    """Return a float64 header value."""
    return _float(HeaderKind.FLOAT64, value)


def _float(kind: HeaderKind, value: float) -> HeaderValue:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HeaderError(f"{KIND_NAMES[kind]} takes a number, not {type(value).__name__}")
    try:
        return trusted_value(kind, FLOAT_LAYOUTS[kind].pack(value))
    except (OverflowError, struct.error):
        raise HeaderError(f"{value} is out of range for {KIND_NAMES[kind]}", advice="Use float64 or string") from None


def null(value: None = None) -> HeaderValue:
    """Return the null header value: a key without a value. Wide topics only."""
    if value is not None:
        raise HeaderError(f"null takes no value, not {type(value).__name__}")
    return _NULL


def char(value: str) -> HeaderValue:
    """Return a char header value: one character of the Basic Multilingual Plane. Wide topics only."""
    if not isinstance(value, str) or len(value) != 1 or ord(value) > 0xFFFF:
        raise HeaderError(f"char takes one character up to U+FFFF, not {value!r}", advice="Use string")
    return trusted_value(HeaderKind.CHAR, ord(value).to_bytes(2, "little"))


CONSTRUCTORS: Final[Mapping[str, Any]] = {
    "raw": raw, "string": string, "bool": bool_,
    "int8": int8, "int16": int16, "int32": int32, "int64": int64, "int128": int128,
    "uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64, "uint128": uint128,
    "float32": float32, "float64": float64, "null": null, "char": char,
}  # fmt: skip
"""Kind name -> constructor: the names of kinds in code, CLI, JSON and Spark."""

HeaderInput: TypeAlias = PlainValue | bytearray | memoryview | HeaderValue


def header_value(value: HeaderInput) -> HeaderValue:
    """Return a typed value unchanged, or convert a plain one to the default kind of its Python type.

    bool, int, float, str, bytes and None become bool, int64, float64, string, raw and null: never the
    narrowest kind that fits, so that a header keeps its kind when its value grows.

    Raises:
        HeaderError: the type has no kind, or the value does not fit; the text names the alternatives.
    """
    make = _BY_TYPE.get(type(value))
    if make is not None:
        made: HeaderValue = make(value)
        return made
    for plain, constructor in _BY_TYPE.items():  # a subclass of one of them
        if isinstance(value, plain):
            found: HeaderValue = constructor(value)
            return found
    raise HeaderError(
        f"{type(value).__name__} has no header kind",
        advice="Use str, int, float, bool, bytes, None, or a constructor such as string() or uint8()",
    )


def _plain_int(value: int) -> HeaderValue:
    try:
        return trusted_value(HeaderKind.INT64, value.to_bytes(8, "little", signed=True))
    except OverflowError:
        return int64(value)  # its error names the alternatives


_BY_TYPE: Final[dict[type, Any]] = {
    HeaderValue: lambda value: value,
    type(None): null,
    bool: bool_,
    int: _plain_int,
    float: float64,
    str: string,
    bytes: raw,
    bytearray: raw,
    memoryview: raw,
}
"""Python type -> constructor; bool before int, of which it is a subclass."""
