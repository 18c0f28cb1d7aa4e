"""Header blocks: headers as the bytes they came as, decoded when they are looked at.

A layout knows how headers lie in a block. BINARY is that of the binary transport, and of Headers.from_bytes() where
none is named; the other ones are with their dialects. Little-endian:

    block    (key_length u32 | key | kind u8 | value_length u32 | value)*

kind and value are told in header_values.py; a key has 1 to 255 bytes of UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from headstream.errors import DecodeError, HeaderError
from headstream.model.header_values import HeaderValue, value_of

__all__ = ["BINARY", "MAX_KEY_BYTES", "HeaderBlock", "HeaderLayout", "HeaderPlace", "Pair", "check_key"]

MAX_KEY_BYTES: Final = 255
"""A header key has 1 to 255 bytes of UTF-8 in every dialect."""

Pair: TypeAlias = tuple[str, HeaderValue]
HeaderPlace: TypeAlias = tuple[str, int, int]
"""A key, where its kind and value begin in the block, and where they end."""

_HEADER_END: Final = struct.Struct("<BI")


def check_key(key: str) -> str:
    """Return a header key if it can be one: 1 to 255 bytes of UTF-8, its case kept.

    Raises:
        HeaderError: it cannot.
    """
    if not isinstance(key, str):
        raise HeaderError(f"a header key is a str, not {type(key).__name__}")
    if key.isascii():
        size = len(key)
    else:
        try:
            size = len(key.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise HeaderError(f"character {error.start} of the header key has no UTF-8 spelling", where=repr(key[:40])) from None
    if not 1 <= size <= MAX_KEY_BYTES:
        raise HeaderError(f"a header key has 1 to {MAX_KEY_BYTES} bytes, this one has {size}", where=repr(key[:40]))
    return key


class HeaderLayout(Protocol):
    """How headers lie in a block of bytes."""

    @property
    def name(self) -> str:
        """What the layout is called; two of the same name write the same bytes."""

    def split(self, block: bytes, at: int) -> list[HeaderPlace]:
        """Return where each header of a block lies.

        Args:
            block: The whole block.
            at: The byte position of the block in its input, for errors.

        Raises:
            DecodeError: the lengths or a key cannot be.
        """

    def decode_value(self, block: bytes, place: HeaderPlace, at: int) -> HeaderValue:
        """Return the value at a place that split() returned; DecodeError where the bytes are none of its kind."""

    def encode(self, pairs: Iterable[Pair]) -> bytes:
        """Return the block of some headers; HeaderError where the layout cannot spell one."""


class HeaderBlock:
    """A block whose headers are found at the first look, and whose values are each decoded at the first look at them.

    Args:
        data: The block.
        at: The byte position of the block in its input, for errors.
        layout: How the headers lie in it.
    """

    __slots__ = ("_places", "_values", "at", "data", "layout")
    _values: list[HeaderValue | None]

    def __init__(self, data: bytes, at: int, layout: HeaderLayout) -> None:
        self.data = data
        self.at = at
        self.layout = layout
        self._places: list[HeaderPlace] | None = None

    def places(self) -> list[HeaderPlace]:
        """Return where each header lies; DecodeError where the block is broken."""
        if self._places is None:
            places = self.layout.split(self.data, self.at)
            self._values = [None] * len(places)
            self._places = places
        return self._places

    def value(self, number: int) -> HeaderValue:
        """Return the value of the header of a number, from 0; DecodeError where it is broken."""
        places = self._places or self.places()
        value = self._values[number]
        if value is None:
            value = self._values[number] = self.layout.decode_value(self.data, places[number], self.at)
        return value

    def last(self, key: str) -> HeaderValue | None:
        """Return the last value of a key, or None where there is none; no other value is decoded."""
        places = self.places()
        for number in range(len(places) - 1, -1, -1):
            if places[number][0] == key:
                return self.value(number)
        return None

    def all(self, key: str) -> tuple[HeaderValue, ...]:
        """Return every value of a key in order; no other value is decoded."""
        return tuple(self.value(number) for number, place in enumerate(self.places()) if place[0] == key)

    def keys(self) -> list[str]:
        """Return the key of every header in order, repeats included; no value is decoded."""
        return [place[0] for place in self.places()]

    def pairs(self) -> tuple[Pair, ...]:
        """Return every header in order."""
        return tuple((place[0], self.value(number)) for number, place in enumerate(self.places()))


class _BinaryLayout:
    """The layout drawn above."""

    name: Final = "binary"

    def split(self, block: bytes, at: int) -> list[HeaderPlace]:
        places = []
        begin, end = 0, len(block)
        while begin < end:
            if end - begin < 4:
                raise DecodeError("a header is cut short", at + begin, 4, end - begin)
            key_end = begin + 4 + _length(block, begin)[0]
            if key_end + 5 > end:
                raise DecodeError("the key of a header is cut short", at + begin + 4, key_end + 1 - begin, end - begin - 4)
            value_end = key_end + 5 + _length(block, key_end + 1)[0]
            if value_end > end:
                raise DecodeError(
                    "the value of a header is cut short", at + key_end + 5, value_end - key_end - 5, end - key_end - 5
                )
            name = block[begin + 4 : key_end]
            places.append((_KEYS.get(name) or _decode_key(name, at + begin), key_end, value_end))
            begin = value_end
        return places

    def decode_value(self, block: bytes, place: HeaderPlace, at: int) -> HeaderValue:
        key, begin, end = place
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
                f"the binary transport has no kind {value.kind_name}", where=f"header {key!r}", advice="Give its bytes as raw"
            ) from None
        return b"".join(parts)


_length: Final = struct.Struct("<I").unpack_from
_KEYS: Final[dict[bytes, str]] = {}
_NAMES: Final[dict[str, bytes]] = {}
_KEPT_KEYS: Final = 1000
"""Keys are few and come again: so many are kept with their bytes, and not spelled anew."""


def _decode_key(name: bytes, at: int) -> str:
    if not 1 <= len(name) <= MAX_KEY_BYTES:
        raise DecodeError(f"the key of a header has 1 to {MAX_KEY_BYTES} bytes, this one has {len(name)}", at)
    try:
        key = name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("the key of a header is not UTF-8", at + 4 + error.start) from None
    if len(_KEYS) < _KEPT_KEYS:
        _KEYS[name] = key
    return key


def _encode_key(key: str) -> bytes:
    """Return a key after its length."""
    name = key.encode("utf-8")
    spelled = len(name).to_bytes(4, "little") + name
    if len(_NAMES) < _KEPT_KEYS:
        _NAMES[key] = spelled
    return spelled


BINARY: Final[HeaderLayout] = _BinaryLayout()
