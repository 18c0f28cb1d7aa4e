"""Parses durations and sizes: `500ms`, `30 s`, `2 days 4 hours`; `10GB`, `64 MiB`, `1.5 KB`.

Every option, setting and configuration file uses these two functions, so a duration or size is read the same way everywhere. KB,
MB, ... are powers of 1000; KiB, MiB, ... and single letters (`512m`) are powers of 1024, as in Spark and the JVM. `m` is minutes
and `M` months of 30.44 days, as in the configuration of Iggy's server; all other units are case-insensitive.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

from headstream.errors import InvalidInputError

_SPELLINGS_NS: Final = {
    ("ns", "nsec", "nanos"): 1,
    ("us", "usec", "micros"): 1_000,
    ("ms", "msec", "millis"): 1_000_000,
    ("s", "sec", "secs", "second", "seconds"): 10**9,
    ("m", "min", "mins", "minute", "minutes"): 60 * 10**9,
    ("h", "hr", "hrs", "hour", "hours"): 3600 * 10**9,
    ("d", "day", "days"): 86_400 * 10**9,
    ("w", "week", "weeks"): 7 * 86_400 * 10**9,
    ("M", "month", "months"): 2_630_016 * 10**9,
    ("y", "year", "years"): 31_557_600 * 10**9,
}
_UNITS_NS: Final = {name: unit_ns for names, unit_ns in _SPELLINGS_NS.items() for name in names}

DURATION_UNITS_US: Final = {names[0]: unit_ns // 1000 for names, unit_ns in _SPELLINGS_NS.items() if unit_ns >= 1000}
"""The short name of each time unit and its duration in microseconds, ascending."""

SIZE_UNITS: Final = {"B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGTPE", start=1)
    for suffix, base in (("B", 1000), ("iB", 1024))
}
"""The name of each size unit and its size in bytes, ascending."""

_SIZE_SCALES: Final = {
    "": 1,
    **{name.lower(): scale for name, scale in SIZE_UNITS.items()},
    **{name[0].lower(): scale for name, scale in SIZE_UNITS.items() if name.endswith("iB")},
}
_PART: Final = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", re.ASCII)
_MAX_INT64: Final = (1 << 63) - 1
_MAX_UINT64: Final = (1 << 64) - 1


def parse_duration_us(spelled: str | int | timedelta, *, plain_unit: str | None = None) -> int:
    """Convert a duration to microseconds.

    Args:
        spelled: A string such as `500ms`, `60s`, `1.5 h` or `2 days 4 hours`, a timedelta, or, if `plain_unit` is given, a
            number. `0` needs no unit.
        plain_unit: The unit of a number without a unit, as in DURATION_UNITS_US; None rejects such numbers.

    Raises:
        InvalidInputError: the value is not a duration, is negative, or exceeds 2^63 - 1 microseconds.
    """
    if isinstance(spelled, timedelta):
        total = Fraction(spelled // timedelta(microseconds=1) * 1000)
    elif type(spelled) in (str, int):
        total = _nanoseconds(str(spelled), plain_unit)
    else:
        raise _no_duration(spelled)
    microseconds = round(total / 1000)
    if not 0 <= microseconds <= _MAX_INT64:
        raise _no_duration(spelled)
    return microseconds


def parse_size_bytes(spelled: str | int) -> int:
    """Convert a size to a number of bytes.

    Raises:
        InvalidInputError: the value is not a size, is negative, or exceeds 2^64 - 1.
    """
    part = _PART.fullmatch(str(spelled)) if type(spelled) in (str, int) else None
    scale = None if part is None else _SIZE_SCALES.get(part[2].lower())
    size = Fraction(-1) if part is None or scale is None else Fraction(part[1]) * scale
    if not 0 <= size <= _MAX_UINT64:
        raise InvalidInputError(f"{spelled!r} is not a size", advice="Write 500MB, 10GB, 64 MiB or a number of bytes")
    return int(size)


def _nanoseconds(text: str, plain_unit: str | None) -> Fraction:
    at, total = 0, Fraction(0)
    while at < len(text) or not at:
        part = _PART.match(text, at)
        if part is None:
            raise _no_duration(text)
        unit = part[2] or ("ns" if Fraction(part[1]) == 0 else plain_unit)
        scale = _UNITS_NS.get(unit or "") or _UNITS_NS.get((unit or "").lower())
        if scale is None or (not part[2] and part[0] != text):  # only a single number can be without a unit
            raise _no_duration(text)
        total += Fraction(part[1]) * scale
        at = part.end()
    return total


def _no_duration(spelled: object) -> InvalidInputError:
    return InvalidInputError(f"{spelled!r} is not a duration", advice="Write 500ms, 30s, 5m, 12h, 7d or 2 days 4 hours")
