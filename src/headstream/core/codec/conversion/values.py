"""The header values that each family of dialects can represent, and replacements for all other values.

A value retains its kind if the dialect has this kind. An integer of a kind that KIP-82 does not have becomes an int of the next
size (uint8 becomes int16, uint16 int32, uint32 int64), or an int64 if the value fits. A plan reports the changed kind; the value
is unchanged. Every other change is a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headstream.core.codec.conversion.findings import DROPPED, Finding
from headstream.core.codec.kip82.headers import KINDS as KIP82_KINDS
from headstream.core.model.constructors import int16, int32, int64, raw, string
from headstream.core.model.header_values import FOREIGN_KINDS, HeaderKind, HeaderValue

FitValue: TypeAlias = Callable[[str, HeaderValue], tuple[HeaderValue, Finding | None]]
"""Converts a key and value to the value in the dialect, and a finding if the value changes."""

MAX_IGGY_VALUE_BYTES: Final = 255
MAX_VALUE_BYTES: Final = 1 << 16
_WIDENED: Final[dict[int, Callable[[int], HeaderValue]]] = {
    HeaderKind.UINT8: int16,
    HeaderKind.UINT16: int32,
    HeaderKind.UINT32: int64,
    HeaderKind.UINT64: int64,
    HeaderKind.INT128: int64,
    HeaderKind.UINT128: int64,
}
_SURROGATES: Final = range(0xD800, 0xE000)


def to_text(value: HeaderValue) -> str:
    """Return a value as a string for the policy `text`: true, 42, 12.5, null, U+D800, or bytes in hex."""
    plain = value.value
    if isinstance(plain, bytes):
        return plain.hex()
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if plain is None:
        return "null"
    if isinstance(plain, str) and value.kind == HeaderKind.CHAR and ord(plain) in _SURROGATES:
        return f"U+{ord(plain):04X}"
    return str(plain)


def fit_iggy(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to existing Iggy clients, which support 15 kinds and 1 to 255 bytes. See FitValue."""
    size = len(value.data)
    if HeaderKind.RAW <= value.kind <= HeaderKind.FLOAT64 and 1 <= size <= MAX_IGGY_VALUE_BYTES:
        return value, None
    if value.kind <= HeaderKind.FLOAT64:
        reason = f"an Iggy header must have 1 to {MAX_IGGY_VALUE_BYTES} bytes, but this {value.kind_name} has {size}"
        return value, _loss(key, reason)
    remedies: dict[str, Any] = {}
    if value.kind == HeaderKind.CHAR:
        remedies |= _char_remedies(value)
    elif value.kind == HeaderKind.NULL:
        remedies["text"] = string("null")
    elif 1 <= size <= MAX_IGGY_VALUE_BYTES:
        remedies["widen"] = raw(value.data)
        if 2 * size <= MAX_IGGY_VALUE_BYTES:
            remedies["text"] = string(value.data.hex())
    return value, _loss(key, f"Iggy has no kind {value.kind_name}", remedies)


def fit_wide(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to a wide topic, which supports every kind except kinds of KIP-82, and up to 65,536 bytes. See FitValue."""
    if value.kind in FOREIGN_KINDS:
        remedies = {"widen": raw(value.data), "text": string(value.data.hex())}
        return value, _loss(key, f"Headstream has no kind {value.kind_name}", remedies)
    if len(value.data) > MAX_VALUE_BYTES:
        return value, _loss(key, f"a header value must have at most {MAX_VALUE_BYTES} bytes, not {len(value.data)}")
    return value, None


def fit_kip82(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to the kinds of KIP-82. See FitValue."""
    kind = value.kind
    if kind == HeaderKind.CHAR and int.from_bytes(value.data, "little") in _SURROGATES:
        return value, _loss(key, "half of a surrogate pair is not a character", {"text": string(to_text(value))})
    if len(value.data) > MAX_VALUE_BYTES:
        return value, _loss(key, f"a value must have at most {MAX_VALUE_BYTES} bytes, not {len(value.data)}")
    if kind == HeaderKind.NULL or kind in KIP82_KINDS:
        return value, None
    if kind not in _WIDENED:
        remedies = {"widen": raw(value.data), "text": string(value.data.hex())}
        return value, _loss(key, f"KIP-82 has no kind {value.kind_name}", remedies)
    number = value.to_int()
    if not -(1 << 63) <= number < 1 << 63:
        reason = f"KIP-82 has only signed 64-bit integers, which cannot represent the {value.kind_name} {number}"
        return value, _loss(key, reason, {"text": string(str(number))})
    fitted = _WIDENED[kind](number)
    return fitted, Finding(f"header {key!r}", f"{value.kind_name} becomes {fitted.kind_name} without a loss", is_loss=False)


def fit_string(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to a map of strings. See FitValue."""
    if value.kind == HeaderKind.STRING:
        return value, None
    remedies = {"text": string(to_text(value))}
    if value.kind == HeaderKind.CHAR:
        remedies |= _char_remedies(value)
    return value, _loss(key, f"the headers of an envelope must be strings, not {value.kind_name}", remedies)


def _char_remedies(value: HeaderValue) -> dict[str, Any]:
    text = string(to_text(value))
    is_half = int.from_bytes(value.data, "little") in _SURROGATES
    return {"text": text} if is_half else {"widen": text, "text": text}


def _loss(key: str, reason: str, remedies: dict[str, Any] | None = None) -> Finding:
    return Finding(f"header {key!r}", reason, remedies={"drop": DROPPED, **(remedies or {})})
