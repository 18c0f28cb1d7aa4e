"""Header values as text and as JSON, for --header, tables, and lines of import and export.

text    k=value (a string) or k=kind:value (any kind)    attempt=uint8:3   digest=raw:AP8=   gone=null:
JSON    {"key": "attempt", "kind": "uint8", "value": 3}

kind                  text                     JSON
raw, unknown(n), ...  base64                   base64
bool                  true false               true false
int8 .. uint128       decimal digits           a number of any size
float32 float64       a number, inf, -inf, nan a number, "inf", "-inf", "nan"; any other NaN as its bits: "nan(0x7fc00001)"
char                  the character            the character; half of a surrogate pair as its number
null                  empty                    null
"""

from __future__ import annotations

import base64
import binascii
import difflib
import math
import re
from typing import Any, Final

from headstream.core.model.constructors import CONSTRUCTORS, string
from headstream.core.model.header_block import check_key
from headstream.core.model.header_values import FLOAT_LAYOUTS, HeaderKind, HeaderValue, parse_kind
from headstream.errors import HeaderError

_NEAR_KINDS: Final = {
    "int": "int64", "uint": "uint64", "float": "float32", "double": "float64", "str": "string", "bytes": "raw", "boolean": "bool",
}  # fmt: skip
"""Words that probably mean a kind; they are rejected instead of being read as the beginning of a string."""
_NEAR: Final = 0.8
"""Minimum similarity of a misspelt word to a kind: reached by `uint9` and `sting`, but not by `card` and `http`."""
_SURROGATES: Final = range(0xD800, 0xE000)
_UNNAMED: Final = re.compile(r"(unknown|kip82)\(\d{1,3}\)", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NAN_BITS: Final = re.compile(r"nan\(0x([0-9a-f]{8}|[0-9a-f]{16})\)")


def encode_base64(data: bytes) -> str:
    """Encode bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_base64(text: str) -> bytes:
    """Decode base64; HeaderError if the text is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: characters beyond ASCII
        raise HeaderError(f"not base64: {str(error)[:1].lower()}{str(error)[1:]}", where=repr(text[:40])) from None


def encode_header_value(value: HeaderValue) -> Any:
    """Return the JSON form of a header value, without the kind."""
    plain = value.value
    if isinstance(plain, bytes):
        return encode_base64(plain)
    if isinstance(plain, float) and not math.isfinite(plain):
        return _format_special(value)
    if isinstance(plain, str) and value.kind == HeaderKind.CHAR and ord(plain) in _SURROGATES:
        return ord(plain)
    return plain


def decode_header_value(kind: str, value: Any) -> HeaderValue:
    """Return the header value for a kind name and the JSON form of encode_header_value(); HeaderError if it is invalid."""
    if kind == "raw" or _UNNAMED.fullmatch(kind):
        if not isinstance(value, str):
            raise HeaderError(f"a {kind} value must be a base64 string, not {_json_name(value)}")
        return HeaderValue(parse_kind(kind), decode_base64(value))
    if kind in ("float32", "float64") and isinstance(value, str):
        return _read_special(kind, value)
    if kind == "char" and isinstance(value, int) and value in _SURROGATES:
        return HeaderValue(HeaderKind.CHAR, value.to_bytes(2, "little"))
    constructor = CONSTRUCTORS.get(kind)
    if constructor is None:
        raise HeaderError(f"{kind!r} is not a header kind", advice=f"Use one of {' '.join(CONSTRUCTORS)}")
    made: HeaderValue = constructor(value)
    return made


def format_header(key: str, value: HeaderValue) -> str:
    """Format a header in the form that parse_header() reads."""
    spelled = encode_header_value(value)
    if spelled is None:
        text = ""
    elif isinstance(spelled, bool):
        text = "true" if spelled else "false"
    else:
        text = str(spelled)
    return f"{key}={value.kind_name}:{text}"


def parse_header(text: str) -> tuple[str, HeaderValue]:
    """Parse `k=value` or `k=kind:value`. The first equals sign ends the key; HeaderError if the header is invalid."""
    key, equals, spec = text.partition("=")
    if not equals:
        raise HeaderError(f"{text!r} is not a header", advice="Write k=value or k=kind:value, for example attempt=uint8:3")
    check_key(key)
    kind, colon, value = spec.partition(":")
    name, key_colon, key_kind = key.rpartition(":")
    if key_colon and kind not in CONSTRUCTORS and (key_kind in CONSTRUCTORS or _nearest_kind(key_kind)):
        raise HeaderError(
            f"the kind must be after the equals sign, not in the key {key!r}",
            advice=f"Write {name}={_nearest_kind(key_kind) or key_kind}:{spec}, or {key}=string:{spec} for exactly this key",
        )
    if not colon:
        return key, string(spec)
    near = _nearest_kind(kind)
    if near is not None:
        raise HeaderError(
            f"{kind!r} is not a kind", where=f"header {key!r}", advice=f"Use {near}, or string:{spec} for exactly this string"
        )
    if kind not in CONSTRUCTORS and not _UNNAMED.fullmatch(kind):
        return key, string(spec)
    try:
        return key, _parse_value(kind, value)
    except HeaderError as error:
        raise HeaderError(error.what, where=f"header {key!r}", advice=error.advice) from None


def _nearest_kind(word: str) -> str | None:
    """Return the kind that a misspelled word probably means; None for a valid kind and for dissimilar words."""
    if word in CONSTRUCTORS:
        return None
    lowered = word.lower()
    if lowered in CONSTRUCTORS:
        return lowered
    return _NEAR_KINDS.get(lowered) or next(iter(difflib.get_close_matches(lowered, CONSTRUCTORS, 1, _NEAR)), None)


def _parse_value(kind: str, text: str) -> HeaderValue:
    if kind == "bool":
        if text not in ("true", "false"):
            raise HeaderError(f"a bool must be true or false, not {text!r}")
        return decode_header_value(kind, text == "true")
    if kind.startswith(("int", "uint")):
        if not re.fullmatch(r"[+-]?[0-9]{1,40}", text):
            raise HeaderError(f"{text!r} is not a whole number")
        return decode_header_value(kind, int(text))
    if kind in ("float32", "float64") and _NUMBER.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise HeaderError(f"{text} is out of range for {kind}", advice="Use the kind string")
        return decode_header_value(kind, number)
    if kind == "null":
        if text:
            raise HeaderError(f"a null must have no value after its colon, not {text!r}")
        return decode_header_value(kind, None)
    if kind == "char" and len(text) > 1 and text.isdecimal():
        return decode_header_value(kind, int(text))
    return decode_header_value(kind, text)


def _format_special(value: HeaderValue) -> str:
    """Format an infinity or a NaN. A NaN other than Python's is formatted as its bits, without loss."""
    layout = FLOAT_LAYOUTS[HeaderKind(value.kind)]
    for text in ("inf", "-inf", "nan"):
        if layout.pack(float(text)) == value.data:
            return text
    return f"nan(0x{value.data[::-1].hex()})"


def _read_special(kind: str, text: str) -> HeaderValue:
    code = HeaderKind[kind.upper()]
    layout = FLOAT_LAYOUTS[code]
    if text in ("inf", "-inf", "nan"):
        return HeaderValue(code, layout.pack(float(text)))
    bits = _NAN_BITS.fullmatch(text)
    if bits and len(bits[1]) == 2 * layout.size:
        value = HeaderValue(code, bytes.fromhex(bits[1])[::-1])
        if value.value != value.value:
            return value
    raise HeaderError(f"{text!r} is not a {kind}", advice="Write a number, inf, -inf or nan")


def _json_name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a bool", type(None): "null"}
    return names.get(type(value), "a number")
