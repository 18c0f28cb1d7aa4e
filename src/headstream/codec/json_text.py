"""Strict JSON encoding and decoding: a value that would be changed or lost is an error."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from headstream.errors import DecodeError, InvalidInputError

__all__ = ["decode_json", "encode_json"]


def decode_json(data: bytes) -> Any:
    """Return the JSON document of some bytes.

    Args:
        data: UTF-8.

    Raises:
        DecodeError: not JSON, not UTF-8 (lone surrogates included), a repeated member of an object (a dict would lose
            one), or a number out of Python's range.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("JSON that is not UTF-8", error.start) from None
    try:
        document = _DECODER.decode(text)
        if "\\u" in text:  # only an escape can contain half of a surrogate pair
            json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise DecodeError(f"not JSON: {error.msg}", len(text[: error.pos].encode())) from None
    except UnicodeEncodeError:
        raise DecodeError("JSON with half of a surrogate pair, which is not a character", 0) from None
    except ValueError as error:
        raise DecodeError(f"JSON that cannot be decoded without loss: {error}", 0) from None
    except RecursionError:
        raise DecodeError("JSON that is nested too deeply", 0) from None
    return document


def encode_json(document: Any) -> bytes:
    """Return a document as compact UTF-8 JSON, with its members in order.

    Args:
        document: Of dict, list, str, int, float, bool and None.

    Raises:
        InvalidInputError: it contains anything else, a NaN or infinity, or half of a surrogate pair.
    """
    try:
        return _ENCODER.encode(document).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"JSON cannot represent the value: {error}") from None


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


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


# Created once: creating one takes as long as a small document.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
