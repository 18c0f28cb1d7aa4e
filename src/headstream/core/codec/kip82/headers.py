"""The typed header block of KIP-82, big-endian.

    block    (key_length i32 | key | value_length i32 | [type u8 | body])*      up to the end of the block, without a count

    type   kind      body      type   kind      body      type   kind      body
    0x00   bool      1 (0, 1)  0x04   int32     4         0x08   string    UTF-8, remaining bytes
    0x01   int8      1         0x05   int64     8         0x09   raw       remaining bytes
    0x02   char      2 UTF-16  0x06   float32   4
    0x03   int16     2         0x07   float64   8

value_length is the size of type and body; -1 means null. A type from 0x0A on has a body of any length, which is preserved.

The proposal contradicts itself (the sentence about "null and boolean zero length" remains from a draft with other codes), and
leaves much undefined. `strict` accepts only the format above. `lenient` also reads the following forms, and forwards them
unchanged:

    a type without a body, for a type of fixed width            null
    value_length 0, without a type                              null
    a bool other than 0 and 1                                   true
    an empty key                                                an empty key

`lenient` also writes values of an unknown type and half of a surrogate pair, which `strict` rejects.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from headstream.core.model.header_block import MAX_KEY_BYTES, HeaderSpan, Pair, check_key
from headstream.core.model.header_values import KIND_WIDTHS, HeaderKind, HeaderValue, value_of
from headstream.errors import DecodeError, HeaderError, LimitError

KINDS: Final = (
    HeaderKind.BOOL,
    HeaderKind.INT8,
    HeaderKind.CHAR,
    HeaderKind.INT16,
    HeaderKind.INT32,
    HeaderKind.INT64,
    HeaderKind.FLOAT32,
    HeaderKind.FLOAT64,
    HeaderKind.STRING,
    HeaderKind.RAW,
)
"""Type code -> kind."""

_CODES: Final[dict[int, int]] = {kind.value: code for code, kind in enumerate(KINDS)}
_I32: Final = struct.Struct(">i")
_WIDTHS: Final = tuple(KIND_WIDTHS.get(kind) for kind in KINDS)
_FOREIGN: Final = 256
_TYPE_BYTES: Final = 1
"""Size of the type code, which the length of a value includes."""
_SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class HeaderLimits:
    """The maximum size of a message's headers. Decoding never allocates more memory than the size of the input.

    Args:
        key_bytes: Maximum size of a key; other dialects allow at most 255 bytes.
        value_bytes: Maximum size of a value without its type code; the default is the largest value of a wide topic.
    """

    block_bytes: int = 1 << 20
    count: int = 1024
    key_bytes: int = MAX_KEY_BYTES
    value_bytes: int = 1 << 16


@dataclass(frozen=True, slots=True)
class TypedHeaders:
    """The layout of KIP-82's header block, for Headers.from_bytes() and as_bytes(); `strict` rejects contradictory forms."""

    strict: bool = True
    limits: HeaderLimits = field(default_factory=HeaderLimits)

    @property
    def name(self) -> str:
        """`kip82`."""
        return "kip82"

    def split(self, block: bytes, at: int) -> list[HeaderSpan]:
        """Return the position of each header in a block; the position of value_length is the start. See HeaderLayout."""
        spans: list[HeaderSpan] = []
        begin, end, limits = 0, len(block), self.limits
        if end > limits.block_bytes:
            raise DecodeError(f"a header block must have at most {limits.block_bytes} bytes, not {end}", at)
        while begin < end:
            if len(spans) == limits.count:
                raise DecodeError(f"a message must have at most {limits.count} headers, but this message has more", at + begin)
            key_end = begin + 4 + self._length(block, begin, at, None, limits.key_bytes)
            try:
                key = block[begin + 4 : key_end].decode("utf-8")
            except UnicodeDecodeError as error:
                raise DecodeError("a header key is not UTF-8", at + begin + 4 + error.start) from None
            if not key and self.strict:
                raise DecodeError("a header key is empty", at + begin)
            value_end = key_end + 4
            if block[key_end:value_end] != b"\xff\xff\xff\xff":
                value_end += self._length(block, key_end, at, key, limits.value_bytes + _TYPE_BYTES)
            spans.append((key, key_end, value_end))
            begin = value_end
        return spans

    def _length(self, block: bytes, begin: int, at: int, key: str | None, most: int) -> int:
        """Return the length of a key or value; DecodeError if it exceeds the remaining bytes."""
        have = len(block) - begin
        if have >= 4:
            length: int = _I32.unpack_from(block, begin)[0]
            if 0 <= length <= most and length <= have - 4:
                return length
        what = "a header key" if key is None else f"the value of the header {key!r:.60}"
        if have < 4:
            raise DecodeError(f"the length of {what} is cut short", at + begin, 4, have)
        if length < 0:
            raise DecodeError(f"{what} has the invalid length {length}", at + begin)
        if length > have - 4:
            raise DecodeError(f"{what} is cut short", at + begin + 4, length, have - 4)
        raise DecodeError(f"{what} must have at most {most} bytes, not {length}", at + begin)

    def decode_value(self, block: bytes, span: HeaderSpan, at: int) -> HeaderValue:
        """Return the value at a position from split(); DecodeError if the bytes are invalid for the value's type."""
        key, begin, end = span
        size = end - begin - 5
        if size < 0:
            if size == -1 and self.strict and block[begin : begin + 4] != b"\xff\xff\xff\xff":
                raise DecodeError("the value has no type", at + begin, 1, 0, where=_where(key))
            return HeaderValue(HeaderKind.NULL, b"")
        code = block[begin + 4]
        body = block[begin + 5 : end]
        if code >= len(KINDS):
            return HeaderValue(_FOREIGN + code, body)
        kind, width = KINDS[code], _WIDTHS[code]
        if width is not None and size != width:
            if size == 0 and not self.strict:
                return HeaderValue(HeaderKind.NULL, b"")
            raise DecodeError(
                f"the {kind.name.lower()} value ({code:#04x})",
                at + begin + 5,
                width,
                size,
                where=_where(key),
            )
        if code == 0 and not self.strict:
            body = b"\x01" if body != b"\x00" else body
        try:
            return value_of(kind, body if width is None else body[::-1])
        except HeaderError as error:
            raise DecodeError(error.what, at + begin + 5, where=_where(key)) from None

    def encode(self, pairs: Iterable[Pair]) -> bytes:
        """Return the block of the given headers."""
        parts: list[bytes] = []
        count = 0
        for key, value in pairs:
            name = (check_key(key) if self.strict else key).encode("utf-8")
            body = self._encode_value(key, value)
            if len(name) > self.limits.key_bytes or len(body) > self.limits.value_bytes + _TYPE_BYTES:
                raise LimitError(
                    f"the key and value of a KIP-82 header must have at most {self.limits.key_bytes} and "
                    f"{self.limits.value_bytes} bytes, not {len(name)} and {len(value.data)}",
                    where=f"header {key!r:.60}",
                )
            size = len(body) if value.kind != HeaderKind.NULL else -1
            parts += (len(name).to_bytes(4, "big"), name, size.to_bytes(4, "big", signed=True), body)
            count += 1
        block = b"".join(parts)
        if count > self.limits.count or len(block) > self.limits.block_bytes:
            raise LimitError(
                f"a KIP-82 message must have at most {self.limits.count} headers with {self.limits.block_bytes} bytes in total, "
                f"not {count} with {len(block)}"
            )
        return block

    def _encode_value(self, key: str, value: HeaderValue) -> bytes:
        kind, data = value.kind, value.data
        if kind == HeaderKind.NULL:
            return b""
        code = _CODES.get(kind)
        if code is None and kind > _FOREIGN and not self.strict:
            return bytes((kind - _FOREIGN,)) + data
        if code is None:
            raise HeaderError(
                f"KIP-82 does not support the kind {value.kind_name}",
                where=f"header {key!r:.60}",
                advice="Use one of bool int8 char int16 int32 int64 float32 float64 string raw null, or convert()",
            )
        if kind == HeaderKind.CHAR and self.strict and int.from_bytes(data, "little") in _SURROGATES:
            raise HeaderError("a lone surrogate is not a character", where=f"header {key!r:.60}", advice="Use kind raw")
        return bytes((code,)) + (data[::-1] if kind in KIND_WIDTHS else data)


def _where(key: str) -> str:
    return f"header {key!r:.60}"


STRICT: Final = TypedHeaders()
LENIENT: Final = TypedHeaders(strict=False)
