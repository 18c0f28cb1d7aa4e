"""Quantities as configuration files spell them; what they mean is told once, in model/quantities.py."""

from __future__ import annotations

from typing import Any

from headstream.errors import InvalidInputError
from headstream.model.quantities import parse_duration_us, parse_size_bytes

__all__ = ["parse_bytes", "parse_microseconds"]


def parse_microseconds(spelled: Any) -> int:
    """Return the microseconds of a duration, as parse_duration_us() reads it.

    Raises:
        ValueError: it is none.
    """
    try:
        return parse_duration_us(spelled)
    except InvalidInputError as error:
        raise ValueError(str(error)) from None


def parse_bytes(spelled: Any) -> int:
    """Return the bytes of a size, as parse_size_bytes() reads it.

    Raises:
        ValueError: it is none.
    """
    try:
        return parse_size_bytes(spelled)
    except InvalidInputError as error:
        raise ValueError(str(error)) from None
