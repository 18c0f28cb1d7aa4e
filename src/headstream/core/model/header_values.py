"""HeaderValue: one typed value with its kind.

A HeaderValue holds its wire bytes (little-endian, as in Iggy), and converts them only when the value is read. A NaN therefore
keeps its bits, and a value of a kind unknown to this version keeps its bytes.

header_kinds.py lists the kinds and the bytes of each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from headstream.core.model.header_arithmetic import HeaderArithmetic
from headstream.core.model.header_kinds import (
    FLOAT_LAYOUTS,
    FOREIGN_KINDS,
    KIND_NAMES,
    KIND_WIDTHS,
    READERS,
    HeaderKind,
    PlainValue,
    parse_kind,
)
from headstream.errors import HeaderError

__all__ = [
    "FLOAT_LAYOUTS",
    "FOREIGN_KINDS",
    "KIND_NAMES",
    "KIND_WIDTHS",
    "HeaderKind",
    "HeaderValue",
    "PlainValue",
    "parse_kind",
    "trusted_value",
    "value_of",
]


class HeaderValue(HeaderArithmetic):
    """One typed value: a kind and its wire bytes.

    Two typed values are equal if their kinds and bytes are equal. A typed value equals a plain Python value if its `value` equals
    the plain value, so `message.headers["source"] == "web"` works as expected.

    Args:
        kind: A HeaderKind, or the number of a kind unknown to this version (1 to 255; 256 + n from KIP-82).

    Raises:
        HeaderError: the bytes are invalid for the kind.
    """

    __slots__ = ("data", "kind")
    kind: int
    data: bytes

    def __init__(self, kind: int, data: bytes) -> None:
        if not isinstance(kind, int) or not isinstance(data, (bytes, bytearray, memoryview)):
            raise HeaderError(f"a header value must be a kind and bytes, not {type(kind).__name__} and {type(data).__name__}")
        data = bytes(data)
        fault = _fault(kind, data)
        if fault is not None:
            raise HeaderError(fault)
        _set_kind(self, _KINDS.get(kind, kind))
        _set_data(self, data)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a HeaderValue is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a HeaderValue is frozen: {name} cannot be deleted")

    @property
    def kind_name(self) -> str:
        """The kind's name, such as `uint8`; `unknown(n)`, or `kip82(n)` for a type code that KIP-82 does not define."""
        name = KIND_NAMES.get(self.kind)
        if name is not None:
            return name
        return f"kip82({self.kind - 256})" if self.kind in FOREIGN_KINDS else f"unknown({self.kind})"

    @property
    def value(self) -> PlainValue:
        """The Python value: int, float, bool, str, bytes or None; bytes for an unknown kind."""
        read = READERS.get(self.kind)
        return self.data if read is None else read(self.data)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HeaderValue):
            return self.kind == other.kind and self.data == other.data
        if other is None or isinstance(other, (bool, int, float, str, bytes)):
            return self.value == other
        return NotImplemented

    def __hash__(self) -> int:
        value = self.value
        return hash(value) if value == value else hash(self.data)  # NaN objects of equal bits hash differently

    def __bool__(self) -> bool:
        return bool(self.value)

    def __str__(self) -> str:
        return str(self.value)

    # -- numeric protocol; operators are in HeaderArithmetic ----------------------------------------------------

    def __int__(self) -> int:
        return self.to_int()

    def __float__(self) -> float:
        return self.to_float()

    def __index__(self) -> int:
        value = self.value
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise TypeError(f"a {self.kind_name} header cannot be an index")

    def __bytes__(self) -> bytes:
        return self.data

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __lt__(self, other: object) -> bool:
        return self._compare(other, operator.lt)

    def __le__(self, other: object) -> bool:
        return self._compare(other, operator.le)

    def __gt__(self, other: object) -> bool:
        return self._compare(other, operator.gt)

    def __ge__(self, other: object) -> bool:
        return self._compare(other, operator.ge)

    def _compare(self, other: object, compare: Callable[[Any, Any], bool]) -> bool:
        """Compare values of any kinds; TypeError if Python cannot compare the two values."""
        return compare(self.value, other.value if isinstance(other, HeaderValue) else other)

    def __repr__(self) -> str:
        if self.kind not in KIND_NAMES:
            return f"HeaderValue({self.kind}, {self.data!r})"
        if self.kind == HeaderKind.NULL:
            return "null()"
        if self.kind in FLOAT_LAYOUTS and (self.value != self.value or self.value in (float("inf"), float("-inf"))):
            return f"HeaderValue({int(self.kind)}, {self.data!r})"  # float("nan") would lose the payload bits
        return f"{self.kind_name}({self.value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return HeaderValue, (int(self.kind), self.data)

    # -- exact accessors: the kind must be the one named --------------------------------------------------

    def _exactly(self, kind: HeaderKind) -> Any:
        if self.kind != kind:
            raise HeaderError(
                f"the header is {self.kind_name}, not {KIND_NAMES[kind]}",
                advice=f"Use as_{self.kind_name}() or a converting accessor such as to_int()"
                if self.kind in KIND_NAMES
                else "The header's bytes are in .data",
            )
        return self.value

    def as_raw(self) -> bytes:
        """Return the bytes; HeaderError unless the kind is raw."""
        value: bytes = self._exactly(HeaderKind.RAW)
        return value

    def as_string(self) -> str:
        """Return the string; HeaderError unless the kind is string."""
        value: str = self._exactly(HeaderKind.STRING)
        return value

    def as_bool(self) -> bool:
        """Return the bool; HeaderError unless the kind is bool."""
        value: bool = self._exactly(HeaderKind.BOOL)
        return value

    def as_int8(self) -> int:
        """Return the number; HeaderError unless the kind is int8."""
        return self._exact_int(HeaderKind.INT8)

    def as_int16(self) -> int:
        """Return the number; HeaderError unless the kind is int16."""
        return self._exact_int(HeaderKind.INT16)

    def as_int32(self) -> int:
        """Return the number; HeaderError unless the kind is int32."""
        return self._exact_int(HeaderKind.INT32)

    def as_int64(self) -> int:
        """Return the number; HeaderError unless the kind is int64."""
        return self._exact_int(HeaderKind.INT64)

    def as_int128(self) -> int:
        """Return the number; HeaderError unless the kind is int128."""
        return self._exact_int(HeaderKind.INT128)

    def as_uint8(self) -> int:
        """Return the number; HeaderError unless the kind is uint8."""
        return self._exact_int(HeaderKind.UINT8)

    def as_uint16(self) -> int:
        """Return the number; HeaderError unless the kind is uint16."""
        return self._exact_int(HeaderKind.UINT16)

    def as_uint32(self) -> int:
        """Return the number; HeaderError unless the kind is uint32."""
        return self._exact_int(HeaderKind.UINT32)

    def as_uint64(self) -> int:
        """Return the number; HeaderError unless the kind is uint64."""
        return self._exact_int(HeaderKind.UINT64)

    def as_uint128(self) -> int:
        """Return the number; HeaderError unless the kind is uint128."""
        return self._exact_int(HeaderKind.UINT128)

    def as_float32(self) -> float:
        """Return the number; HeaderError unless the kind is float32."""
        value: float = self._exactly(HeaderKind.FLOAT32)
        return value

    def as_float64(self) -> float:
        """Return the number; HeaderError unless the kind is float64."""
        value: float = self._exactly(HeaderKind.FLOAT64)
        return value

    def as_char(self) -> str:
        """Return the UTF-16 code unit as a str; HeaderError unless the kind is char."""
        value: str = self._exactly(HeaderKind.CHAR)
        return value

    def _exact_int(self, kind: HeaderKind) -> int:
        value: int = self._exactly(kind)
        return value

    # -- converting accessors: any kind that converts without loss ---------------------------------------

    def to_int(self) -> int:
        """Convert an integer, a bool, or a float or decimal string with a whole value to an int; HeaderError for other values."""
        value = self.value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                pass
        raise self._inconvertible("a whole number")

    def to_float(self) -> float:
        """Convert a number or a decimal string to a float; HeaderError for other values, and if an integer would be rounded."""
        value = self.value
        if isinstance(value, float):
            return value
        if isinstance(value, int) and abs(value) < 1 << 1023 and int(float(value)) == value:
            return float(value)
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                pass
        raise self._inconvertible("a float")

    def to_bool(self) -> bool:
        """Convert a bool, the number 0 or 1, or the string `true` or `false` to a bool; HeaderError for other values."""
        value = self.value
        if isinstance(value, (bool, int, float)) and value in (0, 1):
            return bool(value)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise self._inconvertible("a bool")

    def to_str(self) -> str:
        """Convert a string, a char, a number, a bool or raw bytes in UTF-8 to a str; HeaderError for other values."""
        value = self.value
        if isinstance(value, bytes):
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                raise self._inconvertible("text") from None
        if value is None:
            raise self._inconvertible("text")
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def to_bytes(self) -> bytes:
        """Return the bytes of a raw value, or the wire bytes (little-endian) of any other kind."""
        return self.data

    def _inconvertible(self, target: str) -> HeaderError:
        return HeaderError(f"{self!r} cannot be read as {target} without loss")


def _fault(kind: int, data: bytes) -> str | None:
    """Return why bytes are invalid for a kind, or None if they are valid."""
    width = KIND_WIDTHS.get(kind)
    if width is not None:
        if len(data) != width:
            return f"a header of kind {KIND_NAMES[kind]} must have {width} bytes, not {len(data)}"
        if kind == HeaderKind.BOOL and data not in (b"\x00", b"\x01"):
            return f"a bool header must be 0 or 1, not {data[0]}"
        return None
    if kind == HeaderKind.STRING:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"a string header must be UTF-8, but byte {error.start} is invalid"
        return None
    if not 1 <= kind <= 255 and kind not in FOREIGN_KINDS:
        return f"a header kind must be a number from 1 to 255, not {kind}"
    return None


_KINDS: Final[dict[int, HeaderKind]] = {kind.value: kind for kind in HeaderKind}
_set_kind: Final[Any] = HeaderValue.__dict__["kind"].__set__
_set_data: Final[Any] = HeaderValue.__dict__["data"].__set__
_new: Final[Any] = HeaderValue.__new__


def trusted_value(kind: HeaderKind, data: bytes) -> HeaderValue:
    """Return a value from bytes known to be valid for the kind, without a check; `kind` must be a HeaderKind."""
    value: HeaderValue = _new(HeaderValue)
    _set_kind(value, kind)
    _set_data(value, data)
    return value


def value_of(code: int, data: bytes) -> HeaderValue:
    """Return the value for a kind's code and bytes. The check is skipped for kinds in which any bytes of the width are valid."""
    kind = _KINDS.get(code)
    if kind is not None and (len(data) == _PLAIN_WIDTHS.get(code) or code == 1):
        value: HeaderValue = _new(HeaderValue)
        _set_kind(value, kind)
        _set_data(value, data)
        return value
    return HeaderValue(code, data)


_PLAIN_WIDTHS: Final = {code: width for code, width in KIND_WIDTHS.items() if code != HeaderKind.BOOL}
"""Kinds for which any bytes of the right width are valid."""
