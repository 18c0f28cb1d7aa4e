"""How a typed value travels in a Kafka header: as text that anybody can read, with its kind in the header `hs.kinds`.

    kind                 value, in the header itself                     kind                  value
    string               the text, UTF-8                                 float32 float64       decimal: 12.5 1e+16 nan inf
    raw                  the bytes                                       null                  null
    bool                 true, false                                     char                  the character, UTF-8
    int8 ... uint128     decimal, as -3                                  a kind not known here the bytes

    hs.kinds    entry [& entry]*       ASCII
    entry       key = kind [, kind]*   the kinds of all headers of that key, in their order
    key         percent-encoded: every byte but A-Z a-z 0-9 - . _ ~
    kind        its name (or its number, where it has none) [: the value's bytes, little-endian, in hex]

    attempt: 3    source: web    hs.kinds: attempt=uint8&source=string

What hs.kinds says nothing of is raw, or null. The bytes in hex stand where the text does not give them back: a NaN with other
bits than usual, half of a surrogate pair. A client that knows nothing of this reads the texts and passes hs.kinds over; a
client that changes, adds or removes headers on the way does no harm: headers of a key whose number is not that of its
kinds, or whose value is no spelling of its kind any more, are raw.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from headstream.codec.kafka.record import KafkaHeader
from headstream.errors import HeaderError
from headstream.model.constructors import CONSTRUCTORS
from headstream.model.header_values import KIND_NAMES, HeaderKind, HeaderValue

__all__ = ["decode_values", "encode_kinds", "encode_value"]

_CODES: Final = {name: code for code, name in KIND_NAMES.items()}
_WHOLE: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,38})")
_FLOAT: Final = re.compile(rb"-?(?:inf|nan|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)")
_FLOATS: Final = (HeaderKind.FLOAT32, HeaderKind.FLOAT64)


def encode_value(value: HeaderValue) -> bytes | None:
    """Return what a value looks like in a Kafka header.

    Args:
        value: Of any kind.
    """
    kind, plain = value.kind, value.value
    if kind == HeaderKind.NULL:
        return None
    if kind == HeaderKind.CHAR:
        return str(plain).encode("utf-8", "replace")
    if kind == HeaderKind.BOOL:
        return b"true" if plain else b"false"
    if isinstance(plain, (int, float)):
        return repr(plain).encode()
    return value.data  # string, raw, and kinds not known here


def encode_kinds(pairs: Iterable[tuple[str, HeaderValue]]) -> bytes | None:
    """Return the value of `hs.kinds`, or None where every header is raw or null.

    Args:
        pairs: Every header in order.
    """
    kinds: dict[str, list[HeaderValue]] = {}
    for key, value in pairs:
        kinds.setdefault(key, []).append(value)
    entries = [
        f"{quote(key, safe='')}={','.join(map(_kind_text, values))}"
        for key, values in kinds.items()
        if any(value.kind not in (HeaderKind.RAW, HeaderKind.NULL) for value in values)
    ]
    return "&".join(entries).encode() if entries else None


def decode_values(headers: Iterable[KafkaHeader], kinds: bytes | None) -> list[tuple[str, HeaderValue]]:
    """Return headers with the kinds that `hs.kinds` tells, and raw or null where it tells none.

    Args:
        headers: Every other header, in order.
        kinds: The value of `hs.kinds`, or None.
    """
    headers = list(headers)
    told = _parse_kinds(kinds) if kinds else {}
    counts: dict[str, int] = {}
    for key, _ in headers:
        counts[key] = counts.get(key, 0) + 1
    seen: dict[str, int] = {}
    pairs = []
    for key, data in headers:
        place = seen[key] = seen.get(key, -1) + 1
        names = told.get(key, ())
        spelled = names[place] if len(names) == counts[key] else "raw"
        pairs.append((key, _decode_value(spelled, data)))
    return pairs


def _kind_text(value: HeaderValue) -> str:
    name = KIND_NAMES.get(value.kind, str(int(value.kind)))
    data = encode_value(value)
    if value.kind in KIND_NAMES and _decode_text(value.kind, data) != value:
        return f"{name}:{value.data.hex()}"
    return name


def _parse_kinds(text: bytes) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for entry in text.split(b"&"):
        key, equals, names = entry.partition(b"=")
        try:
            if equals:
                told[unquote_to_bytes(key).decode()] = names.decode("ascii").split(",")
        except UnicodeDecodeError:
            continue  # nobody's spelling of a key: what it was to tell of stays raw
    return told


def _decode_value(spelled: str, data: bytes | None) -> HeaderValue:
    name, colon, digits = spelled.partition(":")
    code = _CODES.get(name, int(name) if name.isascii() and name.isdecimal() and 0 < len(name) < 4 else 0)
    try:
        if colon and code in KIND_NAMES:
            exact = HeaderValue(code, bytes.fromhex(digits))
            if encode_value(exact) == data:  # the text is still that of these bytes
                return exact
        elif code in KIND_NAMES:
            value = _decode_text(code, data)
            if value is not None:
                return value
        elif 0 < code < 256 and data is not None:
            return HeaderValue(code, data)
    except (HeaderError, ValueError):
        pass  # no spelling of its kind: raw
    return HeaderValue(HeaderKind.NULL, b"") if data is None else HeaderValue(HeaderKind.RAW, data)


def _decode_text(kind: int, data: bytes | None) -> HeaderValue | None:
    """Return the value of a known kind that a text spells, or None."""
    if kind == HeaderKind.NULL or data is None:
        return HeaderValue(HeaderKind.NULL, b"") if kind == HeaderKind.NULL and data is None else None
    if kind in (HeaderKind.RAW, HeaderKind.STRING):
        return HeaderValue(kind, data)
    if kind == HeaderKind.BOOL:
        return HeaderValue(kind, b"\x01" if data == b"true" else b"\x00") if data in (b"true", b"false") else None
    if kind == HeaderKind.CHAR:
        text = data.decode("utf-8")
        return HeaderValue(kind, ord(text).to_bytes(2, "little")) if len(text) == 1 and ord(text) < 0x10000 else None
    if kind in _FLOATS:
        if not _FLOAT.fullmatch(data):
            return None
        try:
            return HeaderValue(kind, struct.pack("<f" if kind == HeaderKind.FLOAT32 else "<d", float(data)))
        except OverflowError:
            return None  # beyond what single precision holds
    value: HeaderValue | None = CONSTRUCTORS[KIND_NAMES[kind]](int(data)) if _WHOLE.fullmatch(data) else None
    return value
