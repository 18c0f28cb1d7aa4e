"""Constructors of header values, one per kind, and the default kind of each plain Python type.

A constructor is a class, so it can also be used as a type. `uint8(3)` returns a HeaderValue of kind uint8, and every HeaderValue
of that kind, even if received, is an instance of `uint8`. The annotation `attempt: hs.uint8` states the kind of a handler's
parameter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

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

_T = TypeVar("_T")


def _raw(kind: HeaderKind, value: bytes | bytearray | memoryview) -> HeaderValue:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise HeaderError(f"a raw value must be bytes, not {type(value).__name__}")
    return trusted_value(kind, bytes(value))


def _string(kind: HeaderKind, value: str) -> HeaderValue:
    if not isinstance(value, str):
        raise HeaderError(f"a string value must be a str, not {type(value).__name__}")
    try:
        return trusted_value(kind, value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise HeaderError(f"character {error.start} of the string cannot be encoded as UTF-8", where=repr(value[:40])) from None


def _bool(kind: HeaderKind, value: bool) -> HeaderValue:
    if not isinstance(value, bool):
        raise HeaderError(f"a bool value must be True or False, not {type(value).__name__}")
    return _TRUE if value else _FALSE


def _integer(kind: HeaderKind, value: int) -> HeaderValue:
    name, width, signed = KIND_NAMES[kind], KIND_WIDTHS[kind], kind <= HeaderKind.INT128
    if isinstance(value, bool) or not isinstance(value, int):
        raise HeaderError(f"{name} value must be an int, not {type(value).__name__}")
    try:
        return trusted_value(kind, value.to_bytes(width, "little", signed=signed))
    except OverflowError:
        low, high = (-(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1) if signed else (0, (1 << (8 * width)) - 1)
        fitting = [KIND_NAMES[k] for k in _INTEGER_KINDS if _fits(value, k)]
        advice = f"Use {' or '.join(fitting)}" if fitting else "Use string or raw"
        raise HeaderError(f"{value} is out of range for {name} ({low} to {high})", advice=advice) from None


def _float(kind: HeaderKind, value: float) -> HeaderValue:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HeaderError(f"{KIND_NAMES[kind]} value must be a number, not {type(value).__name__}")
    try:
        return trusted_value(kind, FLOAT_LAYOUTS[kind].pack(value))
    except (OverflowError, struct.error):
        raise HeaderError(f"{value} is out of range for {KIND_NAMES[kind]}", advice="Use float64 or string") from None


def _null(kind: HeaderKind, value: None) -> HeaderValue:
    if value is not None:
        raise HeaderError(f"a null header must have the value None, not {type(value).__name__}")
    return _NULL


def _char(kind: HeaderKind, value: str) -> HeaderValue:
    if not isinstance(value, str) or len(value) != 1 or ord(value) > 0xFFFF:
        raise HeaderError(f"a char value must be one character up to U+FFFF, not {value!r}", advice="Use string")
    return trusted_value(kind, ord(value).to_bytes(2, "little"))


_TRUE: Final = trusted_value(HeaderKind.BOOL, b"\x01")
_FALSE: Final = trusted_value(HeaderKind.BOOL, b"\x00")
_NULL: Final = trusted_value(HeaderKind.NULL, b"")
_INTEGER_KINDS: Final = (HeaderKind.INT64, HeaderKind.UINT64, HeaderKind.INT128, HeaderKind.UINT128)


def _fits(value: int, kind: HeaderKind) -> bool:
    bits = 8 * KIND_WIDTHS[kind]
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if kind <= HeaderKind.INT128 else 0 <= value < 1 << bits


class KindType(type):
    """The metaclass of the constructors."""

    of: HeaderKind
    make: Any

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        cls.of = HeaderKind.__members__.get(name.rstrip("_").upper(), HeaderKind.RAW)  # unused in the base classes below

    if not TYPE_CHECKING:  # a type checker sees KindOf.__init__()

        def __call__(cls, value=None):
            """Convert a Python value to a HeaderValue."""
            return cls.make(cls.of, value)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, HeaderValue) and instance.kind == cls.of


class KindOf(HeaderValue, Generic[_T], metaclass=KindType):
    """The base class of constructors that accept Python values of one type."""

    if TYPE_CHECKING:

        def __init__(self, value: _T) -> None: ...


class _Whole(KindOf[int]):
    make = _integer


class _Number(KindOf[float]):
    make = _float


class raw(KindOf[bytes | bytearray | memoryview]):
    """A raw header value: arbitrary bytes."""

    make = _raw


class string(KindOf[str]):
    """A string header value: any string that UTF-8 can encode."""

    make = _string


class bool_(KindOf[bool]):
    """A bool header value."""

    make = _bool


class int8(_Whole):
    """An int8 header value, -128 to 127."""


class int16(_Whole):
    """An int16 header value."""


class int32(_Whole):
    """An int32 header value."""


class int64(_Whole):
    """An int64 header value."""


class int128(_Whole):
    """An int128 header value."""


class uint8(_Whole):
    """A uint8 header value, 0 to 255."""


class uint16(_Whole):
    """A uint16 header value."""


class uint32(_Whole):
    """A uint32 header value."""


class uint64(_Whole):
    """A uint64 header value."""


class uint128(_Whole):
    """A uint128 header value."""


class float32(_Number):
    """A float32 header value, rounded to single precision; HeaderError if the number is out of range."""


class float64(_Number):
    """A float64 header value."""


class null(KindOf[None]):
    """The null header value: a key without a value. Only topics with the limits `wide` accept this kind."""

    make = _null

    if TYPE_CHECKING:

        def __init__(self, value: None = None) -> None: ...


class char(KindOf[str]):
    """A char header value: one character of the Basic Multilingual Plane. Only topics with the limits `wide` accept this kind."""

    make = _char


CONSTRUCTORS: Final[Mapping[str, Any]] = {
    "raw": raw, "string": string, "bool": bool_,
    "int8": int8, "int16": int16, "int32": int32, "int64": int64, "int128": int128,
    "uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64, "uint128": uint128,
    "float32": float32, "float64": float64, "null": null, "char": char,
}  # fmt: skip
"""Kind name -> constructor; code, CLI, JSON and Spark use these names."""

HeaderInput: TypeAlias = PlainValue | bytearray | memoryview | HeaderValue


def header_value(value: HeaderInput) -> HeaderValue:
    """Return a typed value unchanged, or convert a plain value to the default kind of its Python type.

    bool, int, float, str, bytes and None become bool, int64, float64, string, raw and null. The kind does not depend on the size
    of a number, so a header keeps its kind when its value grows.
    """
    make = _BY_TYPE.get(type(value))
    if make is not None:
        made: HeaderValue = make(value)
        return made
    for plain, constructor in _BY_TYPE.items():  # a subclass of one of these types
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
