"""Converts literals to the type of the field with which they are compared, and rejects comparisons that can never be true.

_state = 'poisoned'              the state's code
_timestamp >= '2026-01-31'       microseconds since 1970 UTC
_id = '0190b6c4-...'             the number of that id
_size > 'x'   1 = 'a'            errors: a number cannot be compared with a string
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headstream.core.filters.expression import (
    FIELD_TYPES,
    And,
    Compare,
    Condition,
    Expression,
    Field,
    FieldOf,
    Header,
    In,
    Like,
    Literal,
    Not,
    Operand,
    Or,
    ValueType,
)
from headstream.core.filters.parser import parse_time
from headstream.core.filters.tokens import filter_error
from headstream.core.model.identifiers import parse_message_id
from headstream.core.model.message import parse_state
from headstream.errors import InvalidInputError

_READERS: Final[dict[Field, tuple[Callable[[str], int], str]]] = {
    Field.STATE: (
        lambda text: int(parse_state(text)),
        "a state: available, unavailable, poisoned, marked_for_deletion, unknown(n)",
    ),
    Field.TIMESTAMP: (parse_time, "a time such as 2026-01-31T12:00:00Z"),
    Field.ID: (parse_message_id, "a message id: a UUID or a number"),
}


def apply_types(expression: Expression, source: str) -> Expression:
    """Return an expression whose literals have the types of the fields with which they are compared."""
    return _Typing(source).apply(expression)


class _Typing:
    def __init__(self, source: str) -> None:
        self._source = source

    def apply(self, expression: Expression) -> Expression:
        match expression:
            case And(parts):
                return And(tuple(map(self.apply, parts)))
            case Or(parts):
                return Or(tuple(map(self.apply, parts)))
            case Not(inner):
                return Not(self.apply(inner))
            case Compare(test, left, right):
                return Compare(test, *self._comparable(left, right, test in ("=", "<>")))
            case In(operand, choices):
                pairs = [self._comparable(operand, choice, True) for choice in choices]
                return In(operand, tuple(choice for _, choice in pairs if isinstance(choice, Literal)))
            case Like(operand, _):
                self._check(operand, ValueType.TEXT, "LIKE requires a string")
            case Condition(operand):
                self._check(operand, ValueType.BOOLEAN, "a condition must be true or false")
        return expression

    def _comparable(self, left: Operand, right: Operand, is_equality: bool) -> tuple[Operand, Operand]:
        left, right = self._beside(left, right, is_equality), self._beside(right, left, is_equality)
        first, second = _type_of(left), _type_of(right)
        if first is not None and second is not None and first is not second:
            raise self._error(right, f"{first.value} cannot be compared with {second.value}: {self._text_of(right)}")
        return left, right

    def _beside(self, operand: Operand, other: Operand, is_equality: bool) -> Operand:
        """Return an operand; a quoted string is converted to a value of the field on the other side."""
        if not isinstance(operand, Literal) or not operand.is_quoted or not isinstance(other, FieldOf):
            return operand
        if other.field not in _READERS:
            return operand
        if other.field is Field.STATE and not is_equality:
            raise self._error(operand, "states have no order: compare states with =, <> or IN")
        read, expected = _READERS[other.field]
        value = operand.value
        try:
            return replace(operand, value=read(value.decode() if isinstance(value, bytes) else ""), is_quoted=False)
        except (ValueError, OverflowError):
            raise self._error(operand, f"{operand.text} is not {expected}") from None

    def _check(self, operand: Operand, wanted: ValueType, what: str) -> None:
        found = _type_of(operand)
        if found is not None and found is not wanted:
            raise self._error(operand, f"{what}, but {self._text_of(operand)} is {found.value}")

    def _text_of(self, operand: Operand) -> str:
        match operand:
            case Literal():
                return operand.text
            case FieldOf(field, _):
                return field.value
        return operand.name

    def _error(self, operand: Operand, what: str) -> InvalidInputError:
        return filter_error(self._source, operand.at, what)


def _type_of(operand: Operand) -> ValueType | None:
    """Return the type of an operand; None for NULL and for a header, whose kind depends on the message."""
    match operand:
        case Header() | Literal(value=None):
            return None
        case FieldOf(field, _):
            return FIELD_TYPES[field]
        case Literal(value=bool()):
            return ValueType.BOOLEAN
        case Literal(value=bytes()):
            return ValueType.TEXT
    return ValueType.NUMBER
