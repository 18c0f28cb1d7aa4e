"""JSON values, by the standard library."""

from __future__ import annotations

import json as _json
from typing import Any

from headstream.serializers.serializer import Serializer

__all__ = ["json"]


def json() -> Serializer[Any]:
    """Return a serializer of what JSON has: None, bool, int, float, str, lists and dicts with text keys; UTF-8, compact.

    NaN and infinity are rejected: they are not JSON.
    """
    encode = _json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    return Serializer("json", lambda value: encode(value).encode(), _decode)


def _decode(payload: bytes) -> Any:
    return _json.loads(payload, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
