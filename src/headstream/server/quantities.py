"""Quantities as configuration files spell them: durations such as `2 days 4 hours`, sizes such as `1 GB`."""

from __future__ import annotations

import re
from typing import Any, Final

from headstream.errors import DecodeError
from headstream.wire.sizes import parse_size

__all__ = ["parse_bytes", "parse_microseconds"]

_SECOND: Final = 1_000_000
_UNITS_NS: Final = {
    **dict.fromkeys(("ns", "nsec", "nanos"), 1),
    **dict.fromkeys(("us", "usec", "micros"), 1_000),
    **dict.fromkeys(("ms", "msec", "millis"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 10**9),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400 * 10**9),
    **dict.fromkeys(("M", "month", "months"), 2_630_016 * 10**9),
    **dict.fromkeys(("y", "year", "years"), 31_557_600 * 10**9),
}
_PART: Final = re.compile(r"\s*(\d{1,18})\s*([A-Za-z]+)\s*", re.ASCII)
_MOST_US: Final = (1 << 63) - 1


def parse_microseconds(spelled: Any) -> int:
    """Return the microseconds that a text spells, as in `30 s`, `7 days` or `2 days 4 hours`; `0` is none.

    Raises:
        ValueError: it spells none.
    """
    text = str(spelled).strip() if type(spelled) in (str, int) else ""
    if text == "0":
        return 0
    at, total_ns = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        unit = None if part is None else _UNITS_NS.get(part[2])
        if part is None or unit is None:
            break
        total_ns += int(part[1]) * unit
        at = part.end()
    if not text or at < len(text):
        raise ValueError(f"{spelled!r} is no duration; write 500 ms, 30 s, 5 m or 2 days 4 hours")
    if total_ns // 1000 > _MOST_US:
        raise ValueError(f"{spelled!r} is longer than 2^63 microseconds")
    return total_ns // 1000


def parse_bytes(spelled: Any) -> int:
    """Return the bytes that a text such as `1 GB` or `64 MiB`, or a number, spells.

    Raises:
        ValueError: it spells none.
    """
    try:
        return parse_size(spelled)
    except DecodeError:
        raise ValueError(f"{spelled!r} is no size; write a number of bytes, or 64 KB, 512 MB, 1 GiB") from None
