"""Typed values in Kafka headers: the value is readable text, and its kind is in the header `hs.kinds`.

    kind                 value, in the header itself                     kind                  value
    string               the text, UTF-8                                 float32 float64       decimal: 12.5 1e+16 nan inf
    raw                  the bytes                                       null                  null
    bool                 true, false                                     char                  the character, UTF-8
    int8 ... uint128     decimal, as -3                                  an unknown kind       the bytes

    hs.kinds    entry [& entry]*       ASCII
    entry       key = kind [, kind]*   the kinds of all headers of the key, in order
    key         percent-encoded: every byte except A-Z a-z 0-9 - . _ ~
    kind        its name (or its number, if unknown) [: the value's bytes, little-endian, in hex]

    attempt: 3    source: web    hs.kinds: attempt=uint8&source=string

Headers that are missing in hs.kinds are raw or null. A value's bytes in hex are written if the text does not decode to these
bytes: a NaN with unusual bits, or half of a surrogate pair. Clients that do not know hs.kinds ignore it and read the text.
Clients can also change, add or remove headers. Therefore the headers of a key are raw if their number differs from the number of
kinds, and a header is raw if its value is invalid for its kind.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from headstream.core.codec.kafka.record import KafkaHeader
from headstream.core.model.constructors import CONSTRUCTORS
from headstream.core.model.header_values import KIND_NAMES, HeaderKind, HeaderValue
from headstream.errors import HeaderError

_CODES: Final = {name: code for code, name in KIND_NAMES.items()}
_WHOLE: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,38})")
_FLOAT: Final = re.compile(rb"-?(?:inf|nan|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)")
_FLOATS: Final = (HeaderKind.FLOAT32, HeaderKind.FLOAT64)
_INEXACT: Final = frozenset({*_FLOATS, HeaderKind.CHAR})
"""Kinds of which some values have no text form: NaNs with unusual bits, half of a surrogate pair."""


def encode_value(value: HeaderValue) -> bytes | None:
    """Return the bytes of a value in a Kafka header."""
    kind, plain = value.kind, value.value
    if kind == HeaderKind.NULL:
        return None
    if kind == HeaderKind.CHAR:
        return str(plain).encode("utf-8", "replace")
    if kind == HeaderKind.BOOL:
        return b"true" if plain else b"false"
    if isinstance(plain, (int, float)):
        return repr(plain).encode()
    return value.data  # string, raw, and unknown kinds


def encode_kinds(pairs: Iterable[tuple[str, HeaderValue]], *, is_complete: bool = False) -> bytes | None:
    """Return the value of `hs.kinds`, None if it is empty; `is_complete` also lists keys with only raw and null headers."""
    kinds: dict[str, list[HeaderValue]] = {}
    for key, value in pairs:
        kinds.setdefault(key, []).append(value)
    entries = [
        f"{quote(key, safe='')}={','.join(map(name_kind, values))}"
        for key, values in kinds.items()
        if is_complete or any(value.kind not in (HeaderKind.RAW, HeaderKind.NULL) for value in values)
    ]
    return "&".join(entries).encode() if entries else None


def decode_values(headers: Iterable[KafkaHeader], kinds: bytes | None) -> list[tuple[str, HeaderValue]]:
    """Decode headers with the kinds in `hs.kinds`; headers that are missing in `hs.kinds` are raw or null."""
    headers = list(headers)
    names = kinds_of([key for key, _ in headers], kinds) if kinds else [None] * len(headers)
    return [(key, _decode_listed(kind, data)) for (key, data), kind in zip(headers, names, strict=True)]


def kinds_of(keys: list[str], kinds: bytes) -> list[str | None]:
    """Return the kind of each header in `hs.kinds`; None if the key is missing, or has a different number of kinds."""
    kinds_by_key = parse_kinds(kinds)
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    seen: dict[str, int] = {}
    found: list[str | None] = []
    for key in keys:
        place = seen[key] = seen.get(key, -1) + 1
        names = kinds_by_key.get(key, ())
        found.append(names[place] if len(names) == counts[key] else None)
    return found


def name_kind(value: HeaderValue) -> str:
    """Return a value's kind in the form of `hs.kinds`, with the value's bytes if its text does not decode to these bytes."""
    name = KIND_NAMES.get(value.kind) or str(int(value.kind))
    if value.kind in _INEXACT and decode_value(value.kind, encode_value(value)) != value:
        return f"{name}:{value.data.hex()}"
    return name


def parse_kinds(text: bytes) -> dict[str, list[str]]:
    """Parse the kinds of each key in `hs.kinds`, and ignore invalid entries."""
    kinds_by_key: dict[str, list[str]] = {}
    for entry in text.split(b"&"):
        key, equals, names = entry.partition(b"=")
        try:
            if equals:
                kinds_by_key[unquote_to_bytes(key).decode()] = names.decode("ascii").split(",")
        except UnicodeDecodeError:
            continue  # an invalid key: its headers stay raw
    return kinds_by_key


def _decode_listed(kind: str | None, data: bytes | None) -> HeaderValue:
    found = None if kind is None else decode_kind(kind, data)
    if found is not None:
        return found
    return HeaderValue(HeaderKind.NULL, b"") if data is None else HeaderValue(HeaderKind.RAW, data)


def decode_kind(kind: str, data: bytes | None) -> HeaderValue | None:
    """Decode a header's text with its kind in `hs.kinds`; None if the text is invalid for the kind."""
    name, colon, digits = kind.partition(":")
    code = _CODES.get(name, int(name) if name.isascii() and name.isdecimal() and 0 < len(name) < 4 else 0)
    try:
        if colon and code in KIND_NAMES:
            exact = HeaderValue(code, bytes.fromhex(digits))
            return exact if encode_value(exact) == data else None  # the text still matches these bytes
        if code in KIND_NAMES:
            return decode_value(code, data)
        return HeaderValue(code, data) if 0 < code < 256 and data is not None else None
    except (HeaderError, ValueError):
        return None


def decode_value(kind: int, data: bytes | None) -> HeaderValue | None:
    """Decode a header's text with a known kind; return None, or raise HeaderError or ValueError, if the text is invalid."""
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
            return None  # outside the single-precision range
    value: HeaderValue | None = CONSTRUCTORS[KIND_NAMES[kind]](int(data)) if _WHOLE.fullmatch(data) else None
    return value
