"""ValueSummary: the possible values of a header or a field in a range of messages.

A summary can contain values that no message has, but it contains every value that a message has. Therefore, if no possible value
satisfies a filter, no message satisfies the filter.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from headstream.core.codec.batch.stored.summaries import hash_value
from headstream.core.filters.expression import LiteralValue

Number: TypeAlias = int | float
Scalar: TypeAlias = bool | int | float | bytes
"""A value that is neither null nor of an unknown kind; a string is represented by its bytes."""

_WHOLE: Final = struct.Struct("<3B5xQQ")
_WHOLE_TYPE: Final = 1
"""The type of a whole number in core/codec/batch/stored/filter_scan.py, whose layout of a value is hashed."""
_MASK64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Bloom:
    """A Bloom filter of integers and strings, which contains every value of the messages.

    Bit number (low + i * (high | 1)) modulo the number of bits is set for i from 0 to hashes - 1, where low and high are the
    halves of hash_value(). The number of bytes is a power of two; bit n is bit n % 8 of byte n // 8.
    """

    bits: bytes | memoryview
    hashes: int

    def may_have(self, value: int | bytes) -> bool:
        """Return whether a value may have been added."""
        if isinstance(value, bytes):
            low, high = hash_value(value, is_text=True)
        else:
            size = abs(value)
            low, high = hash_value(_WHOLE.pack(_WHOLE_TYPE, int(value < 0), 0, size & _MASK64, size >> 64), is_text=False)
        mask = len(self.bits) * 8 - 1
        numbers = ((low + i * (high | 1)) & mask for i in range(self.hashes))
        return all(self.bits[number >> 3] >> (number & 7) & 1 for number in numbers)


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """The possible values of a header or a field.

    Args:
        numbers: The smallest and the largest possible number, including infinities but not NaN; None if no number is possible.
        texts: The smallest possible string, and an upper bound or None; None if no string is possible.
        values: All possible values except null, NaN and values of unknown kinds; None if the values are not listed.
        bloom: The possible integers and strings; None if there is no Bloom filter.
        has_floats: Whether floats are possible, which `bloom` does not contain.
    """

    has_null: bool = False
    has_opaque: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: tuple[Number, Number] | None = None
    has_nan: bool = False
    texts: tuple[bytes, bytes | None] | None = None
    values: tuple[Scalar, ...] | None = None
    bloom: Bloom | None = None
    has_floats: bool = True

    @property
    def has_numbers(self) -> bool:
        """Whether a number, including NaN, is possible."""
        return self.numbers is not None or self.has_nan

    @property
    def has_value(self) -> bool:
        """Whether anything but null is possible."""
        return self.has_opaque or bool(self.booleans) or self.has_numbers or self.texts is not None

    def may_equal(self, value: Scalar) -> bool:
        """Return whether a possible value can equal a given value other than NaN; numbers are compared exactly."""
        if isinstance(value, bool):
            return value in self.booleans
        if self.values is not None:
            return any(_is_equal(each, value) for each in self.values)
        if isinstance(value, bytes):
            return self._may_be_text(value)
        if self.numbers is None or not self.numbers[0] <= value <= self.numbers[1]:
            return False
        if self.bloom is None or self.has_floats:
            return True
        if isinstance(value, float):
            if not value.is_integer():
                return False
            value = int(value)
        return abs(value) >> 128 == 0 and self.bloom.may_have(value)

    def _may_be_text(self, value: bytes) -> bool:
        if self.texts is None or value < self.texts[0] or (self.texts[1] is not None and value > self.texts[1]):
            return False
        return self.bloom is None or self.bloom.may_have(value)


def _is_equal(one: Scalar, other: Scalar) -> bool:
    is_boolean, is_text = isinstance(one, bool), isinstance(one, bytes)
    return (is_boolean, is_text) == (isinstance(other, bool), isinstance(other, bytes)) and one == other


def summary_of_value(value: LiteralValue) -> ValueSummary:
    """Return the summary for a value that all messages have."""
    if value is None:
        return ValueSummary(has_null=True)
    if isinstance(value, bool):
        return ValueSummary(booleans=frozenset({value}), values=(value,))
    if isinstance(value, bytes):
        return ValueSummary(texts=(value, value), values=(value,))
    if math.isnan(value):
        return ValueSummary(has_nan=True, values=())
    return ValueSummary(numbers=(value, value), values=(value,))


def whole_range(least: int, most: int) -> ValueSummary:
    """Return the summary for a field whose values are integers from `least` to `most`, inclusive."""
    return ValueSummary(numbers=(least, most))


ANY_NUMBER: Final = ValueSummary(numbers=(-math.inf, math.inf))
"""The summary of a field that is always a number."""
ANY_TEXT: Final = ValueSummary(has_null=True, texts=(b"", None))
"""The summary of a field that is a string or null."""
ANY_VALUE: Final = ValueSummary(
    has_null=True,
    has_opaque=True,
    booleans=frozenset({False, True}),
    numbers=(-math.inf, math.inf),
    has_nan=True,
    texts=(b"", None),
)
"""The summary of a header whose values are unknown."""
