"""Header blocks: headers as received bytes, decoded on access.

A layout defines how headers are encoded in a block. BINARY is the binary transport's layout and the default of
Headers.from_bytes(); the module of each dialect defines its own layout. All numbers are little-endian:

    block    (key_length u32 | key | kind u8 | value_length u32 | value)*

header_kinds.py describes kinds and values. A key has 1 to 255 bytes of UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from headstream.core.model.header_values import HeaderValue, value_of
from headstream.errors import DecodeError, HeaderError

MAX_KEY_BYTES: Final = 255
"""A header key has 1 to 255 bytes of UTF-8 in every dialect."""

Pair: TypeAlias = tuple[str, HeaderValue]
HeaderSpan: TypeAlias = tuple[str, int, int]
"""A key, the positions in the block at which its kind and value begin, and their end."""

_HEADER_END: Final = struct.Struct("<BI")


def check_key(key: str) -> str:
    """Return a header key; HeaderError if it is not 1 to 255 bytes of UTF-8."""
    if not isinstance(key, str):
        raise HeaderError(f"a header key must be a str, not {type(key).__name__}")
    if key.isascii():
        size = len(key)
    else:
        try:
            size = len(key.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise HeaderError(
                f"character {error.start} of the header key cannot be encoded as UTF-8", where=repr(key[:40])
            ) from None
    if not 1 <= size <= MAX_KEY_BYTES:
        raise HeaderError(f"a header key must have 1 to {MAX_KEY_BYTES} bytes, not {size}", where=repr(key[:40]))
    return key


class HeaderLayout(Protocol):
    """The encoding of headers in a block of bytes."""

    @property
    def name(self) -> str:
        """The layout's name; two layouts of the same name write the same bytes."""

    def split(self, block: bytes, at: int) -> list[HeaderSpan]:
        """Return the position of each header in a block; `at` is the block's byte position in the input, for error messages."""

    def decode_value(self, block: bytes, span: HeaderSpan, at: int) -> HeaderValue:
        """Return the value at a span that split() returned; DecodeError if the bytes are invalid for the kind."""

    def encode(self, pairs: Iterable[Pair]) -> bytes:
        """Return the block of the given headers; HeaderError if the layout cannot encode a header."""


class HeaderBlock:
    """A block of headers. The headers are located on first access; each value is decoded on its first access."""

    __slots__ = ("_spans", "_values", "at", "data", "layout")
    _values: list[HeaderValue | None]

    def __init__(self, data: bytes, at: int, layout: HeaderLayout) -> None:
        self.data = data
        self.at = at
        self.layout = layout
        self._spans: list[HeaderSpan] | None = None

    def spans(self) -> list[HeaderSpan]:
        """Return the position of each header; DecodeError if the block is invalid."""
        if self._spans is None:
            spans = self.layout.split(self.data, self.at)
            self._values = [None] * len(spans)
            self._spans = spans
        return self._spans

    def value(self, number: int) -> HeaderValue:
        """Return the value of header `number`, from 0; DecodeError if it is invalid."""
        spans = self._spans or self.spans()
        value = self._values[number]
        if value is None:
            value = self._values[number] = self.layout.decode_value(self.data, spans[number], self.at)
        return value

    def last(self, key: str) -> HeaderValue | None:
        """Return the last value of a key, or None if the key is missing; no other value is decoded."""
        spans = self.spans()
        for number in range(len(spans) - 1, -1, -1):
            if spans[number][0] == key:
                return self.value(number)
        return None

    def all(self, key: str) -> tuple[HeaderValue, ...]:
        """Return every value of a key in order; no other value is decoded."""
        return tuple(self.value(number) for number, span in enumerate(self.spans()) if span[0] == key)

    def keys(self) -> list[str]:
        """Return the key of every header in order, including repeated keys; no value is decoded."""
        return [span[0] for span in self.spans()]

    def pairs(self) -> tuple[Pair, ...]:
        """Return every header in order."""
        return tuple((span[0], self.value(number)) for number, span in enumerate(self.spans()))


class _BinaryLayout:
    """The binary transport's layout; the module's docstring describes it."""

    name: Final = "binary"

    def split(self, block: bytes, at: int) -> list[HeaderSpan]:
        spans = []
        begin, end = 0, len(block)
        while begin < end:
            if end - begin < 4:
                raise DecodeError("a header is cut short", at + begin, 4, end - begin)
            key_end = begin + 4 + _length(block, begin)[0]
            if key_end + 5 > end:
                raise DecodeError("a header key is cut short", at + begin + 4, key_end + 1 - begin, end - begin - 4)
            value_end = key_end + 5 + _length(block, key_end + 1)[0]
            if value_end > end:
                raise DecodeError("a header value is cut short", at + key_end + 5, value_end - key_end - 5, end - key_end - 5)
            name = block[begin + 4 : key_end]
            spans.append((_KEYS.get(name) or _decode_key(name, at + begin), key_end, value_end))
            begin = value_end
        return spans

    def decode_value(self, block: bytes, span: HeaderSpan, at: int) -> HeaderValue:
        key, begin, end = span
        try:
            return value_of(block[begin], block[begin + 5 : end])
        except HeaderError as error:
            raise DecodeError(error.what, at + begin + 5, where=f"header {key!r}") from None

    def encode(self, pairs: Iterable[Pair]) -> bytes:
        parts: list[bytes] = []
        try:
            for key, value in pairs:
                data = value.data
                parts += (_NAMES.get(key) or _encode_key(key), _HEADER_END.pack(value.kind, len(data)), data)
        except struct.error:
            raise HeaderError(
                f"the binary transport does not support the kind {value.kind_name}",
                where=f"header {key!r}",
                advice="Send its bytes as raw",
            ) from None
        return b"".join(parts)


_length: Final = struct.Struct("<I").unpack_from
_KEYS: Final[dict[bytes, str]] = {}
_NAMES: Final[dict[str, bytes]] = {}
_KEPT_KEYS: Final = 1000
"""Number of cached encoded keys; a program uses few keys repeatedly."""


def _decode_key(name: bytes, at: int) -> str:
    if not 1 <= len(name) <= MAX_KEY_BYTES:
        raise DecodeError(f"a header key must have 1 to {MAX_KEY_BYTES} bytes, not {len(name)}", at)
    try:
        key = name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("a header key is not UTF-8", at + 4 + error.start) from None
    if len(_KEYS) < _KEPT_KEYS:
        _KEYS[name] = key
    return key


def _encode_key(key: str) -> bytes:
    """Return a key's length followed by its encoded bytes."""
    name = key.encode("utf-8")
    spelled = len(name).to_bytes(4, "little") + name
    if len(_NAMES) < _KEPT_KEYS:
        _NAMES[key] = spelled
    return spelled


BINARY: Final[HeaderLayout] = _BinaryLayout()
