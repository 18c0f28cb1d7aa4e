"""Strict JSON encoding and decoding: a value that would be changed or lost causes an error.

Python reads a number with a decimal point or an exponent as a double, which keeps 15 to 17 digits. With `decimals`, such a number
becomes a Decimal, which keeps all digits; encode_json() and dump_json() write the same digits.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

from headstream.errors import DecodeError, InvalidInputError

_PLACE: Final = "\udead"
"""Placeholder for a Decimal while a document is written: half of a surrogate pair, which no valid string contains."""
_SIGNED_ZERO: Final = re.compile(r"-0(?![\d.eE])", re.ASCII)


def decode_json(data: bytes, *, decimals: bool = False) -> Any:
    """Decode a JSON document.

    Args:
        decimals: Whether numbers with a decimal point or an exponent, and -0, become a Decimal with all digits instead of a
            float.

    Raises:
        DecodeError: the bytes are not JSON or not UTF-8 (lone surrogates are invalid), an object repeats a member, or a number is
            out of Python's range.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("the JSON is not UTF-8", error.start) from None
    try:
        document = (_decoder_of(text) if decimals else _DECODER).decode(text)
        if "\\u" in text:  # only an escape can contain half of a surrogate pair
            json.dumps(document, ensure_ascii=False, default=str).encode()
    except json.JSONDecodeError as error:
        raise DecodeError(f"the text is not JSON: {error.msg}", len(text[: error.pos].encode())) from None
    except UnicodeEncodeError:
        raise DecodeError("the JSON contains a lone surrogate, which is not a character", 0) from None
    except ValueError as error:
        raise DecodeError(f"the JSON cannot be decoded without loss: {error}", 0) from None
    except RecursionError:
        raise DecodeError("the JSON is nested too deeply", 0) from None
    return document


def encode_json(document: Any) -> bytes:
    """Encode a document as compact JSON in UTF-8; members keep their order.

    Raises:
        InvalidInputError: the document contains a value of another type, a NaN or infinity, or half of a surrogate pair.
    """
    try:
        try:
            return _ENCODER.encode(document).encode()
        except TypeError:  # the document has a Decimal, or a value that JSON cannot represent
            return dump_json(document, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"JSON cannot represent the value: {error}") from None


def dump_json(document: Any, *, separators: tuple[str, str] | None = None, indent: int | None = None) -> str:
    """Return a document as JSON text, as json.dumps() does, but write every digit of a Decimal.

    Raises:
        TypeError: the document contains a value of another type.
        ValueError: the document contains a NaN or infinity, or a Decimal and half of a surrogate pair.
    """
    numbers: list[str] = []

    def hold_place(value: object) -> str:
        if not isinstance(value, Decimal):
            raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
        if not value.is_finite():
            raise ValueError(f"{value} is not valid JSON")
        numbers.append(str(value))
        return _PLACE

    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=separators, indent=indent, default=hold_place)
    if not numbers:
        return text
    first, *rest = text.split(f'"{_PLACE}"')
    if len(rest) != len(numbers):
        raise ValueError("a lone surrogate is not a character")
    return first + "".join(number + part for number, part in zip(numbers, rest, strict=True))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is repeated in an object")
    return document


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"the number {text[:40]} is out of range") from None


def _exact_int(text: str) -> int | Decimal:
    return Decimal(text) if text == "-0" else int(text)


def _decoder_of(text: str) -> json.JSONDecoder:
    """Return a decoder that reads fractions as Decimals; it calls a function for integers only if the text can contain -0."""
    return _SIGNED_ZERO_DECODER if _SIGNED_ZERO.search(text) else _EXACT_DECODER


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not valid JSON")


# Created once: creating a decoder takes as long as decoding a small document.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
_EXACT_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_exact, parse_constant=_constant)
_SIGNED_ZERO_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_exact, parse_int=_exact_int, parse_constant=_constant
)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
