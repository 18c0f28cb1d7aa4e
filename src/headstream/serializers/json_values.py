"""JSON values, encoded by the standard library."""

from __future__ import annotations

import json as _json
from decimal import Decimal
from typing import Any

from headstream.core.codec.json_text import dump_json
from headstream.serializers.serializer import Serializer


def json(*, decimals: bool = False) -> Serializer[Any]:
    """Return a serializer of compact JSON in UTF-8: None, bool, int, float, str, lists, and dicts with string keys.

    NaN and infinity are rejected, because JSON cannot represent them.

    Args:
        decimals: Whether numbers with a decimal point or an exponent are decoded to Decimal, which keeps all digits, instead of
            float; also allows Decimal values to be encoded.
    """
    if decimals:
        return Serializer("json", lambda value: dump_json(value, separators=(",", ":")).encode(), _decode_exactly)
    encode = _json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    return Serializer("json", lambda value: encode(value).encode(), _decode)


def _decode(payload: bytes) -> Any:
    return _json.loads(payload, parse_constant=_refuse_constant)


def _decode_exactly(payload: bytes) -> Any:
    return _json.loads(payload, parse_float=Decimal, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
