"""Evaluates a filter for a decoded message, as core/codec/batch/stored/filter_scan.py does for a stored message.

A truth value is FALSE, TRUE, UNKNOWN (as in SQL, the result of a comparison with NULL) or FAILED (the result of comparing values
that cannot be compared, such as a number and a string). AND is FALSE if any part is FALSE, and OR is TRUE if any part is TRUE;
otherwise the result is the part that is last in the order FALSE, TRUE, UNKNOWN, FAILED. NOT exchanges FALSE and TRUE. FAILED is
treated like UNKNOWN but takes precedence over UNKNOWN, so the result does not depend on the order of evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

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
from headstream.core.model.header_arithmetic import is_number
from headstream.core.model.header_kinds import HeaderKind
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.message import ReceivedMessage

FALSE: Final = 0
TRUE: Final = 1
UNKNOWN: Final = 2
FAILED: Final = 3


class _Opaque:
    """A value of a kind unknown to this version: it is not null, and cannot be compared."""


_OPAQUE: Final = _Opaque()
_Value: TypeAlias = None | bool | int | float | bytes | _Opaque

_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def evaluate(expression: Expression, message: ReceivedMessage) -> int:
    """Return the truth value of an expression for a message: FALSE, TRUE, UNKNOWN or FAILED."""
    match expression:
        case And(parts):
            values = [evaluate(part, message) for part in parts]
            return FALSE if FALSE in values else max(values)
        case Or(parts):
            values = [evaluate(part, message) for part in parts]
            return TRUE if TRUE in values else max(values)
        case Not(inner):
            value = evaluate(inner, message)
            return 1 - value if value < UNKNOWN else value
        case IsNull(operand):
            return int(_value_of(operand, message) is None)
        case Compare(test, left, right):
            return _compare(test, _value_of(left, message), _value_of(right, message))
        case In(operand, choices):
            values = [_compare("=", _value_of(operand, message), _value_of(choice, message)) for choice in choices]
            return TRUE if TRUE in values else max(values)
        case Like(operand, pattern):
            return _like(_value_of(operand, message), pattern)
        case Condition(operand):
            return _truth_of(_value_of(operand, message))


def _like(value: _Value, pattern: bytes) -> int:
    if not isinstance(value, bytes):
        return UNKNOWN if value is None else FAILED
    return int(is_like(value, pattern))


def is_like(text: bytes, pattern: bytes) -> bool:
    """Return whether a string matches the pattern of a Like."""
    return _compiled(pattern).fullmatch(text) is not None


def _truth_of(value: _Value) -> int:
    if not isinstance(value, bool):
        return UNKNOWN if value is None else FAILED
    return int(value)


def find_failure(expression: Expression, message: ReceivedMessage) -> str:
    """Return why a typed expression fails for a message: the headers that cannot be compared, with their kinds."""
    match expression:
        case And(parts) | Or(parts):
            return next(find_failure(part, message) for part in parts if evaluate(part, message) == FAILED)
        case Not(inner):
            return find_failure(inner, message)
    return "it compares " + " with ".join(_describe(operand, message) for operand in _failing(expression, message))


def _failing(expression: Expression, message: ReceivedMessage) -> list[Operand]:
    """Return the operands of a comparison that fails."""
    match expression:
        case Compare(_, left, right):
            return [left, right]
        case In(operand, choices):
            value = _value_of(operand, message)
            failing = (choice for choice in choices if _compare("=", value, _value_of(choice, message)) == FAILED)
            return [operand, next(failing)]
        case Like(operand, pattern):
            return [operand, Literal(pattern, 0, "a pattern")]
        case Condition(operand):
            return [operand, Literal(True, 0, "TRUE")]
    return []


def _describe(operand: Operand, message: ReceivedMessage) -> str:
    match operand:
        case Literal():
            return operand.text
        case FieldOf(field, _):
            return field.value
    return f"the header {operand.name!r}, of kind {message.headers[operand.name].kind_name},"


def _value_of(operand: Operand, message: ReceivedMessage) -> _Value:
    match operand:
        case Literal(value):
            return value
        case Header(name, _):
            found = message.headers.get(name)
            return None if found is None else _header_value(found)
        case FieldOf(field, _):
            return _FIELDS[field](message)


def _header_value(value: HeaderValue) -> _Value:
    kind = value.kind
    if kind in (HeaderKind.RAW, HeaderKind.STRING):
        return value.data
    if kind not in _KNOWN:
        return _OPAQUE
    plain = value.value
    return plain.encode("utf-8", "surrogatepass") if isinstance(plain, str) else plain


_KNOWN: Final = frozenset(int(kind) for kind in HeaderKind)
_FIELDS: Final[dict[Field, Callable[[ReceivedMessage], _Value]]] = {
    Field.OFFSET: lambda message: message.offset,
    Field.TIMESTAMP: lambda message: message.timestamp,
    Field.STATE: lambda message: int(message.state),
    Field.ID: lambda message: message.id,
    Field.KEY: lambda message: message.key,
    Field.SIZE: lambda message: None if message.payload is None else len(message.payload),
}


def compare_values(test: str, left: bool | int | float | bytes, right: bool | int | float | bytes) -> int:
    """Return the truth value of a comparison of two values: FALSE, TRUE, or FAILED if the values have different types."""
    return _compare(test, left, right)


def _compare(test: str, left: _Value, right: _Value) -> int:
    if left is None or right is None:
        return UNKNOWN
    order = _order(left, right)
    if order is None:
        return FAILED
    if order != order:  # a NaN is neither less than, equal to nor greater than anything
        return int(test == "<>")
    return int(_ORDERS[test](int(order)))


def _order(left: _Value, right: _Value) -> float | None:
    """Return the order of two values as a number below, equal to or above 0; NaN if either is NaN; None if there is no order."""
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return (left > right) - (left < right)
    if is_number(left) and is_number(right):
        if left != left or right != right:
            return float("nan")
        return (left > right) - (left < right)  # type: ignore[operator]  # both are numbers
    return None


@lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Return the regular expression for a pattern; a character is a byte with its continuation bytes.

    The part after an ANY_CHARACTERS is searched once, from the left, so the time is proportional to the product of both lengths.
    """
    one = rb"[\x00-\xff][\x80-\xbf]*+"
    first, *others = (
        b"".join(one if byte == ONE_CHARACTER[0] else re.escape(bytes([byte])) for byte in piece)
        for piece in pattern.split(ANY_CHARACTERS)
    )
    if not others:
        return re.compile(first)
    middle = b"".join(b"(?>(?:" + one + b")*?" + piece + b")" for piece in others[:-1])
    return re.compile(first + middle + b"(?:" + one + b")*" + others[-1])
