"""Headers in the forms of Kafka Connect's converters: SimpleHeaderConverter, the default, and JsonConverter.

SimpleHeaderConverter writes strings, and guesses the type of a string that it reads:

    null, true, false        null, boolean          a whole number, also 1e3 or 3.0     the narrowest of int8 to int64
    [...], {...}             array, map             another number                      float32, float64 beyond it, or decimal
    dates and times          date, time, timestamp  anything else                       string

SimpleHeaderConverter reads a string only up to the first of : , [ ] { } " and ignores spaces around it, so 10:30 is the number
10, and 007 is 7. decode_connect() uses Connect's guess if writing the guess produces the same string, otherwise it returns a
string. If Connect would change a value by copying it, encode_connect() rejects the header.

JsonConverter writes {"schema":{"type":"int32","optional":false},"payload":3}: types are kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from decimal import Decimal
from typing import Any, Final

from headstream.core.codec.kafka.kinds import decode_kind, encode_value, name_kind
from headstream.core.codec.kafka.record import KafkaHeader
from headstream.core.codec.kafka.values import Pair, check_long, make_value, name_float, raw_or_null, read_text, widened
from headstream.core.model.constructors import CONSTRUCTORS, raw
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.errors import HeaderError

ENVELOPE_MARK: Final = b'{"schema":'
_KINDS: Final = {
    "string": "string", "boolean": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "float": "float32", "double": "float64", "bytes": "raw",
}  # fmt: skip
_TYPES: Final = {kind: name for name, kind in _KINDS.items()}
_TOKEN: Final = re.compile(r'(?:\\.|[^\\:,\[\]{}"])*', re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|(?<=[+-])\.\d+)(?:[eE][+-]?\d{1,9})?")
_TIME: Final = re.compile(r"(?=.{13}(?![^:,\[\]{}\"]))\d{1,2}:\d+:\d+\.\d+Z", re.DOTALL)
_WIDTHS: Final = (("int8", 7), ("int16", 15), ("int32", 31), ("int64", 63))
_MOST_DIGITS: Final = 40
"""Numbers with more digits before the decimal point are read as decimals."""


def encode_connect(pairs: list[Pair]) -> list[KafkaHeader]:
    """Encode typed headers as strings; HeaderError if Connect's type guess would change a value."""
    headers: list[KafkaHeader] = []
    for key, value in pairs:
        data = _write(value)
        if data is not None and decode_kind(name_kind(value), _copied(data)) != value:
            raise HeaderError(
                f"Connect's SimpleHeaderConverter would change {data[:60]!r} ({value.kind_name})",
                where=repr(key),
                advice="Use the convention connect-json, or another string",
            )
        headers.append((key, data))
    return headers


def decode_connect(headers: list[KafkaHeader]) -> list[Pair]:
    """Decode headers with the types that Connect guesses, if writing the guess produces the same string."""
    return [(key, raw_or_null(None) if data is None else _read(data)) for key, data in headers]


def _read(data: bytes) -> HeaderValue:
    text = read_text(data)
    if text.kind == HeaderKind.RAW:
        return text
    guessed = _guess(data.decode())
    return guessed if isinstance(guessed, HeaderValue) and _write(guessed) == data else text


def _write(value: HeaderValue) -> bytes | None:
    """Return a value as a string; a float32 as its shortest string, as in Java."""
    plain = value.value
    if value.kind != HeaderKind.FLOAT32 or not isinstance(plain, float) or not math.isfinite(plain):
        return encode_value(value)
    texts = (repr(float(f"{plain:.{digits}g}")) for digits in range(1, 10))
    return next(text for text in texts if CONSTRUCTORS["float32"](float(text)) == value).encode()


def _copied(data: bytes) -> bytes | None:
    """Return the string of a header after Connect has read and written it; null remains null."""
    try:
        guessed = _guess(data.decode())
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    if isinstance(guessed, Decimal):
        return format(guessed, "f" if guessed.as_tuple().exponent == 0 else "E").encode()
    return data if guessed is None else _write(guessed)


def _guess(text: str) -> HeaderValue | Decimal | None:
    """Return the value that Connect reads; a decimal for a number, None for a string, an array, a map or a time."""
    token = _TOKEN.match(text)
    assert token is not None
    first = token[0].strip("".join(map(chr, range(33))))
    if first in ("null", "true", "false") and token.end() == len(text):
        return raw_or_null(None) if first == "null" else CONSTRUCTORS["bool"](first == "true")
    if _NUMBER.fullmatch(first) is None or _TIME.match(text):
        return None
    number = Decimal(first)
    exponent = number.as_tuple().exponent
    if number.adjusted() < _MOST_DIGITS and isinstance(exponent, int) and exponent > -_MOST_DIGITS and number == int(number):
        for kind, bits in _WIDTHS:
            if -(1 << bits) <= number < 1 << bits:
                made: HeaderValue = CONSTRUCTORS[kind](int(number))
                return made
    if exponent == 0:
        return number
    for kind in ("float32", "float64"):
        found = make_value(kind, float(number), raw_or_null(b""))
        if found.kind != HeaderKind.RAW and math.isfinite(float(str(found.value))):
            return found
    return number


def encode_envelopes(pairs: list[Pair]) -> list[KafkaHeader]:
    """Encode typed headers as JsonConverter does; HeaderError if Connect has no type for a value."""
    return [(key, _write_envelope(key, value)) for key, value in pairs]


def decode_envelope(data: bytes) -> HeaderValue:
    """Decode JsonConverter's envelope. Other bytes, and types without a kind (date, decimal), are returned as raw."""
    if not data.startswith(ENVELOPE_MARK):
        return raw_or_null(data)
    try:
        envelope = json.loads(data)
        kind, plain = _KINDS.get(envelope["schema"]["type"]), envelope["payload"]
        if kind is None or set(envelope) != {"schema", "payload"} or "name" in envelope["schema"]:
            return raw_or_null(data)
        if plain is None:
            return raw_or_null(None)
        if kind == "raw":
            return raw(base64.b64decode(plain, validate=True))
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
        return raw_or_null(data)
    return make_value(kind, plain, raw_or_null(data))


def _write_envelope(key: str, value: HeaderValue) -> bytes | None:
    kind = widened(value)
    if value.kind == HeaderKind.NULL:
        return None
    if kind == "char":
        kind = "string"
    if kind not in _TYPES:
        raise HeaderError(f"Kafka Connect cannot represent a header of kind {value.kind_name}", where=repr(key), advice="Use raw")
    check_long(key, value, "Connect")
    plain: Any = value.value
    if value.kind == HeaderKind.CHAR:
        plain = str(plain).encode("utf-8", "replace").decode()  # half of a surrogate pair has no text
    if isinstance(plain, bytes):
        plain = base64.b64encode(plain).decode()
    if isinstance(plain, float) and not math.isfinite(plain):
        plain = name_float(plain)
    schema = {"type": _TYPES[kind], "optional": False}
    return json.dumps({"schema": schema, "payload": plain}, ensure_ascii=False, separators=(",", ":")).encode()
