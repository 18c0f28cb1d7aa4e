"""Random values of every Replicate type from a seed, including extreme values.

`value_maker` draws any value of a column: one in eight is an extreme of its type, and one in eight is null if the column is
nullable. `make_key` is a bijection from a counter to values, so a new counter produces a new key.

    type                 Python value      extremes
    INTn, UINTn          int               least and greatest of the width; UINT8 is a Decimal, as in DECIMAL(20,0)
    REAL4, REAL8         float             greatest, least normal, 0; REAL4 is rounded to single precision
    NUMERIC              Decimal           all nines, both signs; exactly `scale` digits after the point
    BOOLEAN, bytes, text bool, bytes, str  empty, blanks, quotes, control characters, every plane of Unicode
    DATE                 date              0001-01-01, 1969-12-31, 9999-12-31
    TIME                 time              00:00:00, 23:59:59.999; milliseconds with logical types, else seconds
    DATETIME             datetime (UTC)    years 1 and 9999, the microsecond before 1970
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Final, TypeAlias

from headstream.errors import InvalidInputError
from headstream.testing.source_tables import SourceColumn, SourceTable, SourceValue

ValueMaker: TypeAlias = Callable[[Random], SourceValue]

_RARE: Final = 0.125  # the share of nulls, and of extremes: a hundred rows are enough to have both
_MINOR_KEYS: Final = 5  # number of values of each column of a composite key except the first column
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_WORDS: Final = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron",
    "iris", "jade", "kelp", "lotus", "maple", "nova", "onyx", "pearl",
)  # fmt: skip
_TEXTS: Final = (
    "", " ", "  both ends  ", "null", "NULL", "0", "O'Brien", 'say "hello"', "back\\slash", "per%cent", "a,b;c|d\te",
    "line\nbreak\r\n", '{"json": [1]}', "Größe", "naïve café", "日本語テキスト", "Ελληνικά", "עברית", "🎈🚀", "e\u0301", "\x7f",
)  # fmt: skip
# No prefix ends in a digit, so that a prefix and a number form a unique key.
_KEY_PREFIXES: Final = ("", "A-", "a-", "O'Brien ", 'q"', "back\\", "tab\t", "ü", "日本", "🎈", " blank ", "per%20cent")


def format_time(value: time) -> str:
    """Format a TIME as it is stored in a table: HH:MM:SS, and .mmm unless the milliseconds are zero."""
    return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")


def value_maker(column: SourceColumn, *, milliseconds: bool) -> ValueMaker:
    """Return a function that draws a value of a column. If logical types are disabled, TIME has no milliseconds (HH:MM:SS)."""
    draw, extremes = _plain_maker(column, milliseconds), _extremes(column, milliseconds)
    nulls = _RARE if column.nullable else 0.0

    def make(random: Random) -> SourceValue:
        chance = random.random()
        if chance < nulls:
            return None
        if chance >= 1.0 - _RARE and extremes:
            return extremes[int(random.random() * len(extremes))]
        return draw(random)

    return make


def _integer_bounds(kind: str) -> tuple[int, int]:
    bits = 8 * int(kind[-1])
    return (0, (1 << bits) - 1) if kind.startswith("U") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _single(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(f"{unscaled}e-{scale}")  # exact from text; arithmetic would round to 28 digits


def _extremes(column: SourceColumn, milliseconds: bool) -> tuple[SourceValue, ...]:
    kind = column.type
    if kind.startswith(("INT", "UINT")):
        low, high = _integer_bounds(kind)
        return (Decimal(low), Decimal(high)) if kind == "UINT8" else (low, high, 0)
    if kind == "NUMERIC":
        nines = 10**column.precision - 1
        return tuple(_decimal(unscaled, column.scale) for unscaled in (nines, -nines, 0, 1, -1))
    if kind in ("STRING", "WSTRING", "CLOB", "NCLOB"):
        return tuple(text for text in _TEXTS if not column.length or len(text) <= column.length)
    fixed: dict[str, tuple[SourceValue, ...]] = {
        "REAL4": (_single(3.4028234663852886e38), _single(-3.4028234663852886e38), _single(1.1754943508222875e-38), 0.0),
        "REAL8": (1.7976931348623157e308, -1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 0.1, 0.0),
        "BYTES": (b"", b"\x00", b"\xff" * (column.length or 16)),
        "BLOB": (b"", b"\x00", bytes(range(256))[: column.length or 256]),
        "DATE": (date.min, date.max, date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29), date(1582, 10, 10)),
        "TIME": (time(0, 0, 0), time(23, 59, 59, 999_000 if milliseconds else 0), time(12, 0, 0)),
        "DATETIME": (
            datetime.min.replace(tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
            _EPOCH - _MICROSECOND,
            _EPOCH,
            datetime(1883, 11, 18, 12, 3, 58, 1, tzinfo=UTC),
        ),
    }
    return fixed.get(kind, ())


def _plain_maker(column: SourceColumn, milliseconds: bool) -> ValueMaker:
    kind = column.type
    if kind.startswith(("INT", "UINT")):
        return _integer_maker(kind)
    if kind == "NUMERIC":
        bound, scale = 10 ** min(column.precision, column.scale + 6), column.scale
        return lambda random: _decimal(int((random.random() - 0.5) * bound), scale)
    if kind == "REAL4":
        return lambda random: _single((random.random() - 0.5) * 1e6)
    if kind == "REAL8":
        return lambda random: (random.random() - 0.5) * 1e9
    if kind == "BOOLEAN":
        return lambda random: random.random() < 0.5
    if kind in ("BYTES", "BLOB"):
        limit = min(column.length or 16, 64 if kind == "BLOB" else 16)
        return lambda random: random.randbytes(int(random.random() * (limit + 1)))
    if kind in ("STRING", "WSTRING", "CLOB", "NCLOB"):
        return _text_maker(column)
    if kind == "DATE":
        return lambda random: date.fromordinal(693_596 + int(random.random() * 54_000))  # 1900 to 2047
    if kind == "TIME":
        return lambda random: _time_of_day(int(random.random() * 86_400_000) // (1 if milliseconds else 1000), milliseconds)
    return lambda random: _EPOCH + timedelta(seconds=int((random.random() - 0.4) * 4e9), microseconds=random.getrandbits(19))


def _integer_maker(kind: str) -> ValueMaker:
    low, high = _integer_bounds(kind)
    bits = (high - low).bit_length()
    if kind == "UINT8":
        return lambda random: Decimal(random.getrandbits(bits) >> int(random.random() * bits))
    if low == 0:
        return lambda random: random.getrandbits(bits)
    # Shifted by a random number of bits, so that small numbers are as frequent as large ones.
    return lambda random: (random.getrandbits(bits) + low) >> int(random.random() * bits)


def _text_maker(column: SourceColumn) -> ValueMaker:
    limit = column.length or 1 << 20
    repeats = 12 if column.type in ("CLOB", "NCLOB") else 1

    def make(random: Random) -> SourceValue:
        word = _WORDS[int(random.random() * len(_WORDS))]
        text = f"{word} {random.getrandbits(20)}"
        if repeats > 1 and random.random() < 0.25:
            text = f"{text}, ü " * repeats
        return text[:limit]

    return make


def _time_of_day(count: int, milliseconds: bool) -> time:
    seconds, rest = divmod(count, 1000) if milliseconds else (count, 0)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)


def make_key(table: SourceTable, number: int) -> tuple[SourceValue, ...]:
    """Return the primary key for a number; different numbers have different keys.

    Args:
        number: From 0. The first numbers produce the extreme values of the key's types.

    Raises:
        InvalidInputError: the key's types do not have enough values.
    """
    columns = {column.name: column for column in table.versions[0]}
    parts: list[SourceValue] = []
    for name in reversed(table.key_columns[1:]):
        number, minor = divmod(number, _MINOR_KEYS)
        parts.append(_key_value(columns[name], minor))
    parts.append(_key_value(columns[table.key_columns[0]], number))
    return tuple(reversed(parts))


def _key_value(column: SourceColumn, number: int) -> SourceValue:
    kind = column.type
    if kind in ("STRING", "WSTRING"):
        turn, prefix = divmod(number, len(_KEY_PREFIXES))
        return f"{_KEY_PREFIXES[prefix]}{turn or ''}"
    if kind == "BYTES":
        return number.to_bytes(4, "little")
    if kind == "DATE":
        return date(1970, 1, 1) + timedelta(days=_zigzag(number))
    if kind == "DATETIME":
        return _EPOCH + timedelta(microseconds=_zigzag(number) * 61_000_001)
    low, high = (1 - 10**column.precision, 10**column.precision - 1) if kind == "NUMERIC" else _integer_bounds(kind)
    value = _key_integer(number, low, high)
    if value is None:
        raise InvalidInputError(
            f"column {column.name!r} of type {kind} cannot hold {number + 1} different keys",
            advice="Use a wider key, or simulate fewer rows and transactions",
        )
    if kind == "NUMERIC":
        return _decimal(value, column.scale)
    return Decimal(value) if kind == "UINT8" else value


def _key_integer(number: int, low: int, high: int) -> int | None:
    if number < 2:
        return low if number else high
    value = number - 1 if low == 0 else _zigzag(number - 2)
    return value if low < value < high else None


def _zigzag(number: int) -> int:
    return -(number >> 1) - 1 if number & 1 else number >> 1
