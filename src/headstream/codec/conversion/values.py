"""What header values have a spelling in which family of dialects, and what else they may become.

A value keeps its kind where the family has it. An integer of a kind that KIP-82 has not becomes an int of its own that
holds every value of that kind (uint8 int16, uint16 int32, uint32 int64), or int64 where the value fits: the value is
kept, the kind is another, which a plan reports. All else is a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headstream.codec.conversion.findings import DROPPED, Finding
from headstream.codec.kip82.headers import KINDS as KIP82_KINDS
from headstream.model.constructors import int16, int32, int64, raw, string
from headstream.model.header_values import FOREIGN_KINDS, HeaderKind, HeaderValue

__all__ = ["FitValue", "fit_any_headstream", "fit_iggy", "fit_kip82", "fit_string", "spell_text"]

FitValue: TypeAlias = Callable[[str, HeaderValue], tuple[HeaderValue, Finding | None]]
"""Key and value -> the value as the dialect has it, and what is not as it was."""

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


def spell_text(value: HeaderValue) -> str:
    """Return the text that a value becomes by the policy `text`: true, 42, 12.5, null, U+D800, or hex of bytes."""
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
    """Fit a value to what existing Iggy clients read: its 15 kinds, 1 to 255 bytes. See FitValue."""
    size = len(value.data)
    if HeaderKind.RAW <= value.kind <= HeaderKind.FLOAT64 and 1 <= size <= MAX_IGGY_VALUE_BYTES:
        return value, None
    if value.kind <= HeaderKind.FLOAT64:
        reason = f"Iggy's headers have 1 to {MAX_IGGY_VALUE_BYTES} bytes, this {value.kind_name} has {size}"
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


def fit_any_headstream(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to what a wide topic takes: every kind but KIP-82's own, up to 65,536 bytes. See FitValue."""
    if value.kind in FOREIGN_KINDS:
        remedies = {"widen": raw(value.data), "text": string(value.data.hex())}
        return value, _loss(key, f"Headstream has no kind {value.kind_name}", remedies)
    if len(value.data) > MAX_VALUE_BYTES:
        return value, _loss(key, f"a header value has at most {MAX_VALUE_BYTES} bytes, this one {len(value.data)}")
    return value, None


def fit_kip82(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to the kinds of KIP-82. See FitValue."""
    kind = value.kind
    if kind == HeaderKind.CHAR and int.from_bytes(value.data, "little") in _SURROGATES:
        return value, _loss(key, "half of a surrogate pair is no character", {"text": string(spell_text(value))})
    if len(value.data) > MAX_VALUE_BYTES:
        return value, _loss(key, f"a value has at most {MAX_VALUE_BYTES} bytes, this one {len(value.data)}")
    if kind == HeaderKind.NULL or kind in KIP82_KINDS:
        return value, None
    if kind not in _WIDENED:
        remedies = {"widen": raw(value.data), "text": string(value.data.hex())}
        return value, _loss(key, f"KIP-82 has no kind {value.kind_name}", remedies)
    number = value.to_int()
    if not -(1 << 63) <= number < 1 << 63:
        reason = f"KIP-82's integers have 64 bits with a sign, too few for the {value.kind_name} {number}"
        return value, _loss(key, reason, {"text": string(str(number))})
    fitted = _WIDENED[kind](number)
    return fitted, Finding(f"header {key!r}", f"{value.kind_name} becomes {fitted.kind_name}, its value is kept", is_loss=False)


def fit_string(key: str, value: HeaderValue) -> tuple[HeaderValue, Finding | None]:
    """Fit a value to a map of strings. See FitValue."""
    if value.kind == HeaderKind.STRING:
        return value, None
    remedies = {"text": string(spell_text(value))}
    if value.kind == HeaderKind.CHAR:
        remedies |= _char_remedies(value)
    return value, _loss(key, f"an envelope's headers are strings, this one is {value.kind_name}", remedies)


def _char_remedies(value: HeaderValue) -> dict[str, Any]:
    text = string(spell_text(value))
    is_half = int.from_bytes(value.data, "little") in _SURROGATES
    return {"text": text} if is_half else {"widen": text, "text": text}


def _loss(key: str, reason: str, remedies: dict[str, Any] | None = None) -> Finding:
    return Finding(f"header {key!r}", reason, remedies={"drop": DROPPED, **(remedies or {})})
