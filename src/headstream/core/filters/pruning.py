"""Decides from a summary whether a filter can match any of the messages. Works like evaluation.py, with sets of values.

The possible truth values of an expression are a set of bits: 1 << FALSE, 1 << TRUE, 1 << UNKNOWN, 1 << FAILED. The set can be
larger than necessary, but never too small: parts of AND and OR are assumed to be independent. Messages for which neither TRUE nor
FAILED is possible need not be read. Messages with FAILED are counted and can be delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Final, TypeAlias

from headstream.core.filters.evaluation import FAILED, FALSE, TRUE, UNKNOWN, compare_values, is_like
from headstream.core.filters.expression import (
    And,
    Compare,
    Condition,
    Expression,
    Field,
    FieldOf,
    Header,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operand,
    Or,
)
from headstream.core.filters.parser import ANY_CHARACTERS, ONE_CHARACTER
from headstream.core.filters.value_summary import ANY_NUMBER, ANY_TEXT, ANY_VALUE, ValueSummary, summary_of_value

_FALSE: Final = 1 << FALSE
_TRUE: Final = 1 << TRUE
_UNKNOWN: Final = 1 << UNKNOWN
_FAILED: Final = 1 << FAILED
_VALUES: Final = (FALSE, TRUE, UNKNOWN, FAILED)
_MAX_PAIRS: Final = 4096
"""Maximum number of pairs of listed values that are compared one by one: 64 times 64."""

_OF_FIELDS: Final = {Field.KEY: ANY_TEXT, Field.SIZE: ValueSummary(has_null=True, numbers=(0, float("inf")))}
"""Possible values, in any messages, of the fields that are not numbers; all other fields are numbers."""


class MessagesSummary:
    """The possible values of summarized headers, by name, and of fields in a range of messages."""

    __slots__ = ("_fields", "_headers")

    def __init__(self, headers: Mapping[str, ValueSummary], fields: Mapping[Field, ValueSummary]) -> None:
        self._headers = headers
        self._fields = fields

    def of(self, operand: Operand) -> ValueSummary:
        """Return the summary of an operand's possible values in the messages."""
        match operand:
            case Literal(value):
                return summary_of_value(value)
            case Header(name, _):
                return self._headers.get(name, ANY_VALUE)
            case FieldOf(field, _):
                return self._fields.get(field) or _OF_FIELDS.get(field, ANY_NUMBER)


def may_match(expression: Expression, messages: MessagesSummary) -> bool:
    """Return whether an expression can be true or fail for any of the messages."""
    return bool(possible_truths(expression, messages) & (_TRUE | _FAILED))


def possible_truths(expression: Expression, messages: MessagesSummary) -> int:
    """Return the possible truth values of an expression as bits 1 << value."""
    match expression:
        case And(parts):
            return reduce(_and, (possible_truths(part, messages) for part in parts))
        case Or(parts):
            return reduce(_or, (possible_truths(part, messages) for part in parts))
        case Not(inner):
            truths = possible_truths(inner, messages)
            return (truths & (_UNKNOWN | _FAILED)) | (_TRUE if truths & _FALSE else 0) | (_FALSE if truths & _TRUE else 0)
        case IsNull(operand):
            found = messages.of(operand)
            return (_TRUE if found.has_null else 0) | (_FALSE if found.has_value else 0)
        case Compare(test, left, right):
            return _compare(test, messages.of(left), messages.of(right))
        case In(operand, choices):
            found = messages.of(operand)
            return reduce(_or, (_compare("=", found, messages.of(choice)) for choice in choices))
        case Like(operand, pattern):
            return _like(messages.of(operand), pattern)
        case Condition(operand):
            return _condition(messages.of(operand))


def _combined(decisive: int) -> Callable[[int, int], int]:
    """Return the function that combines the truth values of two parts of AND (decisive value FALSE) or OR (TRUE)."""

    def join_two(one: int, other: int) -> int:
        return decisive if decisive in (one, other) else max(one, other)

    def join(ones: int, others: int) -> int:
        pairs = ((one, other) for one in _VALUES if ones >> one & 1 for other in _VALUES if others >> other & 1)
        return _bits(join_two(one, other) for one, other in pairs)

    return join


_and: Final = _combined(FALSE)
_or: Final = _combined(TRUE)


def _bits(values: Iterable[int]) -> int:
    return reduce(lambda bits, value: bits | 1 << value, values, 0)


def _compare(test: str, left: ValueSummary, right: ValueSummary) -> int:
    found = _UNKNOWN if left.has_null or right.has_null else 0
    if not (left.has_value and right.has_value):
        return found
    if _may_be_incomparable(left, right):
        found |= _FAILED
    if left.values is not None and right.values is not None and len(left.values) * len(right.values) <= _MAX_PAIRS:
        found |= _bits(compare_values(test, one, other) for one in left.values for other in right.values)
    else:
        found |= _bits(compare_values(test, one, other) for one in left.booleans for other in right.booleans)
        found |= _compare_ranges(test, left, right)
    if (left.has_nan and right.has_numbers) or (right.has_nan and left.has_numbers):
        found |= _TRUE if test == "<>" else _FALSE
    return found


def _may_be_incomparable(left: ValueSummary, right: ValueSummary) -> bool:
    """Return whether values of the two summaries can have different types."""
    if left.has_opaque or right.has_opaque:
        return True
    ones = (bool(left.booleans), left.has_numbers, left.texts is not None)
    others = (bool(right.booleans), right.has_numbers, right.texts is not None)
    return any(one and other for i, one in enumerate(ones) for k, other in enumerate(others) if i != k)


def _compare_ranges(test: str, left: ValueSummary, right: ValueSummary) -> int:
    """Return the possible truth values of a comparison of two numbers other than NaN, or of two strings."""
    found = 0
    ranges: tuple[tuple[_Range, _Range], ...] = ((left.numbers, right.numbers), (left.texts, right.texts))
    for ones, others in ranges:
        if ones is not None and others is not None:
            is_less = others[1] is None or ones[0] < others[1]
            is_greater = ones[1] is None or ones[1] > others[0]
            found |= _of_orders(test, is_less, is_greater, _may_equal(left, right, ones, others))
    return found


_Range: TypeAlias = tuple[Any, Any] | None
"""The smallest and the largest number or string; None if there is no bound."""


def _may_equal(left: ValueSummary, right: ValueSummary, ones: tuple[Any, Any], others: tuple[Any, Any]) -> bool:
    """Return whether values of two ranges can be equal; a single value is looked up in the other range's Bloom filter."""
    if others[0] == others[1]:
        return left.may_equal(others[0])
    if ones[0] == ones[1]:
        return right.may_equal(ones[0])
    return (others[1] is None or ones[0] <= others[1]) and (ones[1] is None or others[0] <= ones[1])


def _of_orders(test: str, is_less: bool, is_greater: bool, is_equal: bool) -> int:
    """Return the possible truth values of a test if the first value can be less than, greater than or equal to the second."""
    outcomes = ((-1, is_less), (1, is_greater), (0, is_equal))
    return _bits(compare_values(test, order, 0) for order, is_possible in outcomes if is_possible)


def _like(found: ValueSummary, pattern: bytes) -> int:
    truths = _UNKNOWN if found.has_null else 0
    if found.has_opaque or found.booleans or found.has_numbers:
        truths |= _FAILED
    if found.texts is None:
        return truths
    if found.values is not None:
        return truths | _bits(int(is_like(value, pattern)) for value in found.values if isinstance(value, bytes))
    prefix = pattern.partition(ANY_CHARACTERS)[0].partition(ONE_CHARACTER)[0]
    least, most = found.texts
    is_outside = (most is not None and most < prefix) or (least > prefix and not least.startswith(prefix))
    return truths | _FALSE | (0 if is_outside else _TRUE)


def _condition(found: ValueSummary) -> int:
    truths = _UNKNOWN if found.has_null else 0
    if found.has_opaque or found.has_numbers or found.texts is not None:
        truths |= _FAILED
    return truths | _bits(map(int, found.booleans))
